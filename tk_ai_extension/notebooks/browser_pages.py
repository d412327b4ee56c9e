"""The pages of JupyterLab that are connected, and the notebooks that are open in their tabs.

A tab has its notebook as the person sees it, including unsaved changes. ADR 4 describes the messages;
`server.handlers.page_websocket` has the WebSockets.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from tk_ai_extension.model.background_tasks import BackgroundTasks
from tk_ai_extension.model.errors import (
    ConflictingTabs,
    InvalidArguments,
    LimitReached,
    ReadOnly,
    SaveFailed,
    ToolError,
    save_error,
)
from tk_ai_extension.model.paths import has_link, open_aliases
from tk_ai_extension.notebooks.cell_selection import NotebookSelection

if TYPE_CHECKING:
    from pathlib import Path

    from tk_ai_extension.model.json_values import Json
    from tk_ai_extension.notebooks.notebook import Notebook, Notebooks
    from tk_ai_extension.notebooks.parsed_notebooks import TabReplica
    from tk_ai_extension.notebooks.running_outputs import Throttle

_log = logging.getLogger(__name__)

GRACE = 5.0
"""Grace period for a page to reconnect, in seconds; then its notebooks count as closed."""

ANSWER = 20.0
"""Timeout for a tab's answer, in seconds; then its connection is dropped, since its state is unknown."""

SAVE = 60.0
"""Timeout for a tab to save, in seconds: disks may be slow and notebooks large."""

SAVE_DELAY = 0.8
"""Seconds from an output to its save; further outputs do not postpone it."""

REFRESH_WAIT = 2.0
"""Maximum seconds to wait for tabs to read a file that was written; everything is saved by then."""

MAX_TABS = 500
"""Maximum number of open notebooks of a page."""

MAX_ASKED = 200
"""Maximum number of pending questions to a page."""

MAX_NAME = 64
MAX_PATH = 4096
"""Maximum length of a page's or notebook's name, and of a notebook's path, in characters."""

_ERRNO = re.compile(r"\[Errno (\d{1,5})\]", re.ASCII)


class TabGone(Exception):
    """The tab disconnected, does not answer, or lags behind a rename; the request's outcome is unknown."""


def _refusal(path: str, code: str, message: str, status: int) -> ToolError:
    """Return the error for callers when a notebook's tab refuses a request.

    Args:
        path: The notebook.
        code: ``save_failed``, ``file_changed``, ``too_large`` or ``bad_request``.
        message: The tab's error message.
        status: The HTTP status of the request that failed in the tab, or 0.
    """
    match code:
        case "too_large":
            return LimitReached(
                f"{path} has a cell that is too large to read from its tab.",
                hint="Clear the cell's outputs, or close the tab so that the file is read instead.",
            )
        case "file_changed":
            return SaveFailed(
                f"{path} was not saved: another program changed its file.",
                hint="Save or revert the notebook in JupyterLab, which asks what to keep.",
            )
        case _:
            if status == 403:
                return ReadOnly(f"{path} cannot be written: {message}")
            if found := _ERRNO.search(message):
                # The contents manager's answer to the tab quotes the OSError.
                return save_error(OSError(int(found[1]), message), path)
            return SaveFailed(f"{path} cannot be saved: {message}")


Write = Callable[["Json"], Awaitable[str | None]]
"""Writes the changes that a page leaves to the server; see `StoredDocument.write_left`."""


class PageConnection(Protocol):
    """The WebSocket of a page."""

    def send(self, message: str) -> Awaitable[None]:
        """Send a message; returns when it is flushed or the connection has ended."""
        ...

    def drop(self) -> None:
        """Drop the connection: the page does not answer, or a newer connection replaces it."""
        ...


class Tab:
    """A notebook that is open in a page.

    The object stays the same while its page disconnects and reconnects; a reload gives a new one.

    Attributes:
        name: The page's name for it.
        page: The page.
        notebook: The notebook.
        listed: The path in the page's last list.
        is_linked: Whether a link is on the way to its path.
        shared: Whether a collaboration room has its content, which the room saves.
        dirty: Whether only the tab has some changes, by the page's last message; true while ours are made.
        seen: Increasing number of the last time that its page had the window's focus and showed it.
        selection: What the person looks at in it, by the page's last message.
        replica: The server's copy of its content; see `BrowserPages.locked`.
        lock: Held while the replica is used.
    """

    def __init__(self, page: BrowserPage, name: str, notebook: Notebook) -> None:
        # Imported late: a server starts with this module, mostly without a page.
        from tk_ai_extension.notebooks.parsed_notebooks import TabReplica

        self.name = name
        self.page = page
        self.notebook = notebook
        self.listed = notebook.path
        self.is_linked = self.shared = self.dirty = False
        self.seen = 0
        self.selection = NotebookSelection()
        self.replica = TabReplica()
        self.lock = asyncio.Lock()
        self.saving: Throttle | None = None

    @property
    def path(self) -> str:
        """The notebook's current path; after a rename by another page, this page may list the former one."""
        is_renaming = time.monotonic() - self.notebook.renamed_at < GRACE
        return self.notebook.path if is_renaming else self.listed

    @property
    def is_named(self) -> bool:
        """Whether the page knows the notebook's current path."""
        return self.path == self.listed

    @property
    def state(self) -> tuple[Tab, str, bool, bool]:
        """The state that listeners are notified of."""
        return self, self.path, self.dirty, self.is_named

    async def ask(self, method: str, **arguments: Any) -> Json:
        """Send the tab a request and return its answer; ADR 4 describes the methods.

        Raises:
            TabGone.
            ToolError: The tab refused the request, or too many are pending.
        """
        if method in ("save", "refresh") and not self.is_named:
            raise TabGone  # The page would use the former path.
        if method in ("apply", "outputs"):
            self.dirty = not self.shared
        question = {"tab": self.name, "method": method, "sent": _now(), **arguments}
        return await self.page.ask(self, question, SAVE if method == "save" else ANSWER)

    async def tell(self, method: str, **arguments: Any) -> None:
        """Send the tab a message that it does not answer."""
        if (connection := self.page.connection) is not None:
            message = {"tab": self.name, "method": method, "sent": _now(), **arguments}
            await connection.send(json.dumps(message))


class BrowserPage:
    """A page of JupyterLab.

    Attributes:
        user: Its user.
        client: The page's name; a new one after a reload.
        tabs: Its notebooks.
        connection: Its WebSocket; None while it is disconnected.
        away_since: When its connection was lost, on the monotonic clock.
        timer: Ends the grace period.
        has_listed: Whether it has sent a list on this connection.
    """

    def __init__(self, user: str, client: str) -> None:
        self.user = user
        self.client = client
        self.tabs: list[Tab] = []
        self.connection: PageConnection | None = None
        self.away_since = 0.0
        self.has_listed = False
        self.timer: asyncio.TimerHandle | None = None
        self._numbers = itertools.count(1)
        # The tab of each question that is not answered yet, and its answer.
        self._asked: dict[int, tuple[Tab, asyncio.Future[Json]]] = {}

    @property
    def paths(self) -> set[str]:
        """The paths of its notebooks."""
        return {tab.path for tab in self.tabs}

    async def ask(self, tab: Tab, question: Json, seconds: float) -> Json:
        """Send a question about a tab to the page and return its answer; see `Tab.ask`."""
        connection = self.connection
        if connection is None:
            raise TabGone
        if len(self._asked) >= MAX_ASKED:
            raise LimitReached(
                f"The tab with {tab.path} is busy: {MAX_ASKED} questions to its page are pending."
            )
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        self._asked[number] = tab, answer
        try:
            async with asyncio.timeout(seconds):
                await connection.send(json.dumps({"id": number, **question}))
                return await answer
        except TimeoutError:
            connection.drop()
            raise TabGone from None
        finally:
            del self._asked[number]

    def answered(self, message: Json) -> str | None:
        """Handle the page's answer to a question, and return its tab; ignored if it is not pending."""
        number: Any = message.get("answer")
        if not isinstance(number, int) or number not in self._asked:
            return None
        tab, waiting = self._asked[number]
        if waiting.done():
            return None
        error, result = message.get("error"), message.get("result")
        if isinstance(result, dict):
            waiting.set_result(cast("Json", result))
            return tab.name
        fields = cast("Json", error) if isinstance(error, dict) else {}
        code, text, status = (fields.get(name) for name in ("code", "message", "status"))
        if code == "not_open":
            # It was just closed, and the page is about to report that.
            waiting.set_exception(TabGone())
        else:
            status = status if isinstance(status, int) else 0
            waiting.set_exception(_refusal(tab.path, str(code), str(text)[:1_000], status))
        return tab.name

    def stop_timer(self) -> None:
        """Cancel its timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def drop(self) -> None:
        """Drop the connection, if there is one. The page has no connection when it ends."""
        former = self.connection
        if former is not None:
            self.lost()
            former.drop()

    def lost(self) -> None:
        """Handle a lost connection: all pending questions fail."""
        self.connection = None
        self.away_since = time.monotonic()
        for _, waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(TabGone())


class BrowserPages:
    """The pages of one server.

    Args:
        root: The folder that notebooks' paths are relative to; None if they are not in files.

    Attributes:
        warn: Called with warnings for callers.
        on_moved: Called with a notebook's path when another tab, or none, may hold it.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.warn: Callable[[str], None] = _log.warning
        self._root = root
        self._pages: dict[tuple[str, str], BrowserPage] = {}
        self._count = itertools.count(1)
        self._change = asyncio.Event()
        self.on_moved: Callable[[str], None] = lambda _: None
        self._tasks = BackgroundTasks(_log)

    @cached_property
    def notebooks(self) -> Notebooks:
        """The server's notebooks by path."""
        # Imported late: a server starts with this module, mostly without a page.
        from tk_ai_extension.notebooks.notebook import Notebooks

        return Notebooks()

    # --- connections

    def connect(self, user: str, client: str, connection: PageConnection) -> BrowserPage:
        """Register the connection of a new or returning page."""
        if (page := self._pages.get((user, client))) is None:
            page = self._pages[user, client] = BrowserPage(user, client)
        page.stop_timer()
        page.drop()  # It has reconnected: its former connection is dead.
        page.connection, page.has_listed = connection, False
        return page

    def disconnect(self, page: BrowserPage, connection: PageConnection, *, left: bool) -> None:
        """Handle the end of a page's connection.

        Args:
            page: The page.
            connection: Its connection; ignored if it has a newer one.
            left: Whether the page was closed or reloaded, and its unsaved changes are gone.
        """
        if page.connection is not connection:
            return
        page.lost()
        if left:
            self._forget(page)
            return
        page.timer = asyncio.get_running_loop().call_later(GRACE, self._forget, page)
        self._notify(page.paths)

    def _forget(self, page: BrowserPage) -> None:
        page.stop_timer()
        del self._pages[page.user, page.client]
        paths = page.paths
        page.tabs = []
        self._notify(paths)

    def close(self) -> None:
        """Close all connections."""
        for page in list(self._pages.values()):
            page.stop_timer()
            page.drop()

    # --- messages of pages

    def handle(self, page: BrowserPage, said: Any) -> Json | None:
        """Handle a message of a page and return the reply.

        After the reply to a list of notebooks only the page writes their files: only then can it determine
        whether it shows their current content.

        Raises:
            InvalidArguments: the message is invalid.
        """
        message = cast("Json", said) if isinstance(said, dict) else {}
        if isinstance(message.get("tabs"), list):
            fresh = self._list(page, _listed(cast("list[Any]", message["tabs"])))
            return {"listed": fresh, "sent": _now()}
        if "focus" in message:
            for tab in page.tabs:
                if tab.name == message["focus"]:
                    tab.selection = NotebookSelection.of(message)
                    self._note_seen(tab, message)
            return None
        if "answer" in message:
            name = page.answered(message)
        elif "changed" in message:
            name = message["changed"]
        else:
            raise InvalidArguments("This is not a message of a page.")
        if isinstance(message.get("dirty"), bool):
            self._note_dirty(page, name, dirty=message["dirty"])
        return None

    def _note_dirty(self, page: BrowserPage, name: str | None, *, dirty: bool) -> None:
        for tab in page.tabs:
            if tab.name == name and tab.dirty != dirty:
                tab.dirty = dirty
                if len(self.present(tab.path)) > 1:  # Another one may hold the notebook now.
                    self._notify({tab.path})

    def _note_seen(self, tab: Tab, said: Json) -> None:
        if said.get("focused") is True:
            tab.seen = next(self._count)

    def _list(self, page: BrowserPage, listed: list[Json]) -> list[str]:
        """Handle the list of a page's open notebooks; return the names of new and moved ones."""
        by_name = {tab.name: tab for tab in page.tabs}
        before = {tab.state for tab in page.tabs}
        tabs: list[Tab] = []
        fresh: list[str] = []
        for each in listed:
            path = each["path"].strip("/")
            is_known = page.has_listed and each["id"] in by_name
            if not is_known or by_name[each["id"]].listed != path:
                fresh.append(each["id"])
            tab = by_name.get(each["id"]) or Tab(page, each["id"], self.notebooks.at(path))
            tabs.append(tab)
            if path != tab.listed or tab.notebook.is_deleted:
                tab.notebook, tab.listed = self.notebooks.at(path), path
            tab.is_linked = self._root is not None and has_link(self._root, path)
            tab.dirty = each.get("dirty") is True
            tab.shared = each.get("shared") is True
            self._note_seen(tab, each)
        page.tabs = tabs
        page.has_listed = True
        now = {tab.state for tab in tabs}
        self._notify({path for _, path, *_ in before ^ now})
        return fresh

    # --- tabs

    def present(self, path: str) -> list[Tab]:
        """Return the connected tabs with this notebook, the authoritative one first.

        That is one with unsaved changes, then the one with the most recent focus.
        """
        return _connected(self._with(path))

    def looked_at(self, user: str) -> list[Tab]:
        """Return the tabs in a user's connected pages, the most recently used one first."""
        tabs = [tab for tab in self._tabs() if tab.page.user == user and tab.page.connection]
        return sorted(tabs, key=lambda tab: -tab.seen)

    @property
    def has_tabs(self) -> bool:
        """Whether a page has a notebook open."""
        return any(page.tabs for page in self._pages.values())

    async def find(self, path: str) -> Tab | None:
        """Return the tab that holds a notebook; None if its file may be written.

        A tab that has just disconnected gets a grace period to reconnect.

        Raises:
            ConflictingTabs: two tabs have unsaved changes.
        """
        while True:
            tabs = self._with(path)
            if not tabs:
                return None
            if there := [tab for tab in _connected(tabs) if tab.is_named]:
                dirty = [tab.path for tab in there if tab.dirty]
                if len(dirty) > 1:
                    names = ", ".join(dict.fromkeys(dirty))
                    raise ConflictingTabs(f"{names} has unsaved changes in {len(dirty)} tabs.")
                return there[0]
            if not all(tab.is_named for tab in tabs):
                # A page may learn of a rename after this server, or never.
                renamed = max(tab.notebook.renamed_at for tab in tabs)
                await self._wait_for_change(renamed + GRACE - time.monotonic())
                continue
            # A little longer than the grace period, after which there are none.
            since = max(tab.page.away_since for tab in tabs)
            await self._wait_for_change(since + GRACE * 1.1 - time.monotonic())

    async def returns(self, tab: Tab) -> bool:
        """Wait for a tab that disconnected or was renamed; return False if its page sends no update."""
        deadline = time.monotonic() + GRACE
        while tab in self._tabs():
            if tab.page.connection is not None and tab.page.has_listed and tab.is_named:
                return True
            if not await self._wait_for_change(deadline - time.monotonic()):
                return False
        return False

    def _tabs(self) -> list[Tab]:
        return [tab for page in self._pages.values() for tab in page.tabs]

    def _with(self, path: str) -> list[Tab]:
        """Return the tabs with a notebook's file, under any name."""
        tabs = self._tabs()
        names = {path}
        if self._root is not None:
            opened = {tab.path: tab.is_linked for tab in tabs}
            names.update(open_aliases(self._root, path, opened))
        return [tab for tab in tabs if tab.path in names]

    # --- reads and saves

    @asynccontextmanager
    async def locked(self, tab: Tab, *, reads: bool = True) -> AsyncGenerator[TabReplica]:
        """Lock a tab and yield its replica.

        If several tabs have the notebook, one without unsaved changes is first refreshed from the file,
        which another tab may have saved.

        Args:
            tab: The tab.
            reads: Whether to update the replica; an empty one is updated in any case.

        Raises:
            TabGone, ToolError.
        """
        async with tab.lock:
            if not (tab.dirty or tab.shared) and len(self.present(tab.path)) > 1:
                await _refresh(tab)
            if reads or not tab.replica.version:
                await tab.replica.update(tab.ask)
            yield tab.replica

    async def save(self, tab: Tab, write: Write) -> None:
        """Have a tab save, and other tabs with the notebook refresh. Its page makes one save at a time.

        Args:
            tab: The tab.
            write: Writes the changes that the page leaves to the server.

        Raises:
            TabGone, ToolError.
            ReadOnly, DiskFull, SaveFailed, NotebookNotFound: The file cannot be written.
        """
        self._cancel_save(tab)
        left: Json | None = (await tab.ask("save")).get("left")
        if left is None:
            self._refresh_others(tab)
        else:
            await self.write(tab, left, write)

    async def write(self, tab: Tab, left: Json, write: Write) -> None:
        """Write the changes that a page leaves to the server, while the page waits; see `save`.

        Raises:
            As `save`.
        """
        self._cancel_save(tab)
        written: str | None = None
        try:
            written = await write(left)
        finally:
            # Also after an error, so that the page does not wait.
            await tab.tell("written", hash=written)
        if written is None:
            await self.save(tab, write)
        else:
            self._refresh_others(tab)

    def _cancel_save(self, tab: Tab) -> None:
        """Cancel a save that has not begun: another one covers its changes."""
        if tab.saving is not None:
            tab.saving.cancel()

    def _refresh_others(self, tab: Tab) -> None:
        for other in self.present(tab.path):
            if other is not tab and not other.shared:
                self.spawn(_refresh(other), f"refresh {tab.path}")

    def save_soon(self, tab: Tab, write: Write) -> None:
        """Have a tab save within a second, regardless of further changes; see `save`."""
        if tab.saving is None:
            from tk_ai_extension.notebooks.running_outputs import Throttle

            tab.saving = Throttle(
                partial(self._save_in_time, tab, write),
                f"save {tab.path}",
                self._tasks,
                delay=SAVE_DELAY,
            )
        tab.saving.request()

    async def _save_in_time(self, tab: Tab, write: Write) -> None:
        try:
            await self.save(tab, write)
        except ToolError as error:
            _log.warning("Outputs of a running cell of %s: %s", tab.path, error.message)
        except TabGone:
            # It saves when it reconnects; otherwise the output writer uses another sink.
            _log.debug("The tab of %s disconnected before it was saved", tab.path)

    async def refresh(self, path: str) -> None:
        """Have tabs that opened the notebook during a write reload its file.

        Tabs that do not answer within `REFRESH_WAIT` do so in the background.
        """
        asked = [self.spawn(_refresh(tab), f"refresh {path}") for tab in self.present(path)]
        if asked:
            await asyncio.wait(asked, timeout=REFRESH_WAIT)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run a coroutine in the background; it is cancelled when the server stops."""
        return self._tasks.spawn(work, name)

    async def stop(self) -> None:
        """Cancel pending saves and background tasks."""
        for tab in self._tabs():
            self._cancel_save(tab)
        await self._tasks.close()

    # --- notices

    def _notify(self, paths: Collection[str]) -> None:
        change, self._change = self._change, asyncio.Event()
        change.set()
        for path in paths:
            self.on_moved(path)

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


def _connected(tabs: list[Tab]) -> list[Tab]:
    there = [tab for tab in tabs if tab.page.connection is not None]
    return sorted(there, key=lambda tab: (not tab.dirty, -tab.seen))


def _listed(listed: list[Any]) -> list[Json]:
    """Return the notebooks of a page's list.

    Raises:
        InvalidArguments: One of them is invalid, or there are too many.
    """
    if len(listed) > MAX_TABS:
        raise InvalidArguments(f"A page can have at most {MAX_TABS} open notebooks.")
    for each in listed:
        fields = cast("Json", each) if isinstance(each, dict) else {}
        name, path = fields.get("id"), fields.get("path")
        if not (isinstance(name, str) and isinstance(path, str)):
            raise InvalidArguments("A notebook in a tab must have an id and a path.")
        if len(name) > MAX_NAME or len(path) > MAX_PATH:
            raise InvalidArguments("The id or the path of a notebook in a tab is too long.")
    return listed


async def _refresh(tab: Tab) -> None:
    with suppress(TabGone, ToolError):
        await tab.ask("refresh")


def _now() -> int:
    """Return the time in milliseconds, by which a page recognises late messages."""
    return round(time.time() * 1000)
