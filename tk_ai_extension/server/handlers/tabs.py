"""The WebSocket of a page of JupyterLab: its tabs and its event channel."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from jupyter_core.utils import ensure_async
from jupyter_server.base.handlers import JupyterHandler
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from tk_ai_extension.model.errors import InvalidArguments, LimitReached
from tk_ai_extension.notebooks.pages import MAX_NAME, Page, Pages
from tk_ai_extension.server.handlers.handler import (
    RESOURCE,
    SETTINGS_KEY,
    RouteError,
    TypedErrorHandler,
    is_origin_allowed,
    username,
)

if TYPE_CHECKING:
    from tk_ai_extension.model.json_values import Json
    from tk_ai_extension.server.page_channels import PageChannel, PageChannels
    from tk_ai_extension.server.services import Services

TABS_KEY = "tk_ai_extension_tabs"
"""Key of the `Pages` in the web application's settings."""

CHANNELS_KEY = "tk_ai_extension_channels"
"""Key of the `PageChannels` in the web application's settings."""

MAX_MESSAGE = 32_000_000
"""Maximum size of a page's message, in bytes; a page sends a large notebook in smaller pieces."""

PING = 10.0
"""Interval and timeout of pings, in seconds; a page that does not answer is disconnected."""

HEARTBEAT = 15.0
"""Interval of heartbeat messages, in seconds: pages cannot see pings, and proxies drop idle connections."""

GOING_AWAY = (1000, 1001)
"""Close codes of a page that is closed or reloaded, or that disconnects on purpose."""


class TabsHandler(TypedErrorHandler, WebSocketHandler, JupyterHandler):
    """The connection of one page; see `notebooks.pages` and `server.channel`."""

    auth_resource = RESOURCE
    _page: Page | None = None
    _channel: PageChannel | None = None
    _beating: asyncio.Task[None] | None = None
    _may_write = False

    @property
    def services(self) -> Services:
        """Services of the extension."""
        return cast("Services", self.settings[SETTINGS_KEY])

    @property
    def tabs(self) -> Pages:
        """The pages of this server."""
        return cast("Pages", self.settings[TABS_KEY])

    @property
    def channels(self) -> PageChannels:
        """The event channels of this server's pages."""
        return cast("PageChannels", self.settings[CHANNELS_KEY])

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
        """Whether the page's origin is allowed; checked also with a token."""
        return is_origin_allowed(self, self.services.settings.allowed_origins)

    def clear_cookie(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: a WebSocket cannot set cookies."""

    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Open the connection for users with the action `read`.

        Raises:
            RouteError: 403 without a login or the action `read`, or from a foreign origin; 400 without
                a page name; 426 without the headers of a WebSocket.
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
        # Tornado answers these without a code.
        if not self._is_upgrade():
            raise RouteError(426, "This route requires the header `Upgrade: websocket`.")
        await super().get(*args, **kwargs)

    def _is_upgrade(self) -> bool:
        """Whether the request has the headers of a WebSocket (RFC 6455, 4.2.1)."""
        headers = self.request.headers
        connection = {each.strip().lower() for each in headers.get("Connection", "").split(",")}
        return (
            headers.get("Upgrade", "").lower() == "websocket"
            and "upgrade" in connection
            and headers.get("Sec-WebSocket-Version") in ("7", "8", "13")
            and bool(headers.get("Sec-WebSocket-Key"))
        )

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Send an error; a 426 names the protocol (RFC 9110, 15.5.22)."""
        if status_code == 426:
            self.set_header("Upgrade", "websocket")
            self.set_header("Sec-WebSocket-Version", "13")
        super().write_error(status_code, **kwargs)

    def open(self, *_args: Any, **_kwargs: Any) -> None:
        """Register the page's connection."""
        self.set_nodelay(True)
        client, user = self.get_query_argument("client"), username(self)
        try:
            if self._may_write:
                self._page = self.tabs.connect(user, client, self)
            self._channel = self.channels.attach(self.services, user, self.send)
        except LimitReached as error:
            self.close(1013, error.message)
            return
        self._beating = asyncio.create_task(self._beat(), name="tk-ai heartbeat")
        self.services.streams.add(self._beating)

    async def on_message(self, message: str | bytes) -> None:
        """Handle a message of the page."""
        if self._channel is None:
            return
        answer: Json | None = None
        try:
            said = json.loads(message)
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
        """See `notebooks.pages.PageConnection.send`."""
        # `on_close` handles the end of the connection.
        with suppress(WebSocketClosedError):
            await self.write_message(message)

    def drop(self) -> None:
        """See `notebooks.pages.PageConnection.drop`."""
        self.close(4000, "no response")
        self._lost(left=False)

    def _lost(self, *, left: bool) -> None:
        if self._beating is not None:
            self._beating.cancel()
            self.services.streams.discard(self._beating)
        if self._page is not None:
            self.tabs.disconnect(self._page, self, left=left)
        if self._channel is not None:
            self.channels.detach(self._channel)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT)
            await self.send(json.dumps({"heartbeat": True}))

    async def _may(self, action: str) -> bool:
        user = self.current_user
        return await ensure_async(self.authorizer.is_authorized(self, user, action, RESOURCE))


SOCKETS: tuple[tuple[str, type[TabsHandler]], ...] = ((r"api/tk-ai/tabs", TabsHandler),)
"""Patterns below ``base_url`` of WebSockets, like `handlers.routes.ROUTES`."""
