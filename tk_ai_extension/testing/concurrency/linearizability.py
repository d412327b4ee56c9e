"""Search for a serial order that explains a concurrent history (Wing and Gong, with memoisation).

An event may come first if no other remaining event ended before it began. The search continues
from each such event whose step the state allows, and memoises sets of events and states that led
nowhere (Lowe; as in Knossos and Porcupine). Histories are short: nothing runs between two rounds,
so that each round is searched separately.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tk_ai_extension.testing.concurrency.history import State

Step = Callable[[State], "State | str"]
"""The state after an event, or why the event cannot happen in this state."""

MAX_STATES = 200_000
"""Maximum number of states in a search."""


@dataclass(eq=False)
class Event:
    """An event that took effect at one moment between two.

    Attributes:
        label: For reports.
        began: Earliest time.
        ended: Latest time; infinite if it may still happen.
        step: Its effect on the state.
        after: An event of the same call that comes before it.
        optional: Whether it may not have happened.
    """

    label: str
    began: float
    ended: float
    step: Step
    after: Event | None = None
    optional: bool = False


@dataclass
class Verdict:
    """The result of a search.

    Attributes:
        order: The serial order; None if there is none.
        longest: The longest order that was tried.
        refused: Why each remaining event could not follow it.
        states: Number of visited states.
        exhausted: Whether the limit of states was reached.
    """

    order: list[Event] | None = None
    longest: list[Event] = field(default_factory=list[Event])
    state: State = ()
    refused: list[str] = field(default_factory=list[str])
    states: int = 0
    exhausted: bool = False


def linearize(start: State, events: Sequence[Event], end: State) -> Verdict:
    """Search for a serial order from one state to another.

    Args:
        start: The notebook before.
        events: The events in between.
        end: The notebook afterwards.
    """
    return _Search(sorted(events, key=lambda event: (event.ended, event.began)), end).run(start)


class _Search:
    def __init__(self, events: Sequence[Event], end: State) -> None:
        self._events = events
        self._end = end
        self._bits = {event: 1 << number for number, event in enumerate(events)}
        self._needed = sum(bit for event, bit in self._bits.items() if not event.optional)
        self._failed: set[tuple[int, State]] = set()
        self._path: list[Event] = []
        self._verdict = Verdict()

    def run(self, start: State) -> Verdict:
        if self._from(0, start):
            self._verdict.order = list(self._path)
        return self._verdict

    def _from(self, done: int, state: State) -> bool:
        verdict = self._verdict
        if done & self._needed == self._needed and state == self._end:
            return True
        if (done, state) in self._failed:
            return False
        verdict.states += 1
        if verdict.states > MAX_STATES:
            verdict.exhausted = True
            return False
        refused: list[str] = []
        for event in self._candidates(done):
            after = event.step(state)
            if isinstance(after, str):
                refused.append(f"{event.label}: {after}")
                continue
            self._path.append(event)
            if self._from(done | self._bits[event], after):
                return True
            self._path.pop()
        if len(self._path) >= len(verdict.longest) and not (refused == [] and verdict.refused):
            verdict.longest, verdict.state = list(self._path), state
            verdict.refused = refused or ["the notebook at the end is another one"]
        self._failed.add((done, state))
        return False

    def _candidates(self, done: int) -> list[Event]:
        """Return the events that may come next."""
        left = [event for event in self._events if not done & self._bits[event]]
        first = min((event.ended for event in left if not event.optional), default=math.inf)
        return [
            event
            for event in left
            if event.began <= first and (event.after is None or done & self._bits[event.after])
        ]
