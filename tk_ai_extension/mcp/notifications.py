"""Notifications with a response: progress, and log messages for clients that request them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, get_args

import mcp_types as types
from mcp.server.session import ServerSession

from tk_ai_extension.mcp.sdk import Context, connection_of, is_modern
from tk_ai_extension.model.json_values import Json

logger = logging.getLogger(__name__)

MAX_WAITING = 100
"""Maximum number of queued reports for a slow client; the oldest are dropped: the result is complete."""
DRAIN = 1.0
"""Grace period for queued reports before the result, in seconds."""


class ProgressReporter:
    """Sends a tool's progress in order, as fast as the client reads; never blocks the tool.

    Does nothing without a progress token, and stops when a report cannot be sent.
    """

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        # None is the end.
        self._waiting: asyncio.Queue[str | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def __call__(self, message: str) -> None:
        """Queue a report; does not block."""
        if self._closed:
            return
        if self._waiting.qsize() == MAX_WAITING:
            self._waiting.get_nowait()
        self._waiting.put_nowait(message)
        if self._task is None:
            self._task = asyncio.create_task(self._send())

    async def close(self) -> None:
        """Flush queued reports for a moment, then drop the rest: the result follows."""
        self._closed = True
        task = self._task
        if task is None:
            return
        self._waiting.put_nowait(None)
        try:
            await asyncio.wait((task,), timeout=DRAIN)
        finally:
            task.cancel()
            await asyncio.wait((task,))
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("Reporting progress failed", exc_info=error)

    async def _send(self) -> None:
        sent = 0
        while (message := await self._waiting.get()) is not None:
            sent += 1
            await self._session.report_progress(sent, message=message)


_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)
_STATE = "tk_ai.log_level"


class ClientLog:
    """Log messages for a client, from the level that it has set; none for one that has set no level.

    It sets the level by ``logging/setLevel`` in a session, and in the request in a protocol without sessions.
    """

    async def set_level(
        self, context: Context, params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        """Set the session's minimum level."""
        connection_of(context).state[_STATE] = params.level
        return types.EmptyResult()

    async def send(self, context: Context, level: types.LoggingLevel, data: Json) -> None:
        """Send a message with the response to this request if the client wants it."""
        wanted = _wanted(context)
        if wanted is None or _LEVELS.index(level) < _LEVELS.index(wanted):
            return
        await context.session.send_notification(
            types.LoggingMessageNotification(
                params=types.LoggingMessageNotificationParams(
                    level=level, logger="tk_ai_extension", data=data
                )
            ),
            related_request_id=context.request_id,
        )


def _wanted(context: Context) -> types.LoggingLevel | None:
    if is_modern(context):
        level: Any = (context.meta or {}).get(types.LOG_LEVEL_META_KEY)
        return level if level in _LEVELS else None
    return connection_of(context).state.get(_STATE)
