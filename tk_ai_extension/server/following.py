"""What is new in a run's outputs for one who follows it, also after the line was cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tk_ai_extension.model.cells import Json
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.outputs import OutputBuffer
from tk_ai_extension.workspace.runs import Run, RunEvent, Step

_ID = re.compile(r"(\d{1,15})(?:-(\d{1,9})-(\d{1,9})-(\d{1,12}))?", re.ASCII)


PIECE = 256_000
"""Characters of a stream output in one message: a client that reads slowly holds back no more."""


@dataclass
class Position:
    """How far somebody has followed a run; as text it is the id of a server-sent event.

    Attributes:
        event: The number of the last event.
        step: The step whose outputs come next.
        output: The output that comes next in it.
        characters: How much of that output they have, where it is a stream that still grows.
    """

    event: int = 0
    step: int = 0
    output: int = 0
    characters: int = 0

    @classmethod
    def parse(cls, text: str, run: Run) -> Position:
        """The position in a run that an event's id stands for.

        Raises:
            InvalidArguments: it is no id that a stream of this run gave.
        """
        found = _ID.fullmatch(text)
        position = cls(*(int(part or 0) for part in found.groups())) if found else None
        if position is None or not position.is_reached(run):
            raise InvalidArguments(
                f"`{text[:50]}` is no event's id of this execution.",
                hint="Leave Last-Event-ID out to be told everything.",
            )
        return position

    def __str__(self) -> str:
        return f"{self.event}-{self.step}-{self.output}-{self.characters}"

    def is_reached(self, run: Run) -> bool:
        """Whether the run has come this far. What was there may have been written over since."""
        if self.event > run.version or self.step >= len(run.steps):
            return False
        return self.step == 0 or _has_begun(run.steps[self.step])

    def follow(self, run: Run, event: RunEvent) -> Iterator[tuple[str, Json]]:
        """What an event means from here: kind and data of each message, moving on with each.

        ``outputs`` becomes messages of kind ``output``, which say what is new: ``{"index", "output"}``
        is one more output, ``{"index", "start", "text"}`` a piece of the stream output ``index`` from
        character ``start`` on, and ``{"index", "start", "cut": true}`` says that everything from there
        on is gone (an update, a carriage return, ``clear_output``); what stands there now follows.
        Each names its ``cell``.
        """
        if "rewritten" in event.data and run.steps[self.step].cell == event.data["cell"]:
            place: tuple[int, int] = event.data["rewritten"]
            if place < (self.output, self.characters):
                self.output, self.characters = place
                yield "output", {"cell": event.data["cell"], **self._cut()}
        if event.kind == "reset" and (self.output or self.characters):
            # What was written over meanwhile is not known any more.
            self.output = self.characters = 0
            yield "output", {"cell": run.steps[self.step].cell, **self._cut()}
        if event.kind in ("outputs", "ended", "reset", "done"):
            for delta in self._deltas(run):
                yield "output", delta
        # Not before: who is cut off between two messages of an event gets the rest of it.
        self.event = event.id
        if event.kind not in ("outputs", "reset"):
            yield event.kind, event.data

    def _cut(self) -> Json:
        return {"index": self.output, "start": self.characters, "cut": True}

    def _deltas(self, run: Run) -> Iterator[Json]:
        while True:
            step = run.steps[self.step]
            for delta in self._step_deltas(step.outputs):
                yield {"cell": step.cell, **delta}
            following = self.step + 1
            if following == len(run.steps) or not _has_begun(run.steps[following]):
                return
            self.step, self.output, self.characters = following, 0, 0

    def _step_deltas(self, outputs: OutputBuffer) -> Iterator[Json]:
        if self.output > len(outputs) or (self.output == len(outputs) and self.characters):
            # Events between were forgotten, and the outputs that they told of are gone.
            self.output = self.characters = 0
            yield self._cut()
        while self.output < len(outputs):
            index, stream = self.output, outputs.stream(self.output)
            if stream is None:
                self.output, self.characters = index + 1, 0
                yield {"index": index, "output": outputs[index]}
                continue
            start, name = min(self.characters, len(stream)), outputs.name(index)
            for text in stream.pieces(start, PIECE):
                self.characters = start + len(text)
                yield {"index": index, "name": name, "start": start, "text": text}
                start = self.characters
            # It may have grown while the pieces were sent.
            if start >= len(stream):
                if index == len(outputs) - 1:
                    return
                self.output, self.characters = index + 1, 0


def _has_begun(step: Step) -> bool:
    return step.status not in ("queued", "skipped")
