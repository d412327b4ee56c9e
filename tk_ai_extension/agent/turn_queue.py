"""Queue of the messages of a chat that wait for the running turn."""

from __future__ import annotations

import asyncio
from collections import deque

from tk_ai_extension.agent.turns import Turn


class TurnQueue:
    """Queue of turns, in which a turn can be found and taken out; one task gets them in order."""

    def __init__(self) -> None:
        self._turns: deque[Turn] = deque()
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of queued turns."""
        return len(self._turns)

    def put(self, turn: Turn, place: int | None = None) -> None:
        """Queue a turn at a place, from 0; at the end if it is None."""
        self._turns.insert(len(self._turns) if place is None else place, turn)
        self._filled.set()

    async def get(self) -> Turn:
        """Take the first turn. Cancelling it loses none."""
        while not self._turns:
            self._filled.clear()
            await self._filled.wait()
        return self._turns.popleft()

    def find(self, turn_id: str) -> Turn | None:
        """Return a queued turn, which stays queued."""
        return next((turn for turn in self._turns if turn.id == turn_id), None)

    def take(self, turn: Turn) -> int:
        """Take a queued turn; return its place."""
        place = self._turns.index(turn)
        del self._turns[place]
        return place

    def take_all(self, only: str | None = None) -> list[Turn]:
        """Take all turns, or one."""
        taken = [turn for turn in self._turns if only in (None, turn.id)]
        for turn in taken:
            self._turns.remove(turn)
        return taken
