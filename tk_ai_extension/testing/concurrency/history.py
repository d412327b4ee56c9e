"""History of the actors' calls and results, with their real times."""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.operations import Change


class CellState(NamedTuple):
    """A cell of the sequential model."""

    key: str
    type: str
    source: str


State = tuple[CellState, ...]
"""The sequential model of a notebook: its cells in order."""


@dataclass(frozen=True)
class Answer:
    """Result of a tool call.

    Attributes:
        data: The structured result, if there is one.
        error: The code of the error, or None.
        details: The error's details.
        message: The error's message.
    """

    data: Json
    error: str | None = None
    details: Json = field(default_factory=dict[str, Any])
    message: str = ""


@dataclass(frozen=True)
class Entry:
    """A row of the journal that a call wrote."""

    id: int
    time: float
    session: str | None
    turn: str | None
    tool: str
    kind: str
    state: str
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class PersonEdit:
    """Edit of one cell by a person or another program.

    Attributes:
        kind: The kind of edit; ``type`` appends to the source.
        key: The cell's key, of an insert the new one's.
        index: The new index, for an insert or a move.
        text: The source of a new cell, or the typed text.
    """

    kind: Literal["insert", "type", "delete", "move"]
    key: str
    index: int = 0
    text: str = ""


@dataclass(eq=False)
class Call:
    """One invocation and its result.

    Attributes:
        actor: The actor.
        name: The tool, or ``person``.
        arguments: The tool's arguments.
        expected: Source of each cell of which the actor named or had read a version.
        began: Time of the invocation, on the clock of the history.
        ended: Time of the result.
        wall: Both in seconds since the epoch, for assigning rows of the journal.
        answer: The result; None while the call is running.
        edit: A person's edit.
        entries: The rows of the journal that it wrote.
    """

    actor: str
    name: str
    arguments: Json
    expected: dict[str, str] = field(default_factory=dict[str, str])
    turn: str = ""
    began: int = 0
    ended: int = 0
    wall: tuple[float, float] = (0.0, 0.0)
    answer: Answer | None = None
    edit: PersonEdit | None = None
    entries: list[Entry] = field(default_factory=list[Entry])

    def __str__(self) -> str:
        """The call in a line or two, for a report."""
        shown = self.edit or ", ".join(f"{k}={v!r}" for k, v in self.arguments.items())
        answered = self.answer
        said = "" if answered is None else answered.error or str(_brief(answered.data))
        rows = "; ".join(
            f"{entry.kind} {entry.state} "
            + ", ".join(f"{c.action} {c.cell} at {c.index}" for c in entry.changes)
            for entry in self.entries
        )
        seen = f"\n      last seen: {self.expected}" if self.expected else ""
        details = f" {answered.details}" if answered is not None and answered.error else ""
        return (
            f"[{self.began}-{self.ended}] {self.actor}: {self.name}({shown}){seen}\n"
            f"      -> {said}{details}" + (f"\n      journal: {rows}" if rows else "")
        )


def _brief(data: Json) -> Json:
    """Return the part of a result for a report."""
    if "text" in data:
        return {"cells": data["cells"]}
    dull = {"notebook", "duration", "data", "events", "execution_id", "cell_type", "skipped"}
    return {
        key: [_brief(each) for each in value] if key in {"cells", "changes", "runs"} else value
        for key, value in data.items()
        if key not in dull
    }


class History:
    """The calls of one round."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._clock = itertools.count(1)

    async def record(self, call: Call, work: Callable[[], Awaitable[Answer | PersonEdit]]) -> Call:
        """Carry out a call, and record its times and its result."""
        self.calls.append(call)
        call.began, began = next(self._clock), time.time()
        result = await work()
        if isinstance(result, PersonEdit):
            call.edit = result
        else:
            call.answer = result
        call.ended, call.wall = next(self._clock), (began, time.time())
        return call
