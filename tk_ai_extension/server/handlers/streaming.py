"""Streams of server-sent events: alive while nothing happens, and over when nobody listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tornado.iostream import StreamClosedError

from tk_ai_extension.model.errors import LimitReached
from tk_ai_extension.server.bridge import send_at_once
from tk_ai_extension.server.handlers.handler import TkAIHandler
from tk_ai_extension.server.users import username

HEARTBEAT = 15.0
"""Seconds after which a silent stream sends a comment, so that no proxy takes it for dead."""

MAX_STREAMS = 100
"""How many event streams one user may have open at once."""

STALLED = 60.0
"""Seconds after which a stream is closed whose client takes nothing; it may resume it."""


class StreamingHandler(TkAIHandler):
    """A route that streams events, and notices when nobody listens any more."""

    _streaming: asyncio.Task[None] | None = None

    async def stream(self, frames: AsyncIterator[str]) -> bool:
        """Stream events until they end; whether they did, and not the line or the server before.

        A frame is made when the client has taken the one before. A client that takes nothing for
        `STALLED` seconds is disconnected; `Last-Event-ID` resumes.

        Args:
            frames: The events as they are sent: ``id``, ``event`` and ``data``, and an empty line.

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
            # The users of a Hub's server are many, and those who stream few.
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
        """Refuse a stream more than a user may have.

        Raises:
            LimitReached.
        """
        if self.services.streaming_users[username(self)] >= MAX_STREAMS:
            raise LimitReached(
                f"You have {MAX_STREAMS} event streams open.",
                hint="Close some of them, or ask without `Accept: text/event-stream`.",
            )

    async def _flush(self) -> None:
        """Send what was written.

        Raises:
            StreamClosedError: the client is gone, or takes nothing.
        """
        try:
            async with asyncio.timeout(STALLED):
                await self.flush()
        except TimeoutError:
            self.log.warning("%s: closed, since its client reads nothing", self.request.path)
            connection: Any = self.request.connection
            connection.stream.close()
            raise StreamClosedError from None

    def on_connection_close(self) -> None:
        """The client is gone; what it listened to goes on."""
        super().on_connection_close()
        if self._streaming is not None:
            self._streaming.cancel()

    async def _stream(self, frames: AsyncIterator[str]) -> None:
        following = asyncio.ensure_future(anext(frames, None))
        try:
            await self._flush()
            while True:
                await asyncio.wait((following,), timeout=HEARTBEAT)
                if not following.done():
                    self.send(": still here\n\n")
                elif (frame := following.result()) is None:
                    return
                else:
                    self.send(frame)
                    following = asyncio.ensure_future(anext(frames, None))
                await self._flush()
        except StreamClosedError:
            # As when the client goes away in any other moment.
            raise asyncio.CancelledError from None
        finally:
            following.cancel()
            await asyncio.wait((following,))
