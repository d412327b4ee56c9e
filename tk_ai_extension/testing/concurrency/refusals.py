"""Errors of calls: whether they match the state, and which changes may remain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tk_ai_extension.model.operations import Change
from tk_ai_extension.testing.concurrency.history import Answer, Call, State

NO_EFFECT = frozenset(("nothing_to_undo", "kernel_busy", "limit_reached"))
"""Errors that need no explanation."""

LOST_ANSWER = "outcome_unknown"
"""Error if a page disconnects during a change; the journal has the outcome once it reconnects."""

NOT_FAILED = ("ok", "queued", "running")
"""Statuses of a run that keep the changes of its call."""


def refused(call: Call, answer: Answer, state: State) -> State | str:
    """Check that an error describes the state at one moment."""
    present = {cell.key: cell for cell in state}
    match answer.error:
        case "cell_not_found" if call.name not in ("undo", "write_notebook"):
            named = _named(call) | {
                change.cell for entry in call.entries for change in entry.changes
            }
            gone = named - present.keys()
            return state if gone else "all the cells that it names are there"
        case "conflict" if answer.details.get("cells"):
            for reported in answer.details["cells"]:
                cell = present.get(reported["cell"])
                if (None if cell is None else cell.source) != reported["source"]:
                    return f"the conflict shows {reported['source']!r} of {cell}"
                if cell is not None and call.expected.get(cell.key) == cell.source:
                    return f"{cell.key} is as it was seen"
            return state
        case "conflict" | "cell_not_found" if call.name in ("undo", "write_notebook"):
            return state
        case "invalid_arguments":
            return _out_of_range(call, answer, state)
        case _:
            return f"{answer.error}: {answer.message}"


def _out_of_range(call: Call, answer: Answer, state: State) -> State | str:
    places = [call.arguments, *call.arguments.get("operations", ())]
    out = any(
        (each.get("index") or 0) > len(state) or (each.get("to") or 0) >= len(state)
        for each in places
    )
    return state if out else f"{answer.message}"


def _named(call: Call) -> set[str]:
    named: set[str] = set()
    for each in (call.arguments, *call.arguments.get("operations", ())):
        for argument in ("cell", "after"):
            if each.get(argument) is not None:
                named.add(plain(each[argument]))
        named |= set((each.get("cells") or "").split(",")) - {""}
    return named


def plain(address: Any) -> str:
    """Return the key of an address."""
    return str(address).rpartition(".")[0] or str(address)


# --- changes that remain


def reported_left(answer: Answer) -> list[str]:
    """Return what a result or an error says was not undone."""
    reported = answer.data if answer.error is None else answer.details
    return reported.get("left") or []


def may_remain(call: Call, answer: Answer) -> bool:
    """Return whether a change that was not undone may remain in the notebook."""
    if answer.error == LOST_ANSWER:
        return True
    if call.name == "insert_and_execute_cell" and answer.error is not None:
        # The new cell remains if its run fails; the error has its key, or says that it is gone.
        return answer.error == "cell_not_found" or "cell" in answer.details
    failed = answer.error is not None or (
        call.name == "edit_cells" and answer.data.get("status") not in (None, *NOT_FAILED)
    )
    return not failed or bool(reported_left(answer))


def not_restored(changes: Sequence[Change], state: State) -> str | None:
    """Return why cells are not what they were before the changes; None if they are."""
    sources = {cell.key: cell.source for cell in state}
    # A move does not depend on the source.
    written = {change.cell for change in changes if change.action != "move"}
    first = {change.cell: change for change in reversed(changes)}
    for key in written:
        before = first[key].before
        wanted = None if before is None else before.source
        if sources.get(key) != wanted:
            return f"{key} was undone, and is {sources.get(key)!r} instead of {wanted!r}"
    return None
