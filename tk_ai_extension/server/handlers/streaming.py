"""Streams of server-sent events with keep-alives and disconnect detection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Generator
from contextlib import contextmanager
from typing import Any

from tornado.iostream import StreamClosedError

from tk_ai_extension.model.errors import LimitReached
from tk_ai_extension.server.handlers.base_handler import TkAIHandler, send_at_once, username

HEARTBEAT = 15.0
"""Interval of keep-alive comments in an idle stream, in seconds: proxies drop idle connections."""

MAX_STREAMS = 100
"""Maximum number of open event streams of a user."""

STALLED = 60.0
"""Seconds after which the stream of a client that does not read is closed; it may resume."""


class StreamingHandler(TkAIHandler):
    """A route that streams events and detects disconnects."""

    async def stream(self, frames: AsyncIterator[str]) -> None:
        """Stream events, in a block of `counted_stream`, until they end or the connection does.

        With backpressure: the next frame is created when the client has received the previous one. A
        client that receives nothing for `STALLED` seconds is disconnected; `Last-Event-ID` resumes.

        Args:
            frames: The events with ``id``, ``event`` and ``data``, each ending with an empty line.
        """
        if self.gone.is_set():
            return
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("Cache-Control", "no-cache, no-transform")
        self.set_header("X-Accel-Buffering", "no")
        send_at_once(self)
        if await self.until_ended(self._stream(frames)):
            self.finish(set_content_type="text/event-stream")

    async def until_ended(self, work: Coroutine[Any, Any, None]) -> bool:
        """Await work; return False if the client has disconnected or the server stops before its end."""
        task = asyncio.create_task(work)
        self.services.streams.add(task)
        try:
            is_connected = await self.while_connected(task)
        finally:
            self.services.streams.discard(task)
        if not is_connected or task.cancelled():
            return False
        task.result()
        return True

    @contextmanager
    def counted_stream(self) -> Generator[None]:
        """Count a stream of the user, from before the effect that the limit guards.

        Raises:
            LimitReached: the user has too many streams.
        """
        users, user = self.services.streaming_users, username(self)
        if users[user] >= MAX_STREAMS:
            raise LimitReached(
                f"You have {MAX_STREAMS} event streams open.",
                hint="Close some of them, or send the request without `Accept: text/event-stream`.",
            )
        users[user] += 1
        try:
            yield
        finally:
            users[user] -= 1

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
