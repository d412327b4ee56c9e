"""Turns that messages began, and messages that are sent again because a response was lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
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
        # Of a message that is being sent, the task; of others the chat and the turn. No stream is kept,
        # because it would keep the chat's log.
        self._turns: dict[tuple[str, str], asyncio.Future[StartedTurn] | tuple[str, str]] = {}

    async def once(
        self, user: str, message: str, begin: Callable[[], Awaitable[StartedTurn]]
    ) -> StartedTurn:
        """Begin a turn, or return the one that the user's message of this id began.

        Raises:
            ToolError: What `begin` raised. It may be tried again under the same id.
        """
        key = user, message
        if (known := self._turns.get(key)) is not None:
            if isinstance(known, asyncio.Future):
                begun = await asyncio.shield(known)
                known = begun.chat, begun.turn
            return StartedTurn(*known, _events(self._chats, user, *known))

        def ended(done: asyncio.Future[StartedTurn]) -> None:
            if self._turns.get(key) is not done:
                return
            if done.cancelled() or done.exception() is not None:
                del self._turns[key]
            else:
                self._turns[key] = done.result().chat, done.result().turn

        sending = self._turns[key] = asyncio.ensure_future(begin())
        sending.add_done_callback(ended)
        while len(self._turns) > KEPT:
            del self._turns[next(iter(self._turns))]
        return await asyncio.shield(sending)


async def _events(chats: Chats, user: str, chat: str, turn: str) -> AsyncIterator[Event]:
    """Yield the events of a turn from its first to its last one."""
    async for event in await chats.follow(user, chat):
        if event.turn == turn:
            yield event
            if event.kind == "done":
                return
