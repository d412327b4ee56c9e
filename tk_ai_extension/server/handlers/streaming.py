"""Streams of server-sent events: alive while nothing happens, and over when nobody listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tornado.iostream import StreamClosedError

from tk_ai_extension.server.bridge import send_at_once
from tk_ai_extension.server.handlers.base import TkAIHandler

HEARTBEAT = 15.0
"""Seconds after which a silent stream sends a comment, so that no proxy takes it for dead."""


class StreamingHandler(TkAIHandler):
    """A route that streams events, and notices when nobody listens any more."""

    _streaming: asyncio.Task[None] | None = None

    async def stream(self, frames: AsyncIterator[str]) -> bool:
        """Streams events until they end; whether they did, and not the line or the server before.

        Args:
            frames: The events as they are sent: ``id``, ``event`` and ``data``, and an empty line.
        """
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
        if self._streaming.cancelled():
            return False
        self._streaming.result()
        self.finish(set_content_type="text/event-stream")
        return True

    def on_connection_close(self) -> None:
        """The client is gone; what it listened to goes on."""
        super().on_connection_close()
        if self._streaming is not None:
            self._streaming.cancel()

    async def _stream(self, frames: AsyncIterator[str]) -> None:
        following = asyncio.ensure_future(anext(frames, None))
        try:
            await self.flush()
            while True:
                await asyncio.wait((following,), timeout=HEARTBEAT)
                if not following.done():
                    self.send(": still here\n\n")
                elif (frame := following.result()) is None:
                    return
                else:
                    self.send(frame)
                    following = asyncio.ensure_future(anext(frames, None))
                await self.flush()
        except StreamClosedError:
            # As when the client goes away in any other moment.
            raise asyncio.CancelledError from None
        finally:
            following.cancel()
            await asyncio.wait((following,))
