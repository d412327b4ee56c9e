"""The interface to notebooks that are open in JupyterLab tabs.

A tab has its notebook as the person sees it, including unsaved changes. `server.tabs` manages the
connections; documents use these interfaces.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from tk_ai_extension.model.errors import InvalidArguments

if TYPE_CHECKING:
    from tk_ai_extension.model.json_values import Json

MAX_TABS = 500
"""Maximum number of open notebooks of a page."""

MAX_NAME = 64
MAX_PATH = 4096
"""Maximum length of a page's or notebook's name, and of a notebook's path, in characters."""


class TabGone(Exception):
    """The tab disconnected or does not answer; the outcome of the request is unknown."""


class TabRefused(Exception):
    """The tab answered with an error.

    Attributes:
        code: ``save_failed``, ``file_changed``, ``too_large``, ``bad_request``, or ``busy`` if the
            request was not sent, as too many are pending.
        message: The tab's error message.
        status: The HTTP status of the request that failed in the tab, or 0.
    """

    def __init__(self, code: str, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status

    @classmethod
    def of(cls, error: Json) -> TabRefused:
        """Return the exception for the error in a tab's answer."""
        status: Any = error.get("status")
        message = str(error.get("message"))[:1_000]
        return cls(str(error.get("code")), message, status if isinstance(status, int) else 0)


@dataclass(frozen=True, slots=True)
class ListedTab:
    """A notebook in a page's list of its open notebooks.

    Attributes:
        name: The page's name for it.
        path: Its path.
        is_dirty: Whether it has unsaved changes.
        is_shared: Whether all pages that have it open share it by collaboration.
        is_focused: Whether it has the focus.
    """

    name: str
    path: str
    is_dirty: bool
    is_shared: bool
    is_focused: bool

    @classmethod
    def parse(cls, listed: list[Any]) -> list[ListedTab]:
        """Return the notebooks in a page's list.

        Raises:
            InvalidArguments: One of them is invalid, or they are too many.
        """
        if len(listed) > MAX_TABS:
            raise InvalidArguments(f"A page can have at most {MAX_TABS} open notebooks.")
        tabs: list[ListedTab] = []
        for each in listed:
            fields = cast("Json", each) if isinstance(each, dict) else {}
            name, path = fields.get("id"), fields.get("path")
            if not (isinstance(name, str) and isinstance(path, str)):
                raise InvalidArguments("A notebook in a tab must have an id and a path.")
            if len(name) > MAX_NAME or len(path) > MAX_PATH:
                raise InvalidArguments("The id or the path of a notebook in a tab is too long.")
            flags = [fields.get(flag) is True for flag in ("dirty", "shared", "focused")]
            tabs.append(cls(name, path.strip("/"), *flags))
        return tabs


class PageConnection(Protocol):
    """The WebSocket of a page."""

    def send(self, message: str) -> Awaitable[None]:
        """Send a message; returns when it is flushed or the connection has ended."""
        ...

    def drop(self) -> None:
        """Drop the connection: the page does not answer, or a newer connection replaces it."""
        ...


class Tab(Protocol):
    """A notebook that is open in a page.

    The object stays the same while its page disconnects and reconnects.

    Attributes:
        id: Identifies the tab's content: a reload gives a new id.
        path: The notebook's current path.
        dirty: Whether it has changes that only it has, as far as the server knows.
        shared: Whether a collaboration room has its content, which the room saves.
    """

    @property
    def id(self) -> str:
        """See the class."""
        ...

    @property
    def path(self) -> str:
        """See the class."""
        ...

    @property
    def dirty(self) -> bool:
        """See the class."""
        ...

    @property
    def shared(self) -> bool:
        """See the class."""
        ...

    async def ask(self, method: str, **arguments: Any) -> Json:
        """Send the tab a request and return its answer; ADR 20 describes the methods.

        Raises:
            TabGone, TabRefused.
        """
        ...


class TabChannel(Protocol):
    """The connections to the tabs of one server."""

    def present(self, path: str) -> list[Tab]:
        """Return the connected tabs with this notebook, the authoritative one first."""
        ...

    async def find(self, path: str) -> Tab | None:
        """Return the tab that holds a notebook; None if its file may be written.

        A tab that has just disconnected gets a grace period to reconnect.

        Raises:
            OpenTwice: two tabs have unsaved changes.
            TabOffline: a tab with unsaved changes has not reconnected.
        """
        ...

    async def wait_for_return(self, tab: Tab, seconds: float | None) -> bool:
        """Wait until a tab reconnects; return False if it is gone for good or time is up.

        Args:
            tab: The tab.
            seconds: Seconds to wait at most, None for no limit.
        """
        ...

    def is_known(self, tab_id: str) -> bool:
        """Return whether a tab is connected or may reconnect with the same content."""
        ...

    def renamed(self, old: str, new: str) -> None:
        """Note the rename of a notebook or a folder."""
        ...

    def subscribe(self, opened: Callable[[str], None]) -> None:
        """Call a function with a notebook's path when another tab, or none, may hold it."""
        ...
