"""The WebSocket over which pages of JupyterLab tell what they have open, and are asked to change it."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from jupyter_core.utils import ensure_async
from jupyter_server.base.handlers import JupyterHandler
from tornado.web import HTTPError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from tk_ai_extension.model.errors import InvalidArguments, LimitReached, NotebookNotFound
from tk_ai_extension.server.handlers.base import (
    RESOURCE,
    SETTINGS_KEY,
    TkAIHandler,
    is_origin_allowed,
)
from tk_ai_extension.server.handlers.operations import NOTEBOOK, operation
from tk_ai_extension.server.tabs import MAX_NAME, Page, Tabs
from tk_ai_extension.server.users import username

if TYPE_CHECKING:
    from tk_ai_extension.server.models import GivenUp, LostTabsList
    from tk_ai_extension.server.services import Services

TABS_KEY = "tk_ai_extension_tabs"
"""Where the web application keeps the `Tabs`."""

MAX_MESSAGE = 32_000_000
"""Bytes of one message of a page; a page gives a large notebook in pieces well below."""

PING = 10.0
"""Seconds between two pings, and in which one is answered: else the page is taken for lost."""

GOING_AWAY = (1000, 1001)
"""Codes with which a page closes its line when it is closed, reloaded, or has no more to say."""


class TabsHandler(WebSocketHandler, JupyterHandler):
    """The line of one page; see `server.tabs`."""

    auth_resource = RESOURCE
    _page: Page | None = None

    @property
    def services(self) -> Services:
        """What the server gave to the extension at its start."""
        return cast("Services", self.settings[SETTINGS_KEY])

    @property
    def tabs(self) -> Tabs:
        """The pages of this server."""
        return cast("Tabs", self.settings[TABS_KEY])

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

    async def prepare(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Looks who it is; a page to log in would be of no use here."""
        await super().prepare(_redirect_to_login=False)

    def check_origin(self, origin: str = "") -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]  # noqa: ARG002
        """Whether the page is of an origin that may; checked although the request brings a token."""
        return is_origin_allowed(self, self.services.settings.allowed_origins)

    def clear_cookie(self, *args: Any, **kwargs: Any) -> None:
        """A line sets no cookies."""

    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Opens the line, for whom it is meant.

        Raises:
            HTTPError: 403, no login, not allowed to write, or a page of a foreign origin; 400, a page
                without a name.
        """
        user = self.current_user
        if user is None:
            raise HTTPError(403, "A token or a login is needed.")
        if not is_origin_allowed(self, self.services.settings.allowed_origins):
            raise HTTPError(403, "Pages of this origin may not call the server.")
        if not await ensure_async(self.authorizer.is_authorized(self, user, "write", RESOURCE)):
            raise HTTPError(403, "Only who may write may offer notebooks to agents.")
        if not 8 <= len(self.get_query_argument("client", "")) <= MAX_NAME:
            raise HTTPError(400, "A page needs a name of its own (`client`).")
        await super().get(*args, **kwargs)

    def open(self, *_args: Any, **_kwargs: Any) -> None:
        """The line is there."""
        self.set_nodelay(True)
        client = self.get_query_argument("client")
        try:
            self._page = self.tabs.connect(username(self), client, self)
        except LimitReached as error:
            self.close(1013, error.message)

    async def on_message(self, message: str | bytes) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The page says something."""
        if self._page is None:
            return
        try:
            answer = self.tabs.hear(self._page, json.loads(message))
        except (ValueError, RecursionError):
            self.close(1007, "A message is JSON.")
        except InvalidArguments as error:
            self.close(1008, error.message)
        else:
            if answer is not None:
                with suppress(WebSocketClosedError):
                    await self.write_message(json.dumps(answer))

    def on_close(self) -> None:
        """The line is gone."""
        if self._page is not None:
            left = self.close_code in GOING_AWAY
            self.tabs.disconnect(self._page, self, left=left)

    async def send(self, message: str) -> None:
        """See `server.tabs.Line.send`."""
        try:
            await self.write_message(message)
        except WebSocketClosedError:
            # Its end is told by `on_close`; until then nothing answers.
            await asyncio.Event().wait()

    def cut(self) -> None:
        """See `server.tabs.Line.cut`."""
        self.close(4000, "no answer")
        if self._page is not None:
            self.tabs.disconnect(self._page, self, left=False)


class LostTabsHandler(TkAIHandler):
    """Notebooks that wait for tabs with unsaved work which have not come back."""

    @operation("read", "list_lost_tabs")
    async def get(self) -> LostTabsList:
        """List your notebooks that wait for tabs with unsaved work which have not come back."""
        lost = cast("Tabs", self.settings[TABS_KEY]).lost(username(self)).items()
        return {
            "lost": [{"notebook": path, "seconds": round(age, 1)} for path, age in sorted(lost)]
        }

    @operation("write", "give_up_lost_tabs", NOTEBOOK)
    async def delete(self) -> GivenUp:
        """Give up what your lost tabs held of a notebook: its file counts again."""
        named = self.get_query_argument("notebook", "")
        if not named:
            raise InvalidArguments("`notebook` is missing.", hint="Name a notebook by its path.")
        await self.services.ready()
        path = self.services.workspace.contain(named)
        if not cast("Tabs", self.settings[TABS_KEY]).give_up(username(self), path):
            raise NotebookNotFound(
                f"No lost tab of yours holds unsaved work of {path}.",
                hint="GET the same route for those that do.",
            )
        return {"given_up": path}


SOCKETS: tuple[tuple[str, type[TabsHandler]], ...] = ((r"api/tk-ai/tabs", TabsHandler),)
"""Patterns below ``base_url``, like `handlers.routes.ROUTES`, of what is no request."""
