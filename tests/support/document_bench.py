"""Bench of the documents' conformance suite: its input and its notebooks."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.notebooks.notebook_files import FileChanged, FileVersion, FolderHandle
from tk_ai_extension.notebooks.notebook_store import NotebookStore

DEADLINE = 20.0
"""Timeout of waits in tests, in seconds."""


class Person(Protocol):
    """A person who edits a notebook by other means than the tools."""

    async def sources(self, path: str) -> list[str]:
        """Return the visible sources."""
        ...

    async def type(self, path: str, index: int, text: str) -> None:
        """Type at the end of a cell."""
        ...

    async def insert(self, path: str, index: int, source: str) -> None:
        """Insert a code cell."""
        ...

    async def delete(self, path: str, index: int) -> None:
        """Delete a cell."""
        ...

    async def move(self, path: str, index: int, to: int) -> None:
        """Move a cell."""
        ...


@dataclass
class DocumentBench:
    """Everything that the suite needs.

    Attributes:
        store: The store of the tested documents.
        backend: Expected `NotebookDocument.backend`.
        root: The folder of the notebooks.
        person: A person who edits them.
        settle: Waits until the file of a path matches its document.
        keeps_bytes: Whether unedited parts of the file stay byte-identical.
        says_where: Whether errors of broken notebooks have the position.
        one_step: Whether a save is atomic for other writers.
    """

    store: NotebookStore
    backend: str
    root: Path
    person: Person
    settle: Callable[[str], Any]
    keeps_bytes: bool = False
    says_where: bool = True
    one_step: bool = True
    _names: itertools.count[int] = field(default_factory=itertools.count)

    def put(self, content: Json | bytes, name: str | None = None) -> str:
        """Write a file, as another program would; return its path."""
        path = name or f"n{next(self._names)}-{uuid4().hex[:6]}.ipynb"
        data = content if isinstance(content, bytes) else written(content)
        (self.root / path).write_bytes(data)
        return path

    async def open(self, content: Json | bytes) -> NotebookDocument:
        """Open the document of a new file."""
        return await self.store.open(self.put(content))

    async def on_disk(self, document: NotebookDocument) -> Json:
        """Return the notebook in the file, once the file matches the document."""
        await self.settle(document.path)
        return json.loads((self.root / document.path).read_bytes())


# --- notebooks


def written(notebook: Json) -> bytes:
    """Serialize a notebook as nbformat does."""
    text = json.dumps(
        notebook, ensure_ascii=False, indent=1, sort_keys=True, separators=(",", ": ")
    )
    return f"{text}\n".encode()


def code(source: str = "", cell_id: str | None = None, **fields: Any) -> Json:
    """Create a stored code cell."""
    cell: Json = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": source.splitlines(keepends=True),
    }
    return {**cell, **({"id": cell_id} if cell_id else {}), **fields}


def prose(source: str = "", cell_id: str | None = None, **fields: Any) -> Json:
    """Create a stored markdown cell."""
    cell: Json = {
        "cell_type": "markdown",
        "metadata": {},
        "source": source.splitlines(keepends=True),
    }
    return {**cell, **({"id": cell_id} if cell_id else {}), **fields}


def notebook(*cells: Json, minor: int = 5, **fields: Any) -> Json:
    """Create a stored notebook; cells get ids if the format has them."""
    named = [
        {**cell, "id": cell.get("id", f"{'abcdefghijklmnopqrstuvwxyz'[n % 26]}{n:04}00")}
        if minor >= 5
        else cell
        for n, cell in enumerate(cells)
    ]
    return {
        "cells": named,
        "metadata": {
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": minor,
        **fields,
    }


def stream(text: str, name: str = "stdout") -> Json:
    """Create a stream output."""
    return {"output_type": "stream", "name": name, "text": text}


def display(**data: Any) -> Json:
    """Create a display output; ``text_plain`` stands for ``text/plain``."""
    bundle = {mime.replace("_", "/", 1): value for mime, value in data.items()}
    return {"output_type": "display_data", "data": bundle, "metadata": {}}


def sources(cells: Sequence[Any]) -> list[str]:
    """Return the joined sources of stored cells, or of a snapshot."""
    return [cell.source if hasattr(cell, "source") else "".join(cell["source"]) for cell in cells]


class FilePerson:
    """A person with an editor that replaces the file atomically."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def sources(self, path: str) -> list[str]:
        """See `Person.sources`."""
        return sources(json.loads((self._root / path).read_bytes())["cells"])

    async def type(self, path: str, index: int, text: str) -> None:
        """See `Person.type`."""

        def change(cells: list[Json]) -> None:
            source: str = "".join(cells[index]["source"]) + text
            cells[index]["source"] = source.splitlines(keepends=True)

        self._edit(path, change)

    async def insert(self, path: str, index: int, source: str) -> None:
        """See `Person.insert`."""
        self._edit(path, lambda cells: cells.insert(index, code(source, uuid4().hex[:8])))

    async def delete(self, path: str, index: int) -> None:
        """See `Person.delete`."""
        self._edit(path, lambda cells: cells.__delitem__(index))

    async def move(self, path: str, index: int, to: int) -> None:
        """See `Person.move`."""
        self._edit(path, lambda cells: cells.insert(to, cells.pop(index)))

    def _edit(self, path: str, change: Callable[[list[Json]], None]) -> None:
        file = self._root / path
        while True:
            version = FileVersion.of(file.stat())
            stored = json.loads(file.read_bytes())
            change(stored["cells"])
            try:
                FolderHandle(file.parent).replace(file.name, written(stored), version)
            except FileChanged:
                continue
            return
