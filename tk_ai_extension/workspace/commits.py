"""Changes that have begun, by the chat's turn that makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from tk_ai_extension.model.background import run_to_completion

T = TypeVar("T")


class Commits:
    """Runs changes from their beginning to their outcome, and knows which ones of a turn still run.

    A turn that is stopped ends after them, however slow the disk is: otherwise a change would come
    after the turn was reported as stopped, or as undone.
    """

    def __init__(self) -> None:
        self._running: dict[str, set[asyncio.Future[None]]] = {}

    async def run(self, turn: str | None, work: Coroutine[Any, Any, T]) -> T:
        """Await a change, which runs to completion if the caller is cancelled.

        Args:
            turn: The chat's turn that makes it; None for none.
            work: The change, with the record of its outcome.
        """
        if turn is None:
            return await run_to_completion(work)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        running = self._running.setdefault(turn, set())
        running.add(ended)
        try:
            return await run_to_completion(work)
        finally:
            running.discard(ended)
            if not running:
                del self._running[turn]
            ended.set_result(None)

    async def join(self, turn: str) -> bool:
        """Wait until the changes of a turn have their outcome; return whether any was running."""
        waited = False
        while running := self._running.get(turn):
            waited = True
            await asyncio.wait(list(running))
        return waited
