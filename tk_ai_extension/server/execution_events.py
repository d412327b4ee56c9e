"""Stream of an execution's outputs for a follower, resumable after a lost connection."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.outputs import OutputBuffer
from tk_ai_extension.workspace.runs import Run, RunEvent, Step

_ID = re.compile(r"(\d{1,15})(?:-(\d{1,9})-(\d{1,9})-(\d{1,12}))?", re.ASCII)


PIECE = 256_000
"""Maximum characters of a stream output in one message: limits the buffer of a slow client."""


@dataclass
class Position:
    """Position of a follower in a run; as text, the id of a server-sent event.

    Attributes:
        event: Number of the last event.
        step: Index of the next step.
        output: Index of its next output.
        characters: Characters already sent of that output, if it is a growing stream.
    """

    event: int = 0
    step: int = 0
    output: int = 0
    characters: int = 0

    @classmethod
    def parse(cls, text: str, run: Run) -> Position:
        """Parse an event's id as a position in a run.

        Raises:
            InvalidArguments: the id is not from a stream of this run.
        """
        found = _ID.fullmatch(text)
        position = cls(*(int(part or 0) for part in found.groups())) if found else None
        if position is None or not position.is_reached(run):
            raise InvalidArguments(
                f"`{text[:50]}` is not an event id of this execution.",
                hint="Omit Last-Event-ID to receive all events.",
            )
        return position

    def __str__(self) -> str:
        return f"{self.event}-{self.step}-{self.output}-{self.characters}"

    def is_reached(self, run: Run) -> bool:
        """Whether the run has reached this position; its outputs may have been overwritten since."""
        if self.event > run.version or self.step >= len(run.steps):
            return False
        return self.step == 0 or _has_begun(run.steps[self.step])

    def follow(self, run: Run, event: RunEvent) -> Iterator[tuple[str, Json]]:
        """Yield kind and data of each message for an event, advancing the position.

        ``outputs`` becomes messages of kind ``output`` with the difference: ``{"index", "output"}``
        is a new output, ``{"index", "start", "text"}`` a piece of the stream output ``index`` from
        character ``start`` on, and ``{"index", "start", "cut": true}`` removes everything from there
        on (an update, a carriage return, ``clear_output``); the new content follows.
        Each message has its ``cell``.
        """
        if "rewritten" in event.data and run.steps[self.step].cell == event.data["cell"]:
            place: tuple[int, int] = event.data["rewritten"]
            if place < (self.output, self.characters):
                self.output, self.characters = place
                yield "output", {"cell": event.data["cell"], **self._cut()}
        if event.kind == "reset" and (self.output or self.characters):
            # Overwritten outputs are not known any more.
            self.output = self.characters = 0
            yield "output", {"cell": run.steps[self.step].cell, **self._cut()}
        if event.kind in ("outputs", "ended", "reset", "done"):
            for delta in self._deltas(run):
                yield "output", delta
        # Not earlier: a client that disconnects between two messages of an event gets the rest.
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
            # Intermediate events were dropped, and so were their outputs.
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
            # It may have grown while the chunks were sent.
            if start >= len(stream):
                if index == len(outputs) - 1:
                    return
                self.output, self.characters = index + 1, 0


def _has_begun(step: Step) -> bool:
    return step.status not in ("queued", "skipped")
