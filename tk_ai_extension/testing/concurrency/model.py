"""The sequential model of a notebook: what each call may have done, and in which states.

A call that wrote is explained by its rows of the journal, applied to the model change by change: each
must find the cell where and as it says, and do what was requested. Its result must describe the
notebook right after that. What a call read, ran or failed with must match one state during the call.
A call that fails leaves no change in the notebook that its error does not report: the caller goes on
from the sources that it saw before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from tk_ai_extension.model import celltext
from tk_ai_extension.model.cells import VERSION_LENGTH, source_hash
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.operations import Change
from tk_ai_extension.testing.concurrency.history import (
    Answer,
    Call,
    CellState,
    Entry,
    PersonEdit,
    State,
)
from tk_ai_extension.testing.concurrency.kernels import tokens
from tk_ai_extension.testing.concurrency.linearizability import Event, Step
from tk_ai_extension.testing.concurrency.refusals import (
    LOST_ANSWER,
    NO_EFFECT,
    NOT_FAILED,
    may_remain,
    not_restored,
    plain,
    refused,
    reported_left,
)

Intent = Callable[[State, Sequence[Change], State], "str | None"]
"""Why changes are not what was requested, given the states around them; None if they are."""


def events_of(call: Call, *, excused: frozenset[str] = frozenset()) -> list[Event]:
    """Return the events of a call, each at some time between the invocation and the result.

    Args:
        call: The call, with its rows of the journal.
        excused: Further error codes and statuses of runs that need no explanation, since a
            fault was injected.
    """
    if call.edit is not None:
        return [Event(str(call), call.began, call.ended, partial(_person, call.edit))]
    answer = call.answer
    assert answer is not None, f"no answer: {call}"
    steps: list[Step] = []
    effects = [entry for entry in call.entries if entry.changes]
    steps += [
        _refuse(f"a run ended as {run['status']}, and nothing went wrong")
        for run in answer.data.get("runs", ())
        if run["status"] not in {"ok", "error"} | excused
    ]
    steps += [
        _refuse(f"the journal does not say how {row.tool} ended")
        for row in call.entries
        if row.state in ("intended", "unknown")
    ]
    # The first is the requested one; a following one undoes it after a failed cell.
    reported = answer if answer.error is None else None
    steps += [partial(_changed, call, entry, reported, True) for entry in effects[:1]]
    if answer.error is None:
        steps += _reported_steps(call, answer.data, changed=bool(effects))
    if effects[1:]:
        undo = partial(_undone, effects[0], effects[1:], whole=not reported_left(answer))
        steps.append(undo)
    elif effects and not may_remain(call, answer):
        what = "a cell failed" if answer.error is None else f"the call failed with {answer.error}"
        steps.append(_refuse(f"{what}, and its change remains"))
    if answer.error is not None and answer.error not in NO_EFFECT | excused:
        steps.append(partial(refused, call, answer))
    label = f"{call.actor}: {call.name} [{call.began}-{call.ended}]"
    # A page may make a change after the timeout of its answer.
    ended = math.inf if answer.error == LOST_ANSWER else call.ended
    events: list[Event] = []
    for step in steps:
        after = events[-1] if events else None
        events.append(Event(label, call.began, ended, step, after))
    return events


def _refuse(why: str) -> Step:
    return lambda _: why


def _reported_steps(call: Call, data: Json, *, changed: bool) -> list[Step]:
    """Return the steps of a result that are not changes in the journal."""
    steps: list[Step] = [
        partial(_ran, run)
        for run in data.get("runs", ())
        if run.get("cell") is not None and run["status"] in ("ok", "error")
    ]
    if call.name in _READ:
        steps.append(partial(_READ[call.name], data))
    if not changed and data.get("changes"):
        steps.append(_refuse("it reported changes that the journal does not have"))
    elif not changed and "changes" in data:
        steps.append(partial(_total, data))
    return steps


# --- writing


def replay(state: State, changes: Sequence[Change]) -> State | str:
    """Return the notebook after changes of the journal, or why they do not apply."""
    for change in changes:
        after = _insertion(state, change) if change.action == "insert" else _edit(state, change)
        if isinstance(after, str):
            return f"{change.action} of {change.cell}: {after}"
        state = after
    return state


def _insertion(state: State, change: Change) -> State | str:
    if change.cell in (cell.key for cell in state):
        return "there is such a cell already"
    if change.after is None or not 0 <= change.index <= len(state):
        return f"at {change.index} of {len(state)}"
    new = CellState(change.cell, change.after.type, change.after.source)
    return (*state[: change.index], new, *state[change.index :])


def _edit(state: State, change: Change) -> State | str:
    """Return the notebook after a change of an existing cell."""
    at = next((n for n, cell in enumerate(state) if cell.key == change.cell), None)
    if at is None:
        return "there is no such cell"
    cells, cell = list(state), state[at]
    if change.before is None or change.before.source != cell.source:
        return f"its source is {cell.source!r}, not as the journal has it"
    if change.index_before not in (None, at):
        return f"it is at {at}, and in the journal at {change.index_before}"
    if change.action in ("replace", "outputs"):
        if change.index != at or change.after is None:
            return f"it is at {at}, and in the journal at {change.index}"
        cells[at] = CellState(cell.key, change.after.type, change.after.source)
        return tuple(cells)
    previous = cells[at - 1].key if at else None
    if change.previous != previous:
        return f"{previous} is before it, and in the journal {change.previous}"
    del cells[at]
    if change.action == "move":
        cells.insert(change.index, cell)
    return tuple(cells)


def _changed(
    call: Call, entry: Entry, answer: Answer | None, asked: bool, state: State
) -> State | str:
    after = replay(state, entry.changes)
    if isinstance(after, str):
        return after
    if asked and (wrong := _INTENTS[call.name](call, state, entry.changes, after)) is not None:
        return wrong
    wrong = _check_reported(answer.data, entry.changes, after) if answer is not None else None
    return after if wrong is None else wrong


def _undone(made: Entry, undo: Sequence[Entry], state: State, *, whole: bool) -> State | str:
    """Undo changes; if the result says that all were undone, each cell is what it was before."""
    after = replay(state, [change for entry in undo for change in entry.changes])
    if isinstance(after, str) or not whole:
        return after
    return not_restored(made.changes, after) or after


def _check_reported(data: Json, changes: Sequence[Change], after: State) -> str | None:
    """Return why a result does not describe the changes; None if it does."""
    total = data.get("total_cells")
    taken_back = data.get("status") not in (None, *NOT_FAILED) and "left" in data
    if total not in (None, len(after)) and not taken_back:
        return f"the answer has {total} cells, not {len(after)}"
    if "changes" not in data:
        first = data["runs"][0]["cell"] if data.get("runs") else None
        wanted = [change.cell for change in changes]
        return None if first in wanted else f"it ran {first}, and made {', '.join(wanted)}"
    reported = data["changes"]
    if [(each["action"], each["cell"]) for each in reported] != [
        (change.action, change.cell) for change in changes
    ]:
        return "the result reports other changes than the journal"
    keys = [cell.key for cell in after]
    for each, change in zip(reported, changes, strict=True):
        if each.get("removed_source") is not None and each.get("removed_source") != (
            change.before and change.before.source
        ):
            return f"the answer has another source of the deleted {change.cell}"
        if change.cell not in keys or change.action == "delete":
            continue
        at = keys.index(change.cell)
        if each["index"] != at:
            return f"the answer has {change.cell} at {each['index']}, not {at}"
        prefix, _, version = each["address"].rpartition(".")
        if not change.cell.startswith(prefix) or not _is_version(version, after[at].source):
            return f"the answer has the address {each['address']} of {after[at]}"
    return None


def _is_version(version: str, source: str) -> bool:
    return version == source_hash(source)[:VERSION_LENGTH]


def _total(data: Json, state: State) -> State | str:
    return state if data["total_cells"] == len(state) else "another number of cells"


# --- requested changes


def _insert(call: Call, state: State, changes: Sequence[Change], _: State) -> str | None:
    asked = call.arguments
    if [change.action for change in changes] != ["insert"]:
        return "it is one insert"
    return _is_insert(asked, state, changes[0])


def _is_insert(asked: Json, state: State, change: Change) -> str | None:
    keys = [cell.key for cell in state]
    if asked.get("index") is not None:
        place = asked["index"]
    elif asked.get("after") is not None:
        if asked["after"] not in keys:
            return f"{asked['after']} is not there"
        place = keys.index(asked["after"]) + 1
    else:
        place = len(state)
    if change.index != place:
        return f"it was to be at {place}, and is at {change.index}"
    assert change.after is not None
    return None if change.after.source == asked["source"] else "it has another source"


def _replace(call: Call, state: State, changes: Sequence[Change], _: State) -> str | None:
    del state
    if [change.action for change in changes] != ["replace"]:
        return "it is one replacement"
    return _is_as_expected(call, changes[0]) or _is_replacement(call.arguments, changes[0])


def _is_as_expected(call: Call, change: Change) -> str | None:
    assert change.before is not None
    expected = call.expected.get(change.cell)
    if expected is None:
        return f"{change.cell} was not meant"
    if change.before.source != expected:
        return f"{change.cell} was {change.before.source!r}, and was last seen as {expected!r}"
    return None


def _is_replacement(asked: Json, change: Change) -> str | None:
    assert change.before is not None
    assert change.after is not None
    if asked.get("old") is not None:
        wanted = change.before.source.replace(asked["old"], asked["new"])
    else:
        wanted = asked["source"]
    return None if change.after.source == wanted else "it has another source"


def _delete(call: Call, _state: State, changes: Sequence[Change], _: State) -> str | None:
    if [change.action for change in changes] != ["delete"]:
        return "it is one deletion"
    return _is_as_expected(call, changes[0])


def _move(call: Call, _state: State, changes: Sequence[Change], _: State) -> str | None:
    (change,) = changes
    right = (change.action, change.index) == ("move", call.arguments["to"])
    return None if right else "it was to move elsewhere"


def _clear(call: Call, _state: State, changes: Sequence[Change], _: State) -> str | None:
    named = set(call.arguments["cells"].split(","))
    right = all(change.action == "outputs" and change.cell in named for change in changes)
    return None if right else "other cells were to be cleared"


_ACTIONS = {"insert": "insert", "overwrite": "replace", "edit": "replace", "delete": "delete"}


def _batch(call: Call, state: State, changes: Sequence[Change], _: State) -> str | None:
    asked = call.arguments["operations"]
    if [_ACTIONS.get(each["action"], each["action"]) for each in asked] != [
        change.action for change in changes
    ]:
        return "other operations were asked for"
    for each, change in zip(asked, changes, strict=True):
        wrong = None
        if change.action == "insert":
            wrong = _is_insert(each, state, change)
        elif change.action == "move":
            wrong = None if change.index == each["to"] else "it was to move elsewhere"
        elif change.cell != plain(each["cell"]):
            wrong = f"{each['cell']} was meant"
        else:
            # What an operation before has made of the cell is known to the caller.
            wrong = _is_as_expected(call, change)
            if wrong is None and change.action == "replace":
                wrong = _is_replacement(each, change)
        if wrong is not None:
            return wrong
        after = replay(state, [change])
        assert not isinstance(after, str)
        state = after
    return None


def _merge(call: Call, _state: State, changes: Sequence[Change], after: State) -> str | None:
    """Check that only cells that match the text are changed, and that all new content is there."""
    for change in changes:
        if change.action in ("replace", "delete"):
            wrong = _is_as_expected(call, change)
            if wrong is not None:
                return wrong
    sources = {cell.source for cell in after}
    new = [cell.source for cell in celltext.parse(call.arguments["text"]).cells]
    known = set(call.expected.values())
    missing = [source for source in new if source not in sources | known]
    return f"{missing[0]!r} is not there" if missing else None


def _undo(_call: Call, _state: State, _changes: Sequence[Change], _: State) -> str | None:
    # That it undoes only the caller's own changes is checked where all rows are known.
    return None


_INTENTS: dict[str, Callable[[Call, State, Sequence[Change], State], str | None]] = {
    "insert_cell": _insert,
    "insert_and_execute_cell": _insert,
    "overwrite_cell": _replace,
    "edit_cell": _replace,
    "delete_cell": _delete,
    "move_cell": _move,
    "clear_outputs": _clear,
    "edit_cells": _batch,
    "write_notebook": _merge,
    "undo": _undo,
}


# --- running


def _ran(run: Json, state: State) -> State | str:
    """Check that the code that ran is the cell's at one moment."""
    at = next((n for n, cell in enumerate(state) if cell.key == run["cell"]), None)
    if at is None:
        return f"{run['cell']} ran, and is not there"
    said = [line.split()[0] for line in printed(run.get("output", ""))]
    if state[at].type == "code" and said != tokens(state[at].source):
        return f"{run['cell']} printed {said}, and its source is {state[at].source!r}"
    return state if run.get("index") == at else f"{run['cell']} is at {at}, not {run.get('index')}"


def printed(output: str) -> list[str]:
    """Return the printed lines in the text of outputs."""
    lines = (line.split() for line in output.splitlines())
    return [" ".join(words) for words in lines if len(words) == 2 and words[1].isdecimal()]


# --- reading


def _read_cell(data: Json, state: State) -> State | str:
    wanted = (data["index"], data["cell"], data["cell_type"], data["source"])
    found = [(n, *cell) for n, cell in enumerate(state)]
    return state if wanted in found else f"{wanted} was read"


def _read_notebook(data: Json, state: State) -> State | str:
    shown = celltext.parse(data["text"]).cells
    read = tuple(
        CellState(key, cell.type, cell.source)
        for key, cell in zip(data["cells"], shown, strict=True)
    )
    if read == state:
        return state
    wrong = next(((a, b) for a, b in zip(read, state, strict=False) if a != b), None)
    return f"{wrong[0]} was read, not {wrong[1]}" if wrong else f"{len(read)} cells were read"


def _list_cells(data: Json, state: State) -> State | str:
    if len(data["cells"]) != len(state):
        return f"{len(data['cells'])} cells were listed, not {len(state)}"
    for line, cell in zip(data["cells"], state, strict=True):
        version = (line.get("address") or "").rpartition(".")[2]
        if not cell.key.startswith(line["cell"]) or (
            version and not _is_version(version, cell.source)
        ):
            return f"{line} was listed, not {cell}"
    return state


_READ: dict[str, Callable[[Json, State], State | str]] = {
    "read_cell": _read_cell,
    "read_notebook": _read_notebook,
    "list_cells": _list_cells,
}


# --- people


def _person(edit: PersonEdit, state: State) -> State | str:
    cells = list(state)
    at = next((n for n, cell in enumerate(cells) if cell.key == edit.key), None)
    if edit.kind == "insert":
        if edit.index > len(cells):
            return f"there is no place {edit.index}"
        cells.insert(edit.index, CellState(edit.key, "code", edit.text))
        return tuple(cells)
    if at is None:
        return f"{edit.key} is not there"
    cell = cells.pop(at)
    if edit.kind == "type":
        cells.insert(at, cell._replace(source=cell.source + edit.text))
    if edit.kind == "move":
        cells.insert(edit.index, cell)
    return tuple(cells)
