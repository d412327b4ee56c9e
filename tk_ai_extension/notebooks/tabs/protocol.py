"""Notebooks that people have open in JupyterLab without collaboration: how their tabs are reached.

A tab holds its notebook as a person sees it, with what they have not saved. Who is connected is the
server's business (`server.tabs`); this is what documents need of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tk_ai_extension.model.cells import Json


class TabGone(Exception):
    """The tab went away, or does not answer: whether it did what it was asked is not known."""


class TabRefused(Exception):
    """The tab answered that it could not do it.

    Attributes:
        code: ``save_failed``, ``file_changed``, ``too_large`` or ``bad_request``.
        message: What was wrong, as the tab puts it.
        status: The HTTP status of the request that failed in the tab, or 0.
    """

    def __init__(self, code: str, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status


class Tab(Protocol):
    """One notebook, open in one page.

    It is one object as long as it holds the same, also when its page was away in between.

    Attributes:
        id: Stands for what the tab holds: another one after a reload.
        path: Where the notebook is now.
        dirty: Whether it has something that is not saved, as far as is known.
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

    async def ask(self, method: str, **arguments: Any) -> Json:
        """Has the tab do something; the methods are told in ADR 20.

        Raises:
            TabGone, TabRefused.
        """
        ...


class TabChannel(Protocol):
    """The way to the tabs of one server."""

    def present(self, path: str) -> list[Tab]:
        """The tabs that can be reached with this notebook, the one that counts first."""
        ...

    async def find(self, path: str) -> Tab | None:
        """The tab that holds a notebook now; None where its file may be written.

        Where the tab went away a moment ago, it is given some seconds to come back.

        Raises:
            OpenTwice: two tabs have unsaved changes.
            TabOffline: the one with unsaved changes has not come back.
        """
        ...

    async def wait_for_return(self, tab: Tab, seconds: float | None) -> bool:
        """Wait until a tab can be reached again; False when it is gone for good, or time is up."""
        ...

    def is_known(self, tab_id: str) -> bool:
        """Return whether the tab is there, or may come back with what it holds."""
        ...

    def renamed(self, old: str, new: str) -> None:
        """A notebook, or a folder above some, has another path now."""
        ...

    def subscribe(self, opened: Callable[[str], None], changed: Callable[[str], None]) -> None:
        """Call with a path: ``opened`` when who holds it may have changed, ``changed`` after edits."""
        ...
