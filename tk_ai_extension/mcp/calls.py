"""Running tool calls, and the two ways in which their request can end first.

After a disconnect the call continues: a lost connection must not kill a training run.
``notifications/cancelled`` cancels the call, and the tool interrupts its code. The SDK cancels the
handler in both cases; only the notification tells them apart (docs/adr/0011).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params

from tk_ai_extension.mcp.sdk import Context, connection_of

logger = logging.getLogger(__name__)

GRACE = 0.5
"""Grace period for calls when the server stops, in seconds."""

Outcome = types.CallToolResult | types.InputRequiredResult
"""Result of a tool call."""

Name = tuple[str, types.RequestId]
"""Session id and request id."""


class RunningCalls:
    """Running calls of all clients, which may end after their connections."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Outcome]] = set()

    def start(self, call: Coroutine[Any, Any, Outcome]) -> asyncio.Task[Outcome]:
        """Start a call."""
        task = asyncio.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
        """End all calls: calls with ended executions return by themselves, the others are cancelled."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Outcome]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # A waiting client gets the exception as well; otherwise this is the only trace.
            logger.error("A tool call failed", exc_info=error)


class Calls:
    """Calls of one MCP server, by the ids of their requests."""

    def __init__(self, running: RunningCalls) -> None:
        self._running = running
        self._named: dict[Name, asyncio.Task[Outcome]] = {}

    async def run(self, context: Context, call: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Run a call to its end, even after a disconnect."""
        task = self._running.start(call)
        name = _name(context, context.request_id)
        if name is not None:
            # Keep it registered until it ends: the cancelling notification is handled just after
            # the SDK has cancelled the handler.
            self._named[name] = task
            task.add_done_callback(lambda _: self._forget(name, task))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                logger.info("The client of %s has disconnected; the call continues", context.method)
            raise

    async def observe(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """SDK middleware: handle cancellations by the client."""
        if ctx.method == "notifications/cancelled":
            request_id = cancelled_request_id_from_params(ctx.params)
            name = _name(ctx, request_id)
            task = None if name is None else self._named.get(name)
            if task is not None:
                task.cancel()
        return await call_next(ctx)

    def _forget(self, name: Name, task: asyncio.Task[Outcome]) -> None:
        if self._named.get(name) is task:
            del self._named[name]


def _name(context: Context, request_id: types.RequestId | None) -> Name | None:
    """Return the key by which a cancellation refers to a request; None if none can.

    A request over HTTP without a session is cancelled by closing its stream. A pipe has one client
    and no session id.
    """
    session_id = connection_of(context).session_id
    if request_id is None or (session_id is None and context.request is not None):
        return None
    return session_id or "", coerce_request_id(request_id)
