"""The WebSocket of a page of JupyterLab: its tabs, and events of the topics that it subscribes to.

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
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from jupyter_core.utils import ensure_async
from jupyter_server.base.handlers import JupyterHandler
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from tk_ai_extension.model.errors import InvalidArguments, LimitReached, ToolError
from tk_ai_extension.model.json_values import encodable_text, loads
from tk_ai_extension.notebooks.browser_pages import MAX_NAME, BrowserPage, BrowserPages
from tk_ai_extension.server.handlers.base_handler import (
    RESOURCE,
    SETTINGS_KEY,
    RouteError,
    TypedErrorHandler,
    is_origin_allowed,
    username,
)

if TYPE_CHECKING:
    from tk_ai_extension.model.json_values import Json
    from tk_ai_extension.server.services import Services

logger = logging.getLogger(__name__)

TABS_KEY = "tk_ai_extension_tabs"
"""Key of the `BrowserPages` in the web application's settings."""

CHANNELS_KEY = "tk_ai_extension_channels"
"""Key of the set of all `PageSubscriptions` in the web application's settings."""

MAX_CHANNELS = 100
"""Maximum number of connected pages of a user."""

MAX_SUBSCRIPTIONS = 200
"""Maximum number of subscriptions of a page."""

MAX_MESSAGE = 32_000_000
"""Maximum size of a page's message, in bytes; a page sends a large notebook in smaller pieces."""

PING = 10.0
"""Interval and timeout of pings, in seconds; a page that does not answer is disconnected."""

HEARTBEAT = 15.0
"""Interval of heartbeat messages, in seconds: pages cannot see pings, and proxies drop idle connections."""

GOING_AWAY = (1000, 1001)
"""Close codes of a page that is closed or reloaded, or that disconnects on purpose."""


Send = Callable[[str], Awaitable[None]]


class PageSubscriptions:
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
        """End all subscriptions."""
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
            notebook = workspace.by_path.at(value)
            running = workspace.executions.running(notebook)
            async for activity in workspace.activity.follow(notebook, running, user=self.user):
                yield asdict(activity)


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


class PageWebSocketHandler(TypedErrorHandler, WebSocketHandler, JupyterHandler):
    """The connection of one page; see `notebooks.browser_pages`."""

    auth_resource = RESOURCE
    _page: BrowserPage | None = None
    _channel: PageSubscriptions | None = None
    _beating: asyncio.Task[None] | None = None
    _may_write = False

    @property
    def services(self) -> Services:
        """Services of the extension."""
        return cast("Services", self.settings[SETTINGS_KEY])

    @property
    def tabs(self) -> BrowserPages:
        """The pages of this server."""
        return cast("BrowserPages", self.settings[TABS_KEY])

    @property
    def channels(self) -> set[PageSubscriptions]:
        """The event channels of this server's pages."""
        return cast("set[PageSubscriptions]", self.settings[CHANNELS_KEY])

    @property
    def ping_interval(self) -> float:
        """See `PING`."""
        return PING

    @property
    def ping_timeout(self) -> float:
        """See `PING`."""
        return PING

    @property
    def max_message_size(self) -> int:
        """See `MAX_MESSAGE`."""
        return MAX_MESSAGE

    async def prepare(self) -> None:  # pyrefly: ignore[bad-override]
        """Authenticate the user, without a redirect to the login page."""
        await super().prepare(_redirect_to_login=False)

    def check_origin(self, origin: str = "") -> bool:  # pyrefly: ignore[bad-override-param-name]  # noqa: ARG002
        """Whether the page's origin is allowed; checked even with a token."""
        return is_origin_allowed(self, self.services.settings.allowed_origins)

    def clear_cookie(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: a WebSocket cannot set cookies."""

    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Open the connection for users with the action `read`.

        Raises:
            RouteError: 403 without a login or the action `read`, or from a foreign origin; 400 without
                a page name.
        """
        user = self.current_user
        if user is None:
            raise RouteError(403, "A token or a login is required.")
        if not is_origin_allowed(self, self.services.settings.allowed_origins):
            raise RouteError(
                403,
                (
                    f"Pages of this origin may not call the server ({self.get_origin()!s}); "
                    "TkAIExtensionApp.allowed_origins lists others that may."
                ),
            )
        if not await self._may("read"):
            raise RouteError(403, "You are not allowed to read.")
        self._may_write = await self._may("write")
        if not 8 <= len(self.get_query_argument("client", "")) <= MAX_NAME:
            raise RouteError(400, "The parameter `client`, the page's name, is missing or invalid.")
        await super().get(*args, **kwargs)

    def open(self, *_args: Any, **_kwargs: Any) -> None:
        """Register the page's connection."""
        self.set_nodelay(True)
        client, user = self.get_query_argument("client"), username(self)
        if sum(channel.user == user for channel in self.channels) >= MAX_CHANNELS:
            self.close(
                1013, f"You have {MAX_CHANNELS} pages of JupyterLab open: close some of them."
            )
            return
        self._channel = PageSubscriptions(self.services, user, self.send)
        self.channels.add(self._channel)
        if self._may_write:
            self._page = self.tabs.connect(user, client, self)
        self._beating = asyncio.create_task(self._beat(), name="tk-ai heartbeat")
        self.services.streams.add(self._beating)

    async def on_message(self, message: str | bytes) -> None:
        """Handle a message of the page."""
        if self._channel is None:
            return
        answer: Json | None = None
        try:
            said = loads(message)
            is_topic = isinstance(said, dict) and self._channel.receive(cast("Json", said))
            # Offering notebooks to agents requires the action `write`.
            if not is_topic and self._page is not None:
                answer = self.tabs.handle(self._page, said)
        except LimitReached as error:
            self.close(1013, error.message)
        except (ValueError, RecursionError):
            self.close(1007, "A message must be JSON.")
        except InvalidArguments as error:
            self.close(1008, error.message)
        else:
            if answer is not None:
                await self.send(json.dumps(answer))

    def on_close(self) -> None:
        """Handle the end of the connection."""
        self._lost(left=self.close_code in GOING_AWAY)

    async def send(self, message: str) -> None:
        """See `notebooks.browser_pages.PageConnection.send`."""
        # `on_close` handles the end of the connection.
        with suppress(WebSocketClosedError):
            await self.write_message(message)

    def drop(self) -> None:
        """See `notebooks.browser_pages.PageConnection.drop`."""
        self.close(4000, "no response")
        self._lost(left=False)

    def _lost(self, *, left: bool) -> None:
        if self._beating is not None:
            self._beating.cancel()
            self.services.streams.discard(self._beating)
        if self._page is not None:
            self.tabs.disconnect(self._page, self, left=left)
        if self._channel is not None:
            self.channels.discard(self._channel)
            self._channel.close()
            self._channel = None

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT)
            await self.send(json.dumps({"heartbeat": True}))

    async def _may(self, action: str) -> bool:
        user = self.current_user
        return await ensure_async(self.authorizer.is_authorized(self, user, action, RESOURCE))


SOCKETS: tuple[tuple[str, type[PageWebSocketHandler]], ...] = (
    (r"api/tk-ai/tabs", PageWebSocketHandler),
)
"""Patterns below ``base_url`` of WebSockets, like `handlers.routes.ROUTES`."""
