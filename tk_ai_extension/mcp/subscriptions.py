"""Subscriptions of clients to changes of notebooks."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any

import mcp_types as types
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError

from tk_ai_extension.mcp.resources import no_resource, protocol_error
from tk_ai_extension.mcp.sdk import Context, connection_of
from tk_ai_extension.mcp.uris import NotebookUri, parse
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.workspace.workspace import Workspace

INTERVAL = 0.5
"""Minimum interval between notifications of a subscription, in seconds."""
MAX_SUBSCRIPTIONS = 200
"""Maximum number of subscriptions of a session, or of a stream without sessions."""

_STATE = "tk_ai.subscriptions"


class Throttle:
    """Throttle: calls a function at the first event, and once after each interval with further events."""

    def __init__(self, function: Callable[[], None], interval: float = INTERVAL) -> None:
        self._function = function
        self._interval = interval
        self._timer: asyncio.TimerHandle | None = None
        self._again = False

    def __call__(self) -> None:
        """Handle an event."""
        if self._timer is not None:
            self._again = True
            return
        self._function()
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._elapsed)

    def close(self) -> None:
        """Stop calling the function."""
        if self._timer is not None:
            self._timer.cancel()

    def _elapsed(self) -> None:
        self._timer, again, self._again = None, self._again, False
        if again:
            self()


class Subscriptions:
    """``resources/subscribe`` for sessions, ``subscriptions/listen`` for the protocol without them."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._tasks = BackgroundTasks(logging.getLogger(__name__))
        # All streams share the bus: each resource is published once, whatever the number of listeners.
        self._published: dict[str, ExitStack] = {}
        self._listeners: Counter[str] = Counter()

    async def subscribe(
        self, context: Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Subscribe to a resource until the session ends or unsubscribes."""
        followed = _followed(context)
        if params.uri in followed:
            return types.EmptyResult()
        if len(followed) >= MAX_SUBSCRIPTIONS:
            raise _too_many()
        session = context.session
        with ExitStack() as stack:
            self._follow(
                context,
                params.uri,
                lambda: self._spawn(session.send_resource_updated(params.uri)),
                stack,
            )
            followed[params.uri] = stack.pop_all()
        return types.EmptyResult()

    async def unsubscribe(
        self, context: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """Unsubscribe from a resource."""
        stack = _followed(context).pop(params.uri, None)
        if stack is not None:
            stack.close()
        return types.EmptyResult()

    async def listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Subscribe to resources while the client keeps the stream open."""
        uris = dict.fromkeys(params.notifications.resource_subscriptions or ())
        if len(uris) > MAX_SUBSCRIPTIONS:
            raise _too_many()
        with ExitStack() as stack:
            for uri in uris:
                self._publish(context, uri, stack)
            return await self._listen(context, params)

    async def close(self) -> None:
        """End all streams with a final message."""
        self._listen.close()
        await self._tasks.close()

    def _publish(self, context: Context, uri: str, stack: ExitStack) -> None:
        """Publish changes of a resource until the stacks of all its listeners are closed."""
        if uri not in self._published:
            event = ResourceUpdated(uri=uri)
            with ExitStack() as following:
                self._follow(context, uri, lambda: self._spawn(self._bus.publish(event)), following)
                self._published[uri] = following.pop_all()
        self._listeners[uri] += 1
        stack.callback(self._release, uri)

    def _release(self, uri: str) -> None:
        self._listeners[uri] -= 1
        if not self._listeners[uri]:
            del self._listeners[uri]
            self._published.pop(uri).close()

    def _follow(
        self, context: Context, uri: str, notify: Callable[[], None], stack: ExitStack
    ) -> None:
        """Call ``notify`` on changes of the notebook until ``stack`` is closed."""
        place = parse(uri)
        if place is None:
            raise no_resource(context, uri)
        if not isinstance(place, NotebookUri):
            return  # an artifact never changes
        try:
            path = self._workspace.contain(place.path)
        except ToolError as error:
            raise protocol_error(context, error) from None
        throttle = Throttle(notify)
        stack.callback(throttle.close)
        stack.callback(self._workspace.store.subscribe(path, throttle))

    def _spawn(self, sending: Coroutine[Any, Any, None]) -> None:
        self._tasks.spawn(sending, "Notifying a subscriber")


def _too_many() -> MCPError:
    return MCPError(
        types.INVALID_REQUEST,
        f"A session or stream can have at most {MAX_SUBSCRIPTIONS} subscriptions.",
    )


def _followed(context: Context) -> dict[str, ExitStack]:
    """Return this session's subscriptions by URI."""
    connection = connection_of(context)
    followed: dict[str, ExitStack] | None = connection.state.get(_STATE)
    if followed is None:
        followed = connection.state[_STATE] = {}
        connection.exit_stack.callback(_end, followed)
    return followed


def _end(followed: dict[str, ExitStack]) -> None:
    while followed:
        followed.popitem()[1].close()
