"""An edit as a patch for a tab: steps on cells by id, the inverse, and whether it was applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tk_ai_extension.model.cells import Cell, CellContent, Snapshot
from tk_ai_extension.model.encoding import encodable
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks import cellforms
from tk_ai_extension.notebooks.cellforms import new_cell_id
from tk_ai_extension.notebooks.textdiff import text_edits
from tk_ai_extension.notebooks.transactions import EditStep, EditTransaction


@dataclass(frozen=True)
class TabPatch:
    """The changes of an edit to the cells of a tab.

    Attributes:
        edit: The edit.
        ids: The ids in the tab of the cells in the edit, by slot.
        before: The notebook before the edit.
    """

    edit: EditTransaction
    ids: dict[int, str]
    before: Snapshot

    @classmethod
    def of(cls, edit: EditTransaction, ids: Sequence[str], before: Snapshot) -> TabPatch:
        """Return the patch for a tab whose cells have these ids."""
        known = dict(enumerate(ids))
        for step in edit.steps:
            if step.kind == "insert" and step.after is not None:
                known[step.slot] = step.after.id or new_cell_id()
        return cls(edit, known, before)

    def message(self) -> Json:
        """Return the preconditions (``needs``) and the ``steps``.

        The order of the cells is always a precondition: the edit's changes name indexes.
        """
        needs = [self.ids[slot] for slot in self.edit.needs]
        return _message(self.edit.steps, self.ids, needs, ordered=True)

    def inverse(self) -> Json:
        """Return the inverse patch; cells that were only set may have been moved by others."""
        steps = [_inverse(step) for step in reversed(self.edit.steps)]
        return _message(steps, self.ids, (), ordered=any(step.kind != "set" for step in steps))

    def placed(self, after: Snapshot, ids: Sequence[str]) -> dict[int, Cell]:
        """Return the edit's cells that a later state of the tab still has, by slot.

        They are found by their ids in the tab: others may have moved them.

        Args:
            after: The later notebook.
            ids: The ids of its cells in the tab.
        """
        found = dict(zip(ids, after.cells, strict=True))
        return {slot: found[known] for slot, known in self.ids.items() if known in found}

    def agree(self, one: Snapshot, other: Snapshot, ids: Sequence[str]) -> bool:
        """Return whether two states of the notebook have equal cells where the edit changed some.

        Args:
            one: The notebook in the tab.
            other: The notebook in its file.
            ids: The ids of the cells in the tab.
        """
        if cellforms.has_ids(other.nbformat):
            found = {cell.id: cell for cell in other.cells}
        elif len(ids) == len(other.cells):
            found = dict(zip(ids, other.cells, strict=True))
        else:
            return False
        shown = dict(zip(ids, one.cells, strict=True))
        return all(
            _content(shown.get(known)) == _content(found.get(known))
            for known in {self.ids[step.slot] for step in self.edit.steps}
        )

    def is_applied_in(self, now: Snapshot) -> bool | None:
        """Return whether a notebook has the edit's changes; None if that cannot be determined."""
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
                # Another source may be a person's change of either.
                either = {end.source: True, self.before.cells[step.slot].source: False}
                return None if cell is None else either.get(cell.source)
        return None


def _content(cell: Cell | None) -> tuple[str, str, int | None] | None:
    return None if cell is None else (cell.type, cell.source, cell.execution_count)


_NOTHING = CellContent("raw", "")


def utf16(text: str) -> int:
    """Return the length of a text in UTF-16 code units, as JavaScript counts it.

    >>> utf16("a"), utf16("😀")
    (1, 2)
    """
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _message(
    steps: Sequence[EditStep], ids: dict[int, str], needs: Sequence[str], *, ordered: bool
) -> Json:
    touched = dict.fromkeys(ids[step.slot] for step in steps if step.kind != "insert")
    return {
        "needs": {"order": ordered, "cells": list(touched | dict.fromkeys(needs))},
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
        # JupyterLab creates a cell's widget once, for its type at that time.
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
    """Return minimal edits of a source, last one first, with indexes in UTF-16 code units."""
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
