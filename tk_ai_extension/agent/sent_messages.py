"""Turns that messages began, and messages that are sent again because a response was lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tk_ai_extension.agent.events import Event

if TYPE_CHECKING:
    from tk_ai_extension.agent.chats import Chats

KEPT = 200
"""Number of messages that are remembered."""


@dataclass(frozen=True, slots=True)
class StartedTurn:
    """A queued turn and the stream of its events."""

    chat: str
    turn: str
    events: AsyncIterator[Event]


class SentMessages:
    """The turns that messages began, by the ids that their senders chose.

    Args:
        chats: The chats of the server.
    """

    def __init__(self, chats: Chats) -> None:
        self._chats = chats
        self._turns: dict[tuple[str, str], asyncio.Future[StartedTurn]] = {}

    async def once(
        self, user: str, message: str, begin: Callable[[], Awaitable[StartedTurn]]
    ) -> StartedTurn:
        """Begin a turn, or return the one that the user's message of this id began.

        Raises:
            ToolError: What `begin` raised. It may be tried again under the same id.
        """
        key = user, message
        if (sending := self._turns.get(key)) is not None:
            begun = await asyncio.shield(sending)
            return replace(begun, events=_events(self._chats, user, begun))

        def forget_failed(done: asyncio.Future[StartedTurn]) -> None:
            if done.cancelled() or done.exception() is not None:
                self._turns.pop(key, None)

        sending = self._turns[key] = asyncio.ensure_future(begin())
        sending.add_done_callback(forget_failed)
        while len(self._turns) > KEPT:
            del self._turns[next(iter(self._turns))]
        return await asyncio.shield(sending)


async def _events(chats: Chats, user: str, begun: StartedTurn) -> AsyncIterator[Event]:
    """Yield the events of a turn from its first to its last one."""
    async for event in await chats.follow(user, begun.chat):
        if event.turn == begun.turn:
            yield event
            if event.kind == "done":
                return
