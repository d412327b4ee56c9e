"""Turns that messages began, and messages that are sent again because a response was lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from tk_ai_extension.agent.events import Event

Follow = Callable[[str, str], Awaitable[AsyncIterator[Event]]]
"""Returns the events of a user's chat, which is given by its id."""

KEPT = 200
"""Number of messages of a user that are remembered, besides those that are being sent."""


@dataclass(frozen=True, slots=True)
class StartedTurn:
    """A queued turn and the stream of its events."""

    chat: str
    turn: str
    events: AsyncIterator[Event]


class SentMessages:
    """The turns that messages began, by the ids that their senders chose.

    Args:
        follow: Follows a chat.
    """

    def __init__(self, follow: Follow) -> None:
        self._follow = follow
        # Of a message that is being sent, the task; of others the chat and the turn. No stream is kept,
        # because it would keep the chat's log.
        self._turns: dict[str, dict[str, asyncio.Future[StartedTurn] | tuple[str, str]]] = {}

    async def once(
        self, user: str, message: str, begin: Callable[[], Awaitable[StartedTurn]]
    ) -> StartedTurn:
        """Begin a turn, or return the one that the user's message of this id began.

        Raises:
            ToolError: What `begin` raised. It may be tried again under the same id.
        """
        turns = self._turns.setdefault(user, {})
        if (known := turns.get(message)) is not None:
            if isinstance(known, asyncio.Future):
                begun = await asyncio.shield(known)
                known = begun.chat, begun.turn
            return StartedTurn(*known, _events(self._follow, user, *known))

        def ended(done: asyncio.Future[StartedTurn]) -> None:
            del turns[message]
            if not done.cancelled() and done.exception() is None:
                # The newest: a message that was sent for long may be sent again as late as others.
                turns[message] = done.result().chat, done.result().turn
                sent = [each for each, turn in turns.items() if isinstance(turn, tuple)]
                for oldest in sent[:-KEPT]:
                    del turns[oldest]

        sending = turns[message] = asyncio.ensure_future(begin())
        sending.add_done_callback(ended)
        return await asyncio.shield(sending)


async def _events(follow: Follow, user: str, chat: str, turn: str) -> AsyncIterator[Event]:
    """Yield the events of a turn from its first to its last one."""
    async for event in await follow(user, chat):
        if event.turn == turn:
            yield event
            if event.kind == "done":
                return
