"""Event channel of a page of JupyterLab: subscriptions to topics over its WebSocket.

A page subscribes with a number of its choice and, to a chat, the id of the last event that it knows::

    {"subscribe": 3, "chat": "c1", "after": 17}
    {"subscribe": 4, "permissions": true}
    {"subscribe": 5, "changes": "plan.ipynb"}
    {"unsubscribe": 5}

The server replies that the page has missed nothing (``live``) or must discard its state
(``reset``), then sends each event; ``error``, with its HTTP ``status``, and ``over`` end a subscription::

    {"subscription": 3, "live": true}
    {"subscription": 3, "id": 18, "event": {"kind": "text", ...}}

Events of a chat have their number in the chat and are stored with it. Other topics begin with their
present state, each time that a page subscribes.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from tk_ai_extension.model.encoding import encodable_text
from tk_ai_extension.model.errors import InvalidArguments, LimitReached, ToolError

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from tk_ai_extension.model.json_values import Json
    from tk_ai_extension.server.services import Services

MAX_CHANNELS = 100
"""Maximum number of connected pages of a user."""

MAX_SUBSCRIPTIONS = 200
"""Maximum number of subscriptions of a page."""

Send = Callable[[str], Awaitable[None]]


class PageChannel:
    """Subscriptions of one connection of a page.

    Args:
        services: The server's services.
        user: The page's user.
        send: Sends the page a message.

    Attributes:
        user: The page's user.
    """

    def __init__(self, services: Services, user: str, send: Send) -> None:
        self.user = user
        self._services = services
        self._send = send
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._is_closed = False

    def receive(self, message: Json) -> bool:
        """Begin or end a subscription; return whether the message requests that.

        Raises:
            InvalidArguments: there is no such topic.
            LimitReached: the page has too many subscriptions.
        """
        begun, ended = message.get("subscribe"), message.get("unsubscribe")
        if isinstance(ended, int):
            self._end(ended)
        elif isinstance(begun, int):
            kind, value = _topic(message)
            self._end(begun)
            if self._is_closed:
                return True
            if len(self._tasks) >= MAX_SUBSCRIPTIONS:
                raise LimitReached(f"A page can follow at most {MAX_SUBSCRIPTIONS} topics.")
            task = asyncio.create_task(
                self._serve(begun, kind, value, message.get("after")), name="tk-ai channel"
            )
            self._tasks[begun] = task
        else:
            return False
        return True

    def close(self) -> None:
        """End all subscriptions; none begins any more."""
        self._is_closed = True
        for number in list(self._tasks):
            self._end(number)

    def _end(self, number: int) -> None:
        if (task := self._tasks.pop(number, None)) is not None:
            task.cancel()

    async def _serve(self, number: int, kind: str, value: str, after: Any) -> None:
        async def say(**said: Any) -> None:
            await self._send(json.dumps({"subscription": number, **said}))

        serving = cast("asyncio.Task[None]", asyncio.current_task())
        self._services.streams.add(serving)
        try:
            if kind == "chat":
                await self._send_chat(value, after, say)
            else:
                await self._send_topic(kind, value, say)
            await say(over=True)
        except ToolError as error:
            await say(error=error.as_dict(), status=error.status)
        except Exception:
            logger.exception("A page cannot follow %s %s", kind, value)
            await say(
                error={**ToolError("The server failed.").as_dict(), "retryable": True}, status=500
            )
        finally:
            self._services.streams.discard(serving)
            if self._tasks.get(number) is serving:
                del self._tasks[number]

    async def _send_chat(self, chat: str, after: Any, say: Callable[..., Awaitable[None]]) -> None:
        chats = await self._services.chats()
        known = after if isinstance(after, int) else 0
        try:
            events = await chats.follow(self.user, chat, known)
        except InvalidArguments:
            # The server lost unsaved events, and numbers restart from there.
            await say(reset=True)
            return
        await say(live=True)
        async for event in events:
            await say(id=event.id, event=event.as_dict())

    async def _send_topic(self, kind: str, value: str, say: Callable[..., Awaitable[None]]) -> None:
        await self._services.ready()
        if kind == "changes":
            value = self._services.workspace.contain(value)
        await say(reset=True)
        async for event in self._events(kind, value):
            await say(event=event)

    async def _events(self, kind: str, value: str) -> AsyncIterator[Json]:
        workspace = self._services.workspace
        if kind == "permissions":
            async for request in workspace.policy.follow(self.user):
                yield request.as_dict()
        else:
            async for activity in workspace.activity.follow(workspace.by_path.at(value)):
                yield asdict(activity)


class PageChannels:
    """The channels of a server."""

    def __init__(self) -> None:
        self._channels: set[PageChannel] = set()
        self._is_closed = False

    def attach(self, services: Services, user: str, send: Send) -> PageChannel:
        """Return the channel of a page that connects.

        Raises:
            LimitReached: the user has too many pages, or the server stops.
        """
        if self._is_closed:
            raise LimitReached("The server stops.")
        if sum(channel.user == user for channel in self._channels) >= MAX_CHANNELS:
            raise LimitReached(
                f"You have {MAX_CHANNELS} pages of JupyterLab open.", hint="Close some of them."
            )
        channel = PageChannel(services, user, send)
        self._channels.add(channel)
        return channel

    def detach(self, channel: PageChannel) -> None:
        """Close the channel of a page whose connection has ended."""
        self._channels.discard(channel)
        channel.close()

    def close(self) -> None:
        """Close all channels; none begins any more."""
        self._is_closed = True
        for channel in list(self._channels):
            self.detach(channel)


def _topic(message: Json) -> tuple[str, str]:
    """Parse the topic of a subscription and its argument.

    Raises:
        InvalidArguments: there is no such topic.
    """
    chat, notebook = message.get("chat"), message.get("changes")
    if isinstance(chat, str):
        return "chat", encodable_text(chat)
    if isinstance(notebook, str):
        return "changes", encodable_text(notebook)
    if message.get("permissions") is True:
        return "permissions", ""
    raise InvalidArguments("There is no such topic.")
