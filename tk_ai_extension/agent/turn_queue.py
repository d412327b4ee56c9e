"""Queue of the messages of a chat that wait for the running turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

from tk_ai_extension.agent.turns import Turn


class TurnQueue:
    """Queue of turns, in which a turn can be found and taken out; one task gets them in order."""

    def __init__(self) -> None:
        self._turns: deque[Turn] = deque()
        self._held: set[str] = set()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of queued turns."""
        return len(self._turns)

    def put(self, turn: Turn) -> None:
        """Queue a turn."""
        self._turns.append(turn)
        self._changed.set()

    async def get(self) -> Turn:
        """Take the first turn, unless it is held. Cancelling it loses none."""
        while not self._turns or self._turns[0].id in self._held:
            self._changed.clear()
            await self._changed.wait()
        return self._turns.popleft()

    @contextmanager
    def holding(self, turn: Turn) -> Generator[None]:
        """Keep a queued turn from being got; it can be taken out."""
        self._held.add(turn.id)
        try:
            yield
        finally:
            self._held.discard(turn.id)
            self._changed.set()

    def find(self, turn_id: str) -> Turn | None:
        """Return a queued turn that is not held; it stays queued."""
        waiting = (turn for turn in self._turns if turn.id not in self._held)
        return next((turn for turn in waiting if turn.id == turn_id), None)

    def take_all(self, only: str | None = None) -> list[Turn]:
        """Take all turns, or one."""
        taken = [turn for turn in self._turns if only in (None, turn.id)]
        for turn in taken:
            self._turns.remove(turn)
        return taken
