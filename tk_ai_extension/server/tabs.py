"""Connected pages of JupyterLab and their open notebooks."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tk_ai_extension.model.errors import InvalidArguments, LimitReached, OpenTwice, TabOffline
from tk_ai_extension.model.paths import has_link, moved, open_aliases
from tk_ai_extension.notebooks.tabs.protocol import ListedTab, Tab, TabGone, TabRefused

if TYPE_CHECKING:
    from pathlib import Path

    from tk_ai_extension.model.json_values import Json
    from tk_ai_extension.notebooks.tabs.protocol import PageConnection

GRACE = 5.0
"""Grace period for a page to reconnect, in seconds; then its notebooks count as closed."""

ANSWER = 20.0
"""Timeout for a tab's answer, in seconds; then its connection is dropped, since its state is unknown."""

SAVE = 60.0
"""Timeout for a tab to save, in seconds: disks may be slow and notebooks large."""

KEEP_LOST = 24 * 3600.0
"""Seconds for which a notebook waits for a lost tab with unsaved changes."""

MAX_LOST = 20
"""Maximum number of lost pages of a user; the oldest is dropped first."""

MAX_PAGES = 100
"""Maximum number of connected pages of a user."""

MAX_ASKED = 200
"""Maximum number of pending questions to a page."""


class OpenTab:
    """A notebook that is open in a page; see `notebooks.tabs.Tab`.

    Attributes:
        name: The page's name for it.
        page: The page.
        listed: The path in the page's last list.
        named: Set unless the page may not know that the notebook was renamed to `path`.
        is_linked: Whether a link is on the way to its path.
        reported_dirty: Whether it had unsaved changes by the page's last report.
        changed_by: Number of the last question that changed it.
        focused: Whether it has the focus.
        seen: Increasing number of its last focus.
    """

    def __init__(self, page: Page, name: str, tab_id: str) -> None:
        self.id = tab_id
        self.name = name
        self.page = page
        self.path = self.listed = ""
        self.named = asyncio.Event()
        self.named.set()
        self.is_linked = False
        self.shared = False
        self.reported_dirty = False
        self.changed_by = 0
        self.focused = False
        self.seen = 0

    @property
    def dirty(self) -> bool:
        """See `Tab.dirty`; true after our changes until the page's next report."""
        is_dirty = self.reported_dirty or self.changed_by > self.page.acknowledged
        return is_dirty and not self.shared

    def rank(self) -> tuple[bool, int]:
        """Return the sort key of a notebook's tabs: unsaved changes first, then the most recent focus."""
        return not self.dirty, -self.seen

    def state(self) -> tuple[str, str, bool, bool]:
        """Return what listeners are notified of."""
        return self.id, self.path, self.dirty, self.named.is_set()

    async def ask(self, method: str, **arguments: Any) -> Json:
        """See `Tab.ask`."""
        if method in ("save", "refresh"):  # The page would use the former path.
            await self.named.wait()
            if self.page.tabs.get(self.id) is not self:
                raise TabGone
        number = self.page.number()
        if method in ("apply", "outputs"):
            self.changed_by = number
        question = {"id": number, "tab": self.name, "method": method, "sent": _now(), **arguments}
        return await self.page.ask(number, question, SAVE if method == "save" else ANSWER)


@dataclass
class Page:
    """A page of JupyterLab.

    Attributes:
        user: Its user.
        client: The page's name; a new one after a reload.
        tabs: Its notebooks by their ids.
        connection: Its WebSocket; None while it is disconnected.
        away_since: When its connection was lost, on the monotonic clock.
        acknowledged: Number of the last question that it had received by its last report.
    """

    user: str
    client: str

    def __post_init__(self) -> None:
        self.tabs: dict[str, OpenTab] = {}
        self.connection: PageConnection | None = None
        self.away_since = 0.0
        self.acknowledged = 0
        self.has_listed = False
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Json]] = {}

    def number(self) -> int:
        """Return the number of a new question."""
        return next(self._numbers)

    async def ask(self, number: int, question: Json, seconds: float) -> Json:
        """Send a question to the page and return its answer.

        Raises:
            TabGone, TabRefused.
        """
        connection = self.connection
        if connection is None:
            raise TabGone
        if len(self._asked) >= MAX_ASKED:
            raise TabRefused("busy", f"{MAX_ASKED} questions to this page are pending.")
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            async with asyncio.timeout(seconds):
                await connection.send(json.dumps(question))
                return await answer
        except TimeoutError:
            connection.drop()
            raise TabGone from None
        finally:
            del self._asked[number]

    def answered(self, message: Json) -> None:
        """Handle the page's answer to a question; ignored if it is no longer pending."""
        number: Any = message.get("answer")
        waiting = self._asked.get(number) if isinstance(number, int) else None
        if waiting is None or waiting.done():
            return
        error, result = message.get("error"), message.get("result")
        if isinstance(error, dict):
            fields = cast("Json", error)
            # If it was just closed, the page is about to report that.
            is_closed = fields.get("code") == "not_open"
            waiting.set_exception(TabGone() if is_closed else TabRefused.of(fields))
        elif isinstance(result, dict):
            waiting.set_result(cast("Json", result))
        else:
            waiting.set_exception(TabRefused("bad_request", "The tab sent an invalid answer."))

    def drop(self) -> None:
        """Drop the connection, if there is one. It is not the page's any more when it ends."""
        former = self.connection
        if former is not None:
            self.lost()
            former.drop()

    def lost(self) -> None:
        """Handle a lost connection: all pending questions fail."""
        self.connection = None
        self.away_since = time.monotonic()
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(TabGone())


class Tabs:
    """The pages of one server; see `notebooks.tabs.TabChannel`.

    Args:
        root: The folder that notebooks' paths are relative to; None if they are not in files.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root
        self._pages: dict[tuple[str, str], Page] = {}
        self._count = itertools.count(1)
        self._change = asyncio.Event()
        self._opened: list[Callable[[str], None]] = []
        self._grace: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._expiry: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._renames: dict[str, asyncio.TimerHandle] = {}

    # --- connections

    def connect(self, user: str, client: str, connection: PageConnection) -> Page:
        """Register the connection of a new or returning page.

        Raises:
            LimitReached: too many pages of the user are connected.
        """
        key = (user, client)
        if (page := self._pages.get(key)) is None:
            connected = [each.user for each in self._pages.values() if each.connection is not None]
            if connected.count(user) >= MAX_PAGES:
                raise LimitReached(f"{MAX_PAGES} of your pages are connected.")
            page = self._pages[key] = Page(user, client)
        for timers in (self._grace, self._expiry):
            if (timer := timers.pop(key, None)) is not None:
                timer.cancel()
        page.drop()  # It has reconnected: its former connection is dead.
        page.connection, page.has_listed = connection, False
        return page

    def disconnect(self, page: Page, connection: PageConnection, *, left: bool) -> None:
        """Handle the end of a page's connection.

        Args:
            page: The page.
            connection: Its connection; ignored if it has a newer one.
            left: Whether the page was closed or reloaded, and its unsaved changes are gone.
        """
        if page.connection is not connection:
            return
        page.lost()
        key = (page.user, page.client)
        if left:
            self._forget(key)
            return
        self._grace[key] = asyncio.get_running_loop().call_later(GRACE, self._on_grace_over, key)
        self._notify(self._opened, {tab.path for tab in page.tabs.values()})

    def _on_grace_over(self, key: tuple[str, str]) -> None:
        """Release the notebooks without unsaved changes of a page that has not reconnected in time."""
        self._grace.pop(key, None)
        page = self._pages[key]
        paths = {tab.path for tab in page.tabs.values()}
        self._keep(page, {tab.id: tab for tab in page.tabs.values() if tab.dirty})
        if not page.tabs:
            del self._pages[key]
        else:
            # A page that never reconnects would block the notebook for everybody.
            self._expiry[key] = asyncio.get_running_loop().call_later(KEEP_LOST, self._forget, key)
            own = [lost for lost in self._lost_pages() if lost[1].user == page.user]
            for former, _ in sorted(own, key=lambda each: each[1].away_since)[:-MAX_LOST]:
                self._forget(former)
        self._notify(self._opened, paths)

    def _forget(self, key: tuple[str, str]) -> None:
        if (expiry := self._expiry.pop(key, None)) is not None:
            expiry.cancel()
        page = self._pages.pop(key)
        paths = {tab.path for tab in page.tabs.values()}
        self._keep(page, {})
        self._notify(self._opened, paths)

    def _keep(self, page: Page, tabs: dict[str, OpenTab]) -> None:
        """Set a page's notebooks; those that left it wait no more for their new names."""
        former, page.tabs = page.tabs, tabs
        for tab_id in former.keys() - tabs.keys():
            self._settle(former[tab_id])

    def close(self) -> None:
        """Close all connections."""
        for timer in (*self._grace.values(), *self._expiry.values(), *self._renames.values()):
            timer.cancel()
        for tab in self._tabs():
            self._settle(tab)
        for page in list(self._pages.values()):
            page.drop()

    # --- messages of pages

    def handle(self, page: Page, said: Any) -> Json | None:
        """Handle a message of a page and return the reply.

        After the reply to a list of notebooks nobody else writes their files: only then can the page
        determine whether it shows their current content.

        Raises:
            InvalidArguments: the message is invalid.
        """
        message = cast("Json", said) if isinstance(said, dict) else {}
        if "answer" in message:
            page.answered(message)
        elif isinstance(message.get("tabs"), list):
            received = message.get("received")
            self._list(page, ListedTab.parse(cast("list[Any]", message["tabs"])), received)
            return {"listed": message.get("list"), "sent": _now()}
        elif isinstance(message.get("changed"), str):
            if (tab := page.tabs.get(message["changed"])) is not None:
                tab.reported_dirty = tab.reported_dirty or message.get("dirty") is True
        else:
            raise InvalidArguments("This is not a message of a page.")
        return None

    def _list(self, page: Page, listed: list[ListedTab], acknowledged: Any) -> None:
        """Handle the list of a page's open notebooks."""
        by_name = {tab.name: tab for tab in page.tabs.values()}
        before = {tab.state() for tab in page.tabs.values()}
        tabs: dict[str, OpenTab] = {}
        for each in listed:
            tab = by_name.get(each.name) or OpenTab(page, each.name, str(next(self._count)))
            tabs[tab.id] = tab
            tab.listed = each.path
            if tab.named.is_set() or tab.listed == tab.path:
                self._settle(tab)
            tab.reported_dirty, tab.shared = each.is_dirty, each.is_shared
            if each.is_focused and not tab.focused:
                tab.seen = next(self._count)
            tab.focused = each.is_focused
            if not page.has_listed:
                # Questions on a former connection are done by now, or never will be.
                tab.changed_by = 0
        self._keep(page, tabs)
        page.has_listed = True
        self._release({tab.path for tab in tabs.values()})
        page.acknowledged = acknowledged if isinstance(acknowledged, int) else 0
        now = {tab.state() for tab in tabs.values()}
        self._notify(self._opened, {path for _, path, *_ in before ^ now})

    def _release(self, paths: set[str], user: str | None = None) -> None:
        """Forget notebooks of lost pages.

        Args:
            paths: Notebooks that were opened again or discarded.
            user: Only this user's pages.
        """
        for key, page in self._lost_pages():
            if user not in (None, page.user):
                continue
            self._keep(page, {tab.id: tab for tab in page.tabs.values() if tab.path not in paths})
            if not page.tabs:
                self._forget(key)

    def _lost_pages(self) -> list[tuple[tuple[str, str], Page]]:
        """Return the pages that have not reconnected in time."""
        pages = self._pages.items()
        return [
            (key, page) for key, page in pages if page.connection is None and key not in self._grace
        ]

    # --- lost pages

    def disconnected(self, user: str) -> dict[str, float]:
        """Return the notebooks that wait for disconnected tabs of a user, with the seconds since then."""
        now = time.monotonic()
        found: dict[str, float] = {}
        for _, page in self._lost_pages():
            for tab in page.tabs.values() if page.user == user else ():
                found[tab.path] = max(now - page.away_since, found.get(tab.path, 0.0))
        return found

    def discard(self, user: str, path: str) -> bool:
        """Discard the unsaved changes of a user's disconnected tabs; return whether there were any."""
        if path not in self.disconnected(user):
            return False
        self._release({path}, user=user)
        self._notify(self._opened, {path})
        return True

    def _notify(self, listeners: list[Callable[[str], None]], paths: set[str]) -> None:
        change, self._change = self._change, asyncio.Event()
        change.set()
        for path in paths:
            for listener in listeners:
                listener(path)

    # --- TabChannel

    def present(self, path: str) -> list[Tab]:
        """See `TabChannel.present`."""
        there = [tab for tab in self._with(path) if tab.page.connection is not None]
        return [*sorted(there, key=OpenTab.rank)]

    async def find(self, path: str) -> Tab | None:
        """See `TabChannel.find`."""
        while True:
            tabs = self._with(path)
            there = [tab for tab in tabs if tab.page.connection is not None and tab.named.is_set()]
            if there:
                dirty = [tab for tab in there if tab.dirty]
                if len(dirty) > 1:
                    names = ", ".join(dict.fromkeys(tab.path for tab in dirty))
                    raise OpenTwice(f"{names} has unsaved changes in {len(dirty)} tabs.")
                rooms = {tab.path for tab in there if tab.shared}
                if len(rooms) > 1:
                    names = ", ".join(sorted(rooms))
                    raise OpenTwice(f"One notebook is open under {len(rooms)} names: {names}.")
                return min(there, key=OpenTab.rank)
            if not tabs:
                return None
            if not all(tab.named.is_set() for tab in tabs):
                await self._wait_for_change(GRACE)  # At most until `_on_rename_over`.
                continue
            # A little longer than `_on_grace_over` takes.
            since = max(tab.page.away_since for tab in tabs)
            if not await self._wait_for_change(
                since + GRACE * 1.1 - time.monotonic()
            ) and self._with(path):
                raise TabOffline(
                    f"A tab with unsaved changes of {tabs[0].path} was lost {_age(since)} ago "
                    "and cannot be reached."
                )

    async def wait_for_return(self, tab: Tab, seconds: float | None) -> bool:
        """See `TabChannel.returned`."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while (known := next((each for each in self._tabs() if each is tab), None)) is not None:
            if known.page.connection is not None and known.page.has_listed:
                return True
            if not await self._wait_for_change(
                None if deadline is None else deadline - time.monotonic()
            ):
                return False
        return False

    def is_known(self, tab_id: str) -> bool:
        """See `TabChannel.is_known`."""
        return any(tab_id in page.tabs for page in self._pages.values())

    def renamed(self, old: str, new: str) -> None:
        """See `TabChannel.renamed`."""
        loop = asyncio.get_running_loop()
        for tab in self._tabs():
            if (path := moved(tab.path, old, new)) is not None:
                # Until the page knows of the rename, its lists have the former path.
                if (timer := self._renames.pop(tab.id, None)) is not None:
                    timer.cancel()
                tab.named.clear()
                self._place(tab, path)
                self._renames[tab.id] = loop.call_later(GRACE, self._on_rename_over, tab)

    def _on_rename_over(self, tab: OpenTab) -> None:
        """Return a tab to the path that its page still has; another page may have renamed it."""
        former = tab.path
        if tab.page.connection is None:
            tab.listed = former
        self._settle(tab)
        self._notify(self._opened, {former, tab.path})

    def _settle(self, tab: OpenTab) -> None:
        """Use the path of the page's last list."""
        if (timer := self._renames.pop(tab.id, None)) is not None:
            timer.cancel()
        tab.named.set()
        self._place(tab, tab.listed)

    def subscribe(self, opened: Callable[[str], None]) -> None:
        """See `TabChannel.subscribe`."""
        self._opened.append(opened)

    def _place(self, tab: OpenTab, path: str) -> None:
        tab.path = path
        tab.is_linked = self._root is not None and has_link(self._root, path)

    def _tabs(self) -> Iterator[OpenTab]:
        return (tab for page in self._pages.values() for tab in page.tabs.values())

    def _with(self, path: str) -> list[OpenTab]:
        """Return the tabs with a notebook's file, under whichever name."""
        tabs = [*self._tabs()]
        names = {path}
        if self._root is not None:
            opened = {tab.path: tab.is_linked for tab in tabs}
            names.update(open_aliases(self._root, path, opened))
        return [tab for tab in tabs if tab.path in names]

    async def _wait_for_change(self, seconds: float | None) -> bool:
        """Wait for a change of any tab, at most this long; return whether there was one."""
        change = self._change
        if seconds is not None and seconds <= 0:
            return change.is_set()
        try:
            async with asyncio.timeout(seconds):
                await change.wait()
        except TimeoutError:
            return False
        return True


def _now() -> int:
    """Return the time in milliseconds, by which a page recognises what comes late."""
    return round(time.time() * 1000)


def _age(since: float) -> str:
    """Format the time since a moment of the monotonic clock."""
    seconds = round(time.monotonic() - since)
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} minutes"
