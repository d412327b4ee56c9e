"""Event channel of a page of JupyterLab: subscriptions to topics over its WebSocket.

A page subscribes with a number of its choice and the id of the last event that it knows::

    {"subscribe": 3, "chat": "c1", "after": 17}
    {"subscribe": 4, "permissions": true}
    {"subscribe": 5, "changes": "plan.ipynb", "after": "9f3a-12"}
    {"unsubscribe": 5}

The server replies that the page has missed nothing (``live``) or must discard its state
(``reset``), then sends each event with its id; ``error``, with its HTTP ``status``, and ``over`` end
a subscription::

    {"subscription": 3, "live": true}
    {"subscription": 3, "id": 18, "event": {"kind": "text", ...}}

Events of a chat have their number in the chat and are stored with it. Events of other topics are
numbered for each subscription; the last of them are kept for `KEEP` seconds after its end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from tk_ai_extension.model.encoding import encodable_text
from tk_ai_extension.model.errors import InvalidArguments, LimitReached, ToolError

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from tk_ai_extension.model.json_values import Json
    from tk_ai_extension.server.services import Services

KEEP = 60.0
"""Seconds for which events of an ended subscription or a disconnected page are kept."""

MAX_KEPT = 500
"""Maximum number of kept events of a topic."""

MAX_IDLE_FEEDS = 50
"""Maximum number of ended subscriptions of a page with kept events."""

MAX_CHANNELS = 100
"""Maximum number of pages of a user, including disconnected ones."""

MAX_SUBSCRIPTIONS = 200
"""Maximum number of subscriptions of a page."""

_NUMBER = re.compile(r"\d{1,15}", re.ASCII)

Send = Callable[[str], Awaitable[None]]


class Feed:
    """Numbered events of one topic for one subscription, with a buffer of the last ones.

    Args:
        topic: The topic.
        source: The events, beginning with the topic's state.

    Attributes:
        name: Prefix of the ids of its events.
        readers: Number of connections that read it: a previous one may not have ended yet.
        expiry: Drops it; set while it has no reader.
    """

    def __init__(self, topic: tuple[str, str], source: AsyncIterator[Json]) -> None:
        self.topic = topic
        self.name = secrets.token_hex(4)
        self.readers = 0
        self.expiry: asyncio.TimerHandle | None = None
        self._kept: deque[tuple[int, Json]] = deque(maxlen=MAX_KEPT)
        self._last = 0
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._run(source), name="tk-ai feed")

    def position(self, after: str) -> int | None:
        """Return the number of the event with this id; None if the next ones are no longer kept."""
        name, _, number = after.partition("-")
        if name != self.name or _NUMBER.fullmatch(number) is None:
            return None
        first = self._kept[0][0] if self._kept else self._last + 1
        return int(number) if first - 1 <= int(number) <= self._last else None

    async def after(self, number: int) -> AsyncIterator[tuple[str, Json]]:
        """Yield the events after a number with their ids, until one is no longer kept.

        Raises:
            ToolError: the topic cannot be followed.
        """
        while True:
            present = [each for each in self._kept if each[0] > number]
            if present and present[0][0] != number + 1:
                return
            for place, event in present:
                yield f"{self.name}-{place}", event
                number = place
            if number == self._last:
                if self._task.done():
                    if not self._task.cancelled():
                        self._task.result()
                    return
                await self._changed.wait()

    def close(self) -> None:
        """Stop following the topic."""
        self.keep()
        self._task.cancel()

    def keep(self) -> None:
        """Cancel the timer that would drop it."""
        if self.expiry is not None:
            self.expiry.cancel()
            self.expiry = None

    async def _run(self, source: AsyncIterator[Json]) -> None:
        try:
            async for event in source:
                self._last += 1
                self._kept.append((self._last, event))
                self._wake()
        finally:
            asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class PageChannel:
    """Subscriptions of one page, across reconnects.

    Args:
        services: The server's services.
        user: The page's user.

    Attributes:
        connection: The page's connection; None while it is disconnected.
    """

    def __init__(self, services: Services, user: str) -> None:
        self._services = services
        self._user = user
        self.connection: object | None = None
        self._is_closed = False
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._feeds: dict[str, Feed] = {}

    def receive(self, message: Json, send: Send) -> bool:
        """Begin or end a subscription; return whether the message requests that. After `close` none begins.

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
                self._serve(begun, kind, value, message.get("after"), send), name="tk-ai channel"
            )
            self._tasks[begun] = task
        else:
            return False
        return True

    def detach(self) -> None:
        """Handle a lost connection: events are still numbered, but not sent."""
        for number in list(self._tasks):
            self._end(number)

    def close(self) -> None:
        """Close the channel of a page that will not reconnect, or of a server that stops."""
        self._is_closed = True
        self.detach()
        for feed in self._feeds.values():
            feed.close()
        self._feeds.clear()

    def _end(self, number: int) -> None:
        if (task := self._tasks.pop(number, None)) is not None:
            task.cancel()

    async def _serve(self, number: int, kind: str, value: str, after: Any, send: Send) -> None:
        async def say(**said: Any) -> None:
            await send(json.dumps({"subscription": number, **said}))

        serving = cast("asyncio.Task[None]", asyncio.current_task())
        self._services.streams.add(serving)
        try:
            if kind == "chat":
                await self._send_chat(value, after, say)
            else:
                await self._send_feed(kind, value, after, say)
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
            events = await chats.follow(self._user, chat, known)
        except InvalidArguments:
            # The server lost unsaved events, and numbers restart from there.
            await say(reset=True)
            return
        await say(live=True)
        async for event in events:
            await say(id=event.id, event=event.as_dict())

    async def _send_feed(
        self, kind: str, value: str, after: Any, say: Callable[..., Awaitable[None]]
    ) -> None:
        await self._services.ready()
        if kind == "changes":
            value = self._services.workspace.contain(value)
        feed, position = self._known((kind, value), after)
        if feed is None or position is None:
            feed = Feed((kind, value), self._source(kind, value))
            self._feeds[feed.name] = feed
        feed.readers += 1
        feed.keep()
        try:
            await say(**({"reset": True} if position is None else {"live": True}))
            async for event_id, event in feed.after(position or 0):
                await say(id=event_id, event=event)
        finally:
            feed.readers -= 1
            if not feed.readers and feed.name in self._feeds:
                loop = asyncio.get_running_loop()
                feed.expiry = loop.call_later(KEEP, self._expire, feed)
            self._trim()

    def _known(self, topic: tuple[str, str], after: Any) -> tuple[Feed | None, int | None]:
        """Return the feed of an event id, and the event's number in it."""
        if not isinstance(after, str):
            return None, None
        feed = self._feeds.get(after.partition("-")[0])
        if feed is None or feed.topic != topic:
            return None, None
        return feed, feed.position(after)

    def _trim(self) -> None:
        """Drop the oldest feeds without readers."""
        idle = [feed for feed in self._feeds.values() if not feed.readers]
        for feed in idle[:-MAX_IDLE_FEEDS]:
            self._expire(feed)

    def _expire(self, feed: Feed) -> None:
        """Drop a feed without readers."""
        if self._feeds.pop(feed.name, None) is not None:
            feed.close()

    async def _source(self, kind: str, value: str) -> AsyncIterator[Json]:
        workspace = self._services.workspace
        if kind == "permissions":
            async for request in workspace.policy.follow(self._user):
                yield request.as_dict()
        else:
            async for activity in workspace.activity.follow(workspace.by_path.at(value)):
                yield asdict(activity)


class PageChannels:
    """The channels of a server, by page."""

    def __init__(self) -> None:
        self._channels: dict[tuple[str, str], PageChannel] = {}
        self._expiry: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._is_closed = False

    def attach(self, services: Services, user: str, client: str, connection: object) -> PageChannel:
        """Return the channel of a page that connects or reconnects.

        Raises:
            LimitReached: the user has too many pages.
        """
        key = (user, client)
        if (expiry := self._expiry.pop(key, None)) is not None:
            expiry.cancel()
        channel = self._channels.get(key)
        if channel is None:
            if sum(owner == user for owner, _ in self._channels) >= MAX_CHANNELS:
                raise LimitReached(
                    f"You have {MAX_CHANNELS} pages of JupyterLab open.",
                    hint="Close some of them; closed ones count for another minute.",
                )
            channel = PageChannel(services, user)
            if self._is_closed:
                channel.close()
            else:
                self._channels[key] = channel
        channel.detach()
        channel.connection = connection
        return channel

    def lost(self, channel: PageChannel, connection: object, *, left: bool) -> None:
        """Handle the end of a page's connection.

        Args:
            channel: The page's channel.
            connection: Its connection; ignored if it has a newer one.
            left: Whether the page was closed or reloaded and will not reconnect.
        """
        if channel.connection is not connection:
            return
        channel.connection = None
        channel.detach()
        key = next((key for key, each in self._channels.items() if each is channel), None)
        if key is None:
            return
        if left:
            self._forget(key)
        else:
            loop = asyncio.get_running_loop()
            self._expiry[key] = loop.call_later(KEEP, self._forget, key)

    def close(self) -> None:
        """Close all channels, also later ones."""
        self._is_closed = True
        for key in list(self._channels):
            self._forget(key)

    def _forget(self, key: tuple[str, str]) -> None:
        if (expiry := self._expiry.pop(key, None)) is not None:
            expiry.cancel()
        if (channel := self._channels.pop(key, None)) is not None:
            channel.close()


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
