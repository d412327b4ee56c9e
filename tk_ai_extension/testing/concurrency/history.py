"""What the actors did and were answered, with the real times of both."""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from tk_ai_extension.model.cells import Json
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
    """What a tool answered.

    Attributes:
        data: The structured answer, also of a call that failed where it has one.
        error: The code of the error, or None.
        details: What the error carries.
        message: The error's sentence.
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
    """What a person, or another program, did to one cell.

    Attributes:
        kind: What was done; ``type`` appends to the source.
        key: The cell's key, of an insert the new one's.
        index: Where, for an insert and a move (the index afterwards).
        text: The source of a new cell, or what was typed.
    """

    kind: Literal["insert", "type", "delete", "move"]
    key: str
    index: int = 0
    text: str = ""


@dataclass(eq=False)
class Call:
    """One invocation, and its answer once there is one.

    Attributes:
        actor: Who.
        name: The tool, or ``person``.
        arguments: Of the tool.
        expected: For each cell of which the actor named or had seen a version, that source.
        began: The moment of the invocation, on the clock of the history.
        ended: The moment of the answer.
        wall: Both in seconds since the epoch, by which rows of the journal are assigned.
        answer: None while there is none.
        edit: What a person did.
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
        details = f" {answered.details}" if answered is not None and answered.error else ""
        return (
            f"[{self.began}-{self.ended}] {self.actor}: {self.name}({shown})\n"
            f"      -> {said}{details}" + (f"\n      journal: {rows}" if rows else "")
        )


def _brief(data: Json) -> Json:
    """What of an answer is worth showing in a report."""
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
        """Carry out a call, and notes when it began and ended and what came of it."""
        self.calls.append(call)
        call.began, began = next(self._clock), time.time()
        result = await work()
        if isinstance(result, PersonEdit):
            call.edit = result
        else:
            call.answer = result
        call.ended, call.wall = next(self._clock), (began, time.time())
        return call
