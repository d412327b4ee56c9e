"""People and programs that edit a notebook by other means than the tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Protocol

from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks.atomic_file import FileVersion, Folder
from tk_ai_extension.notebooks.base import FileChanged
from tk_ai_extension.testing.concurrency.agents import Names
from tk_ai_extension.testing.concurrency.history import CellState, PersonEdit
from tk_ai_extension.testing.concurrency.kernels import line
from tk_ai_extension.testing.document_bench import code, written
from tk_ai_extension.testing.room_person import RoomPerson
from tk_ai_extension.testing.tab_page import TabPage

Choose = Callable[[Sequence[CellState]], PersonEdit]
"""Chooses an edit, given the cells at that moment."""


class Person(Protocol):
    """Somebody who edits a notebook, based on what they see at that moment."""

    async def edit(self, path: str, choose: Choose) -> PersonEdit:
        """Carry out the choice of ``choose`` atomically."""
        ...

    async def cells(self, path: str) -> list[CellState]:
        """Return the visible cells."""
        ...


def choice(random: Random, names: Names) -> Choose:
    """Choose a random edit."""

    def choose(cells: Sequence[CellState]) -> PersonEdit:
        at = random.randrange(len(cells))
        key, token = cells[at].key, names.token("p")
        kind = random.choice(["insert", "type", "type", "move", "delete"])
        if kind == "insert" or len(cells) < 12:
            source = names.source("p")
            return PersonEdit("insert", f"{token}person", random.choice([0, at]), source)
        if kind == "move":
            return PersonEdit("move", key, random.choice([0, at]))
        if kind == "delete":
            return PersonEdit("delete", key)
        return PersonEdit("type", key, text=f"\n{line(token)}")

    return choose


class RoomTypist:
    """A person in the shared document of a collaboration room.

    Args:
        extension: jupyter-collaboration's extension.
    """

    def __init__(self, extension: Any) -> None:
        self._person = RoomPerson(extension)

    async def edit(self, path: str, choose: Choose) -> PersonEdit:
        """See `Person.edit`: one transaction."""
        document = await self._person.document(path)
        cells = _states(document.source["cells"])
        edit = choose(cells)
        shared = document.ycells
        at = next((n for n, cell in enumerate(cells) if cell.key == edit.key), 0)
        with document.ydoc.transaction():
            if edit.kind == "insert":
                shared.insert(edit.index, document.create_ycell(_new(edit)))
            elif edit.kind == "type":
                text = shared[at]["source"]
                text.insert(len(text), edit.text)
            elif edit.kind == "delete":
                del shared[at]
            else:
                # As JupyterLab does: a copy replaces the cell.
                stored = {**document.get_cell(at), "id": edit.key}
                del shared[at]
                shared.insert(edit.index, document.create_ycell(stored))
        return edit

    async def cells(self, path: str) -> list[CellState]:
        """See `Person.cells`."""
        return _states((await self._person.document(path)).source["cells"])


class TabTypist:
    """A person in a page of JupyterLab without collaboration.

    Args:
        page: The page.
    """

    def __init__(self, page: TabPage) -> None:
        self._page = page

    async def edit(self, path: str, choose: Choose) -> PersonEdit:
        """See `Person.edit`."""
        notebook = await self._page.opened(path)
        cells = _states(notebook.cells)
        edit = choose(cells)
        at = next((n for n, cell in enumerate(cells) if cell.key == edit.key), 0)
        if edit.kind == "insert":
            notebook.insert(edit.index, _new(edit))
        elif edit.kind == "type":
            notebook.edit(notebook.cells[at], source=cells[at].source + edit.text)
        elif edit.kind == "delete":
            notebook.delete(at)
        else:
            notebook.insert(edit.index, notebook.delete(at))
        await self._page.report()
        return edit

    async def cells(self, path: str) -> list[CellState]:
        """See `Person.cells`."""
        return _states((await self._page.opened(path)).cells)


class Program:
    """Another program that replaces the file atomically.

    Args:
        root: The folder of the notebooks.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    async def edit(self, path: str, choose: Choose) -> PersonEdit:
        """See `Person.edit`: replaces the file only if its version is unchanged."""
        file = self._root / path
        while True:
            version = FileVersion.of(file.stat())
            stored = json.loads(file.read_bytes())
            cells: list[Json] = stored["cells"]
            edit = choose(_states(cells))
            at = next((n for n, cell in enumerate(cells) if cell["id"] == edit.key), 0)
            if edit.kind == "insert":
                cells.insert(edit.index, code(edit.text, edit.key))
            elif edit.kind == "type":
                source: str = "".join(cells[at]["source"]) + edit.text
                cells[at]["source"] = source.splitlines(keepends=True)
            elif edit.kind == "delete":
                del cells[at]
            else:
                cells.insert(edit.index, cells.pop(at))
            try:
                Folder(file.parent).replace(file.name, written(stored), version)
            except FileChanged:
                continue
            return edit

    async def cells(self, path: str) -> list[CellState]:
        """See `Person.cells`."""
        return _states(json.loads((self._root / path).read_bytes())["cells"])


def _states(cells: Sequence[Json]) -> list[CellState]:
    return [CellState(cell["id"], cell["cell_type"], "".join(cell["source"])) for cell in cells]  # pyrefly: ignore[unknown-argument-type]


def _new(edit: PersonEdit) -> Json:
    return code(edit.text, edit.key) | {"source": edit.text}
