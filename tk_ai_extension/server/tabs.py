"""The pages of JupyterLab that are connected, and the notebooks that they have open."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from tk_ai_extension.model.errors import InvalidArguments, LimitReached, OpenTwice, TabOffline
from tk_ai_extension.model.paths import moved
from tk_ai_extension.notebooks.tabs.protocol import Tab, TabGone, TabRefused

if TYPE_CHECKING:
    from tk_ai_extension.model.cells import Json

GRACE = 5.0
"""Seconds in which a page whose line was cut may come back before its notebooks count as closed."""

ANSWER = 20.0
"""Seconds in which a tab has to answer; after that its line is cut, since nobody knows what it does."""

SAVE = 60.0
"""Seconds in which a tab has to save, which a slow disk or a large notebook may need."""

KEEP_LOST = 24 * 3600.0
"""Seconds for which a notebook waits for a tab that was lost with unsaved work."""

MAX_LOST = 20
"""How many of one user's lost pages are waited for; the one lost first is given up."""

MAX_PAGES = 200
MAX_TABS = 500
"""How many pages may be connected, and how many notebooks one of them may have open."""

MAX_NAME = 64
"""Characters of a page's name for itself or for a notebook."""

MAX_ASKED = 200
"""How many questions one page may have to answer at once."""


class Line(Protocol):
    """The WebSocket of a page."""

    def send(self, message: str) -> Awaitable[None]:
        """Sends a message; over when the page's buffers have taken it."""
        ...

    def cut(self) -> None:
        """Closes it: the page does not answer, or another one has come in its place."""
        ...


class OpenTab:
    """One notebook, open in one page; see `notebooks.tabs.Tab`.

    Attributes:
        name: What the page calls it.
        page: The page.
        reported_dirty: Whether it had something unsaved when the page last said.
        changed_by: The number of the last question that changed it.
        focused: Whether it is what its person works in.
        seen: When it last became that, as a number that rises.
    """

    def __init__(self, page: Page, name: str, tab_id: str) -> None:
        self.id = tab_id
        self.name = name
        self.page = page
        self.path = ""
        self.reported_dirty = False
        self.changed_by = 0
        self.focused = False
        self.seen = 0

    @property
    def dirty(self) -> bool:
        """See `Tab.dirty`; so it is after a change of ours until the page says otherwise."""
        return self.reported_dirty or self.changed_by > self.page.heard

    def rank(self) -> tuple[bool, int]:
        """Sorts tabs of one notebook: first the one with unsaved changes, then who was there last."""
        return not self.dirty, -self.seen

    async def ask(self, method: str, **arguments: Any) -> Json:
        """See `Tab.ask`."""
        number = self.page.number()
        if method in ("apply", "outputs"):
            self.changed_by = number
        limit = SAVE if method == "save" else ANSWER
        question = {"id": number, "tab": self.name, "method": method, **arguments}
        return await self.page.ask(number, question, limit)


@dataclass
class Page:
    """One page of JupyterLab, of one user.

    Attributes:
        user: Whose.
        client: The page's own name for itself; another one after a reload.
        tabs: Its notebooks by their ids.
        line: Its WebSocket; None while it is away.
        away_since: When its line was cut, on the monotonic clock.
        heard: The number of the last question that it had seen when it last told its notebooks.
    """

    user: str
    client: str

    def __post_init__(self) -> None:
        self.tabs: dict[str, OpenTab] = {}
        self.line: Line | None = None
        self.away_since = 0.0
        self.heard = 0
        self.has_told = False
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Json]] = {}

    def number(self) -> int:
        """A number for a question."""
        return next(self._numbers)

    async def ask(self, number: int, question: Json, seconds: float) -> Json:
        """Asks the page, and waits for its answer.

        Raises:
            TabGone, TabRefused.
            LimitReached: too many questions wait for answers.
        """
        line = self.line
        if line is None:
            raise TabGone
        if len(self._asked) >= MAX_ASKED:
            raise LimitReached(f"A tab has {MAX_ASKED} questions to answer.")
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            async with asyncio.timeout(seconds):
                await line.send(json.dumps(question))
                return await answer
        except TimeoutError:
            line.cut()
            raise TabGone from None
        finally:
            del self._asked[number]

    def answered(self, message: Json) -> None:
        """The page's answer to a question; one that nobody waits for any more is nothing."""
        number: Any = message.get("answer")
        waiting = self._asked.get(number) if isinstance(number, int) else None
        if waiting is None or waiting.done():
            return
        error: Any = message.get("error")
        result: Any = message.get("result")
        if isinstance(error, dict):
            told = cast("Json", error)
            if told.get("code") == "not_open":
                # It was closed a moment ago, which the page is about to tell.
                waiting.set_exception(TabGone())
                return
            status: Any = told.get("status")
            waiting.set_exception(
                TabRefused(
                    str(told.get("code")),
                    str(told.get("message"))[:1_000],
                    status if isinstance(status, int) else 0,
                )
            )
        elif isinstance(result, dict):
            waiting.set_result(cast("Json", result))
        else:
            waiting.set_exception(TabRefused("bad_request", "The tab's answer is none."))

    def lost(self) -> None:
        """The line is gone, and with it every answer that was to come."""
        self.line = None
        self.away_since = time.monotonic()
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(TabGone())


class Tabs:
    """The pages of one server; see `notebooks.tabs.TabChannel`."""

    def __init__(self) -> None:
        self._pages: dict[tuple[str, str], Page] = {}
        self._count = itertools.count(1)
        self._moved = asyncio.Event()
        self._opened: list[Callable[[str], None]] = []
        self._changed: list[Callable[[str], None]] = []
        self._grace: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._expiry: dict[tuple[str, str], asyncio.TimerHandle] = {}

    # --- pages come and go

    def connect(self, user: str, client: str, line: Line) -> Page:
        """A page has connected, for the first time or again.

        Raises:
            LimitReached: too many are there.
        """
        key = (user, client)
        page = self._pages.get(key)
        if page is None:
            connected = sum(each.line is not None for each in self._pages.values())
            if connected >= MAX_PAGES:
                raise LimitReached(f"{MAX_PAGES} pages are connected.")
            page = self._pages[key] = Page(user, client)
        for timers in (self._grace, self._expiry):
            if (timer := timers.pop(key, None)) is not None:
                timer.cancel()
        if page.line is not None:
            # The page knows better than we do that its former line is dead.
            former = page.line
            page.lost()
            former.cut()
        page.line, page.has_told = line, False
        return page

    def disconnect(self, page: Page, line: Line, *, left: bool) -> None:
        """A page's line is gone.

        Args:
            page: The page.
            line: Its line, if it has no newer one.
            left: Whether the page was closed or reloaded, and what it held with it.
        """
        if page.line is not line:
            return
        page.lost()
        key = (page.user, page.client)
        if left:
            self._forget(key)
            return
        loop = asyncio.get_running_loop()
        self._grace[key] = loop.call_later(GRACE, self._give_up, key)
        self._tell(self._opened, {tab.path for tab in page.tabs.values()})

    def _give_up(self, key: tuple[str, str]) -> None:
        """A page has not come back in time: notebooks in which nothing was unsaved are let go."""
        self._grace.pop(key, None)
        page = self._pages[key]
        paths = {tab.path for tab in page.tabs.values()}
        page.tabs = {tab.id: tab for tab in page.tabs.values() if tab.dirty}
        if not page.tabs:
            del self._pages[key]
        else:
            # What waits for a page that never comes back would block the notebook for everybody.
            loop = asyncio.get_running_loop()
            self._expiry[key] = loop.call_later(KEEP_LOST, self._forget, key)
            own = [lost for lost in self._lost_pages() if lost[1].user == page.user]
            for former, _ in sorted(own, key=lambda each: each[1].away_since)[:-MAX_LOST]:
                self._forget(former)
        self._tell(self._opened, paths)

    def _forget(self, key: tuple[str, str]) -> None:
        page = self._remove(key)
        self._tell(self._opened, {tab.path for tab in page.tabs.values()})

    def _remove(self, key: tuple[str, str]) -> Page:
        if (expiry := self._expiry.pop(key, None)) is not None:
            expiry.cancel()
        return self._pages.pop(key)

    def close(self) -> None:
        """The server stops."""
        for timer in (*self._grace.values(), *self._expiry.values()):
            timer.cancel()
        for page in list(self._pages.values()):
            if page.line is not None:
                page.line.cut()
                page.lost()

    # --- what a page says

    def hear(self, page: Page, said: Any) -> Json | None:
        """Takes in a message of a page, and returns what it is answered.

        From the answer to its notebooks on, nobody else writes their files: only then can the page
        know whether it shows what is in them.

        Raises:
            InvalidArguments: it is none that a page sends.
        """
        message = cast("Json", said) if isinstance(said, dict) else {}
        if "answer" in message:
            page.answered(message)
        elif isinstance(message.get("tabs"), list):
            self._list(page, cast("list[Any]", message["tabs"]), message.get("heard"))
            return {"listed": message.get("list")}
        elif isinstance(message.get("changed"), str):
            tab = page.tabs.get(message["changed"])
            if tab is not None:
                tab.reported_dirty = tab.reported_dirty or message.get("dirty") is True
                self._tell(self._changed, {tab.path})
        else:
            raise InvalidArguments("That is no message that a page sends.")
        return None

    def _list(self, page: Page, listed: list[Any], heard: Any) -> None:
        """A page tells all the notebooks that it has open."""
        if len(listed) > MAX_TABS:
            raise InvalidArguments(f"A page may have {MAX_TABS} notebooks open.")
        by_name = {tab.name: tab for tab in page.tabs.values()}
        before = {(tab.id, tab.path, tab.dirty) for tab in page.tabs.values()}
        tabs: dict[str, OpenTab] = {}
        for each in listed:
            told = cast("Json", each) if isinstance(each, dict) else {}
            name, path = told.get("id"), told.get("path")
            if not (isinstance(name, str) and isinstance(path, str) and len(name) <= MAX_NAME):
                raise InvalidArguments("A notebook in a tab has an id and a path.")
            tab = by_name.get(name) or OpenTab(page, name, str(next(self._count)))
            tabs[tab.id] = tab
            tab.path = path.strip("/")
            tab.reported_dirty = told.get("dirty") is True
            if told.get("focused") is True and not tab.focused:
                tab.seen = next(self._count)
            tab.focused = told.get("focused") is True
            if not page.has_told:
                # What was asked on a former line the page has done by now, or never will.
                tab.changed_by = 0
        page.tabs, page.has_told = tabs, True
        self._release({tab.path for tab in tabs.values()})
        page.heard = heard if isinstance(heard, int) else 0
        now = {(tab.id, tab.path, tab.dirty) for tab in tabs.values()}
        self._tell(self._opened, {path for _, path, _ in before ^ now})

    def _release(self, paths: set[str], of: str | None = None) -> None:
        """Pages that were lost with these, and did not come back, count no more.

        Args:
            paths: Notebooks that somebody opened, or has given up.
            of: Only this user's pages.
        """
        for key, page in self._lost_pages():
            if of not in (None, page.user):
                continue
            page.tabs = {tab.id: tab for tab in page.tabs.values() if tab.path not in paths}
            if not page.tabs:
                self._remove(key)

    def _lost_pages(self) -> list[tuple[tuple[str, str], Page]]:
        """The pages that have not come back in time."""
        pages = self._pages.items()
        return [(key, page) for key, page in pages if page.line is None and key not in self._grace]

    # --- lost for good

    def lost(self, user: str) -> dict[str, float]:
        """The notebooks that wait for a user's tabs with unsaved work, and for how many seconds."""
        now = time.monotonic()
        found: dict[str, float] = {}
        for _, page in self._lost_pages():
            for tab in page.tabs.values() if page.user == user else ():
                found[tab.path] = max(now - page.away_since, found.get(tab.path, 0.0))
        return found

    def give_up(self, user: str, path: str) -> bool:
        """A user says that what their lost tabs held of a notebook is lost; whether there was any."""
        if path not in self.lost(user):
            return False
        self._release({path}, of=user)
        self._tell(self._opened, {path})
        return True

    def _tell(self, listeners: list[Callable[[str], None]], paths: set[str]) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
        for path in paths:
            for listener in listeners:
                listener(path)

    # --- the channel

    def present(self, path: str) -> list[Tab]:
        """See `TabChannel.present`."""
        there = [tab for tab in self._with(path) if tab.page.line is not None]
        there.sort(key=OpenTab.rank)
        return [*there]

    async def find(self, path: str) -> Tab | None:
        """See `TabChannel.find`."""
        while True:
            if there := self.present(path):
                dirty = [tab for tab in there if tab.dirty]
                if len(dirty) > 1:
                    raise OpenTwice(f"{path} has unsaved changes in {len(dirty)} tabs.")
                return there[0]
            away = self._with(path)
            if not away:
                return None
            # A little longer than `_give_up` takes.
            since = max(tab.page.away_since for tab in away)
            if not await self._moves(since + GRACE * 1.1 - time.monotonic()) and self._with(path):
                raise TabOffline(
                    f"A tab with unsaved changes of {path} was lost {_age(since)} ago "
                    "and cannot be reached."
                )

    async def wait_for_return(self, tab: Tab, seconds: float | None) -> bool:
        """See `TabChannel.returned`."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while (known := self._known(tab)) is not None:
            if known.page.line is not None and known.page.has_told:
                return True
            if not await self._moves(None if deadline is None else deadline - time.monotonic()):
                return False
        return False

    def is_known(self, tab_id: str) -> bool:
        """See `TabChannel.is_known`."""
        return any(tab_id in page.tabs for page in self._pages.values())

    def renamed(self, old: str, new: str) -> None:
        """See `TabChannel.renamed`."""
        for page in self._pages.values():
            for tab in page.tabs.values():
                tab.path = moved(tab.path, old, new) or tab.path

    def subscribe(self, opened: Callable[[str], None], changed: Callable[[str], None]) -> None:
        """See `TabChannel.subscribe`."""
        self._opened.append(opened)
        self._changed.append(changed)

    def _with(self, path: str) -> list[OpenTab]:
        pages = self._pages.values()
        return [tab for page in pages for tab in page.tabs.values() if tab.path == path]

    def _known(self, tab: Tab) -> OpenTab | None:
        found = (page.tabs.get(tab.id) for page in self._pages.values())
        return next((each for each in found if each is tab), None)

    async def _moves(self, seconds: float | None) -> bool:
        """Waits until anything about any tab is another way, at most so long; whether it is."""
        moved = self._moved
        if seconds is not None and seconds <= 0:
            return moved.is_set()
        try:
            async with asyncio.timeout(seconds):
                await moved.wait()
        except TimeoutError:
            return False
        return True


def _age(since: float) -> str:
    """How long ago a moment of the monotonic clock was, for a person."""
    seconds = round(time.monotonic() - since)
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} minutes"
