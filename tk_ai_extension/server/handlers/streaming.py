"""Streams of server-sent events with keep-alives and disconnect detection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tornado.iostream import StreamClosedError

from tk_ai_extension.model.errors import LimitReached
from tk_ai_extension.model.sentences import Sentence
from tk_ai_extension.server.asgi import send_at_once
from tk_ai_extension.server.handlers.handler import TkAIHandler
from tk_ai_extension.server.users import username

HEARTBEAT = 15.0
"""Interval of keep-alive comments in an idle stream, in seconds: proxies drop idle connections."""

MAX_STREAMS = 100
"""Maximum number of open event streams of a user."""

STALLED = 60.0
"""Seconds after which the stream of a client that does not read is closed; it may resume."""


class StreamingHandler(TkAIHandler):
    """A route that streams events and detects disconnects."""

    _streaming: asyncio.Task[None] | None = None

    async def stream(self, frames: AsyncIterator[str]) -> bool:
        """Stream events; return whether they ended before the connection or the server did.

        With backpressure: the next frame is created when the client has received the previous one. A
        client that receives nothing for `STALLED` seconds is disconnected; `Last-Event-ID` resumes.

        Args:
            frames: The events with ``id``, ``event`` and ``data``, each ending with an empty line.

        Raises:
            LimitReached: the user has too many streams.
        """
        self.check_streams()
        users = self.services.streaming_users
        user = username(self)
        users[user] += 1
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("Cache-Control", "no-cache, no-transform")
        self.set_header("X-Accel-Buffering", "no")
        send_at_once(self)
        self._streaming = asyncio.create_task(self._stream(frames))
        self.services.streams.add(self._streaming)
        try:
            await asyncio.wait((self._streaming,))
        finally:
            self.services.streams.discard(self._streaming)
            users[user] -= 1
            # Delete zero counts: a server can have many users, and few of them stream.
            if not users[user]:
                del users[user]
        if self._streaming.cancelled():
            return False
        self._streaming.result()
        self.finish(set_content_type="text/event-stream")
        return True

    def accepts_events(self) -> bool:
        """Whether the client asks for server-sent events."""
        return "text/event-stream" in self.request.headers.get("Accept", "")

    def check_streams(self) -> None:
        """Check the limit of a user's streams.

        Raises:
            LimitReached.
        """
        if self.services.streaming_users[username(self)] >= MAX_STREAMS:
            raise LimitReached(
                Sentence("streams_many", count=MAX_STREAMS), hint=Sentence("streams_many_hint")
            )

    async def send_out(self) -> None:
        """Flush the written data.

        Raises:
            StreamClosedError: the client has disconnected or does not read.
        """
        try:
            async with asyncio.timeout(STALLED):
                await self.flush()
        except TimeoutError:
            self.log.warning("%s: closed, its client does not read", self.request.path)
            connection: Any = self.request.connection
            connection.stream.close()
            raise StreamClosedError from None

    def on_connection_close(self) -> None:
        """Handle a disconnect: the source continues."""
        super().on_connection_close()
        if self._streaming is not None:
            self._streaming.cancel()

    async def _stream(self, frames: AsyncIterator[str]) -> None:
        following = asyncio.ensure_future(anext(frames, None))
        try:
            await self.send_out()
            while True:
                await asyncio.wait((following,), timeout=HEARTBEAT)
                if not following.done():
                    self.send(": still here\n\n")
                elif (frame := following.result()) is None:
                    return
                else:
                    self.send(frame)
                    following = asyncio.ensure_future(anext(frames, None))
                await self.send_out()
        except StreamClosedError:
            # Treat it like any other disconnect.
            raise asyncio.CancelledError from None
        finally:
            following.cancel()
            await asyncio.wait((following,))
