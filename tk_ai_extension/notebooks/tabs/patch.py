"""An edit as a tab is told it: steps on cells named by their ids, the way back, and whether it was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tk_ai_extension.model.cells import Cell, CellContent, Json, Snapshot
from tk_ai_extension.model.encoding import encodable
from tk_ai_extension.notebooks import cellforms
from tk_ai_extension.notebooks.cellforms import new_cell_id
from tk_ai_extension.notebooks.textdiff import text_edits
from tk_ai_extension.notebooks.transactions import EditStep, EditTransaction


@dataclass(frozen=True)
class TabPatch:
    """What an edit does to the cells of a tab.

    Attributes:
        edit: The edit.
        ids: For each cell that the edit knows, its id in the tab.
        before: The notebook as the edit found it.
    """

    edit: EditTransaction
    ids: dict[int, str]
    before: Snapshot

    @classmethod
    def of(cls, edit: EditTransaction, ids: Sequence[str], before: Snapshot) -> TabPatch:
        """The plan for a tab whose cells have these ids."""
        known = dict(enumerate(ids))
        for step in edit.steps:
            if step.kind == "insert" and step.after is not None:
                known[step.slot] = step.after.id or new_cell_id()
        return cls(edit, known, before)

    def message(self) -> Json:
        """What has to be as it was (``needs``), and the ``steps``.

        The order too, whatever the steps do: the edit says where its cells are at the commit.
        """
        return _message(self.edit.steps, self.ids, ordered=True)

    def inverse(self) -> Json:
        """The same for taking it back, where others may have moved what was only set."""
        steps = [_inverse(step) for step in reversed(self.edit.steps)]
        return _message(steps, self.ids, ordered=any(step.kind != "set" for step in steps))

    def placed(self, after: Snapshot, ids: Sequence[str]) -> dict[int, Cell]:
        """The edit's cells that a later state of the tab still has, by slot.

        They are found by their ids in the tab: others may have moved them already.

        Args:
            after: The notebook.
            ids: The ids of its cells in the tab.
        """
        found = dict(zip(ids, after.cells, strict=True))
        return {slot: found[known] for slot, known in self.ids.items() if known in found}

    def is_applied_in(self, now: Snapshot) -> bool | None:
        """Return whether the notebook shows what the edit does; None where that cannot be told."""
        by_id = {cell.id: cell for cell in now.cells if cell.id is not None}
        for step in self.edit.steps:
            cell_id = (step.after or step.before or _NOTHING).id
            if cell_id is None:
                return None
            cell = by_id.get(cell_id)
            end = self.edit.contents.get(step.slot)
            if step.slot not in self.edit.order:
                if step.slot >= 0:
                    return cell is None
            elif step.kind == "insert":
                return cell is not None
            elif end is not None and end.source != self.before.cells[step.slot].source:
                return cell is not None and cell.source == end.source
        return None


_NOTHING = CellContent("raw", "")


def utf16(text: str) -> int:
    """The length of a text as JavaScript counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _message(steps: Sequence[EditStep], ids: dict[int, str], *, ordered: bool) -> Json:
    touched = {ids[step.slot]: None for step in steps if step.kind != "insert"}
    return {
        "needs": {"order": ordered, "cells": list(touched)},
        "steps": [_step(step, ids[step.slot]) for step in steps],
    }


def _step(step: EditStep, cell_id: str) -> Json:
    match step.kind:
        case "insert":
            assert step.after is not None
            return {"do": "insert", "index": step.index, "cell": _stored(step.after, cell_id)}
        case "delete":
            return {"do": "delete", "id": cell_id}
        case "move":
            return {"do": "move", "id": cell_id, "to": step.to}
        case "set":
            assert step.before is not None
            assert step.after is not None
            return _set(step.before, step.after, cell_id)


def _stored(content: CellContent, cell_id: str) -> Json:
    stored = cellforms.stored_cell(content, as_lines=False)
    return encodable({**stored, "id": cell_id})


def _set(before: CellContent, after: CellContent, cell_id: str) -> Json:
    if after.type != before.type:
        # A cell's widget is made once, by the type that it has then.
        return {"do": "replace", "id": cell_id, "cell": _stored(after, cell_id)}
    step: Json = {"do": "set", "id": cell_id}
    if after.source != before.source:
        step["source"] = _edits(before.source, encodable(after.source))
    if after.type == "code":
        if after.outputs != before.outputs:
            step["outputs"] = encodable(list(after.outputs))
        if after.execution_count != before.execution_count:
            step["execution_count"] = after.execution_count
    return step


def _edits(old: str, new: str) -> list[Json]:
    """The smallest edits of a source, from its end on, with places as JavaScript counts them."""
    found: list[Json] = []
    for edit in reversed(text_edits(old, new)):
        start = utf16(old[: edit.start])
        end = start + utf16(old[edit.start : edit.end])
        found.append({"start": start, "end": end, "text": edit.new})
    return found


def _inverse(step: EditStep) -> EditStep:
    match step.kind:
        case "insert":
            return replace(step, kind="delete", before=step.after, after=None)
        case "delete":
            return replace(step, kind="insert", before=None, after=step.before)
        case "move":
            return replace(step, index=step.to, to=step.index)
        case "set":
            return replace(step, before=step.after, after=step.before)
