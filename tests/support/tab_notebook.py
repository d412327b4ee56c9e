"""A notebook in a page of JupyterLab: its cells, their versions, and requests of the server."""

from __future__ import annotations

import asyncio
import copy
import json
import uuid
from itertools import count
from typing import Any, cast

from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.output_changes import stream_text
from tk_ai_extension.notebooks import notebook_json


class TabNotebook:
    """An open notebook.

    Args:
        path: Its path.
        content: Its content from the contents API.
        hash: The file's hash.

    Attributes:
        name: The page's name for it; a new one after a reload.
        cells: Stored cells, each with an id in any format, and with joined sources.
        version: Increases with each change.
        saved_version: The version in the file.
        operations: Completed operations of the server.
        saving: Held during a save.
        held: Set when the server has written the file.
        focused: Whether it has the focus.
    """

    def __init__(self, path: str, content: Json, hash: str) -> None:  # noqa: A002
        self.path = path
        self.name = uuid.uuid4().hex
        self.version = self.saved_version = 0
        self.operations: dict[str, None] = {}
        self.saving = asyncio.Lock()
        self.focused = True
        self.held: asyncio.Event | None = None
        self._saved_cells: list[Json] = []
        self._held_as: tuple[int, list[Json]] = 0, []
        self._is_unknown = False
        self._outputs: dict[str, tuple[int, list[Json]]] = {}
        self.load(content, hash)

    def load(self, content: Json, hash: str) -> None:  # noqa: A002
        """Load the file's content."""
        self.hash = hash
        content = copy.deepcopy(content)
        self.cells = cast("list[Json]", content.pop("cells"))
        self.rest = content
        self._cell_at: dict[str, int] = {}
        for cell in self.cells:
            cell["source"] = notebook_json.joined(cell["source"])
            cell.setdefault("id", str(uuid.uuid4()))
            self._touch(cell)
        self._order_at = self._rest_at = self._next()
        self.is_saved(self.version)

    def _next(self) -> int:
        self.version += 1
        return self.version

    def _touch(self, cell: Json) -> None:
        self._cell_at[cell["id"]] = self._next()

    @property
    def dirty(self) -> bool:
        """Whether there are unsaved changes."""
        return self.version > self.saved_version

    def is_saved(self, version: int, cells: list[Json] | None = None) -> None:
        """Note that the file has a version, with these cells; default: the present ones."""
        self.saved_version = version
        self._saved_cells = copy.deepcopy(self.cells) if cells is None else cells
        self._is_unknown = False

    def offer(self) -> Json | None:
        """Return what the file lacks, which the server has to write; None if the page saves."""
        is_whole = self._rest_at > self.saved_version
        if not self.dirty or self.held or self.saving.locked() or self._is_unknown or is_whole:
            return None
        numbers = {cell["id"]: number for number, cell in enumerate(self._saved_cells)}
        added = count(-1, -1)
        cells: Json = {}
        present: list[Json] = []
        order: list[list[int]] = []
        for cell in self.cells:
            number = numbers.get(cell["id"])
            if number is None:
                number = next(added)
            if order and order[-1][1] == number:
                order[-1][1] += 1
            else:
                order.append([number, number + 1])
            old = self._saved_cells[number] if number >= 0 else {}
            if old and self._cell_at[cell["id"]] <= self.saved_version:
                present.append(old)
                continue
            now = copy.deepcopy(cell)
            present.append(now)
            cells[str(number)] = {name: now[name] for name in now if old.get(name) != now[name]}
        self.held = asyncio.Event()
        self._held_as = self.version, present
        return {"base": self.hash, "order": order, "cells": cells}

    def written(self, digest: str | None) -> None:
        """Note that the server has written the file, or has not."""
        if self.held is None:
            return
        self.held.set()
        self.held = None
        self._is_unknown = digest is None
        if digest is not None:
            self.hash = digest
            self.is_saved(*self._held_as)

    def description(self) -> Json:
        """Return its entry in the page's report."""
        return {"id": self.name, "path": self.path, "dirty": self.dirty, "focused": self.focused}

    def stored(self) -> Json:
        """Return the stored form."""
        cells = [dict(cell) for cell in self.cells]
        for cell in cells:
            cell.pop("execution_state", None)
            if not notebook_json.has_ids((self.rest["nbformat"], self.rest["nbformat_minor"])):
                del cell["id"]
        return {**self.rest, "cells": cells}

    # --- edits of a person

    def edit(self, cell: Json, **fields: Any) -> None:
        """Change fields of a cell."""
        cell.update(fields)
        self._touch(cell)

    def describe(self, **metadata: Any) -> None:
        """Change the notebook's metadata, which a page saves itself."""
        self.rest["metadata"] |= metadata
        self._rest_at = self._next()

    def insert(self, index: int, cell: Json) -> None:
        """Insert a cell."""
        self.cells.insert(index, cell)
        self._touch(cell)
        self._order_at = self._next()

    def delete(self, index: int) -> Json:
        """Delete a cell and return it."""
        self._order_at = self._next()
        return self.cells.pop(index)

    def find(self, cell_id: str) -> int | None:
        """Return the index of a cell."""
        found = (n for n, cell in enumerate(self.cells) if cell["id"] == cell_id)
        return next(found, None)

    # --- requests of the server

    def changes(self, since: int, limit: int, ordered: int = 0) -> Json:
        """Return the changes since a version, or the first part of them; the order since another one."""
        updated = [cell for cell in self.cells if self._cell_at[cell["id"]] > since]
        updated.sort(key=lambda cell: self._cell_at[cell["id"]])
        changed: dict[str, Json] = {}
        size, version, more = 0, self.version, False
        for cell in updated:
            size += len(json.dumps(cell))
            if changed and size > limit:
                more = True
                break
            changed[cell["id"]] = copy.deepcopy(cell)
            version = self._cell_at[cell["id"]]
        answer: Json = {"version": version if more else self.version, "changed": changed}
        if self._order_at > max(since, ordered):
            answer["order"] = [cell["id"] for cell in self.cells]
        if self._rest_at > since:
            answer["metadata"] = copy.deepcopy(self.rest["metadata"])
            answer["nbformat"] = [self.rest["nbformat"], self.rest["nbformat_minor"]]
        return {**answer, "more": more}

    def apply(self, question: Json, limit: int) -> Json:
        """Apply steps if their preconditions hold (compare-and-set); idempotent."""
        since, op = question["since"], question["op"]
        applied = op in self.operations
        is_there = question.get("reverts", op) in {*self.operations, op}
        ordered = 0
        if not applied and is_there and self._is_as_seen(question["needs"], since):
            for step in question["steps"]:
                self._carry_out(step)
            self.operations[op] = None
            applied = True
            ordered = self._order_at if question["needs"]["order"] else 0
        stays = not applied and question.get("reverts") in self.operations
        left = self.offer() if applied else None
        return {
            "applied": applied,
            "stays": stays,
            "left": left,
            **self.changes(since, limit, ordered),
        }

    def _is_as_seen(self, needs: Json, since: int) -> bool:
        if needs["order"] and self._order_at > since:
            return False
        return all(
            self.find(cell_id) is not None and self._cell_at[cell_id] <= since
            for cell_id in needs["cells"]
        )

    def _carry_out(self, step: Json) -> None:
        index = self.find(step["id"]) if "id" in step else None
        match step["do"]:
            case "insert":
                self.insert(step["index"], copy.deepcopy(step["cell"]))
            case "delete" if index is not None:
                self.delete(index)
            case "move" if index is not None:
                self.insert(step["to"], self.delete(index))
            case "replace" if index is not None:
                self.delete(index)
                self.insert(index, copy.deepcopy(step["cell"]))
            case "set" if index is not None:
                self._set(self.cells[index], step)
            case _:
                raise AssertionError(step)

    def _set(self, cell: Json, step: Json) -> None:
        fields: Json = {}
        if "source" in step:
            units = cell["source"].encode("utf-16-le", "surrogatepass")
            for edit in step["source"]:
                new = edit["text"].encode("utf-16-le", "surrogatepass")
                units = units[: 2 * edit["start"]] + new + units[2 * edit["end"] :]
            fields["source"] = units.decode("utf-16-le", "surrogatepass")
        for field in ("outputs", "execution_count"):
            if field in step:
                fields[field] = copy.deepcopy(step[field])
        self.edit(cell, **fields)

    def set_outputs(self, question: Json) -> Json:
        """Change the outputs of a running cell if they are those that the last request has left."""
        index = self.find(question["cell"])
        cell = self.cells[index] if index is not None else None
        if cell is None or cell["cell_type"] != "code":
            return {"gone": True}
        outputs = list(cell["outputs"])
        version, left = self._outputs.get(question["cell"], (0, outputs))
        if question["expected"] is not None and (question["expected"] < version or left != outputs):
            self._outputs[question["cell"]] = self.version, list(outputs)
            return {"applied": False, "version": self.version}
        fields: Json = {}
        if question.get("start"):
            outputs = []
            fields = {"execution_count": None, "execution_state": "running"}
        for change in question.get("changes", ()):
            _change(outputs, change)
        if "whole" in question:
            outputs[:] = question["whole"]
        if question.get("finish"):
            fields = {"execution_count": question["execution_count"], "execution_state": "idle"}
        if fields or outputs != cell["outputs"]:
            self.edit(cell, outputs=outputs, **fields)
        self._outputs[question["cell"]] = self.version, list(outputs)
        return {"applied": True, "version": self.version}


def _change(outputs: list[Json], change: Json) -> None:
    if "append" in change:
        outputs.append(change["append"])
    elif "stream" in change:
        place: int = change["stream"]
        text = stream_text(outputs[place]).encode("utf-16-le", "surrogatepass")
        kept = text[: len(text) - 2 * change["cut"]].decode("utf-16-le", "surrogatepass")
        outputs[place] = {**outputs[place], "text": kept + change["text"]}
    elif "replace" in change:
        outputs[change["replace"]] = change["output"]
    else:
        outputs.clear()
