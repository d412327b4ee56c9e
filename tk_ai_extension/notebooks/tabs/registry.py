"""The registry of notebooks in tabs: replicas, and pending saves."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.errors import LimitReached, ReadOnly, SaveFailed, ToolError
from tk_ai_extension.notebooks.autosave import Schedule
from tk_ai_extension.notebooks.base import save_error
from tk_ai_extension.notebooks.tabs.protocol import Tab, TabChannel, TabGone, TabRefused
from tk_ai_extension.notebooks.tabs.replica import TabReplica

_log = logging.getLogger(__name__)

GRACE = 5.0
"""Grace period in seconds in which a tab that disconnected during a change may reconnect."""

SAVE_DELAY = 0.8
"""Seconds from an output to its save; further outputs do not postpone it."""

REFRESH_WAIT = 2.0
"""Maximum seconds to wait for tabs to read a file that was written; everything is saved by then."""

_ERRNO = re.compile(r"\[Errno (\d{1,5})\]", re.ASCII)


class TabRegistry:
    """The notebooks in the tabs of one server.

    Args:
        channel: The connections to the tabs.
        opened: Called with a notebook's path when another tab, or none, may hold it.
        warn: Called with warnings for callers.
    """

    def __init__(
        self,
        channel: TabChannel,
        opened: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self.channel = channel
        self.warn = warn
        self._opened = opened
        self._replicas: dict[str, TabReplica] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._due: dict[str, Schedule] = {}
        self._tasks = BackgroundTasks(_log)
        channel.subscribe(self._on_opened)

    # --- replicas

    @asynccontextmanager
    async def locked(self, tab: Tab) -> AsyncGenerator[TabReplica]:
        """Lock a tab and yield its up-to-date replica.

        If several tabs have the notebook, one without unsaved changes is first refreshed from the file,
        which another tab may have saved.

        Raises:
            TabGone, TabRefused.
        """
        lock = self._locks.setdefault(tab.id, asyncio.Lock())
        async with lock:
            if not (tab.dirty or tab.shared) and len(self.channel.present(tab.path)) > 1:
                await self._refresh(tab)
            replica = self.replica(tab)
            await replica.update(tab)
            yield replica

    async def returns(self, tab: Tab) -> bool:
        """Wait for a tab that disconnected during a request; return False if it does not reconnect."""
        return await self.channel.wait_for_return(tab, GRACE)

    def replica(self, tab: Tab) -> TabReplica:
        """Return a tab's replica, as of its last update."""
        return self._replicas.setdefault(tab.id, TabReplica())

    def forget_lost(self) -> None:
        """Drop the replicas of tabs that cannot reconnect."""
        for tab_id in list(self._replicas):
            lock = self._locks.get(tab_id)
            if not self.channel.is_known(tab_id) and not (lock and lock.locked()):
                del self._replicas[tab_id]
                self._locks.pop(tab_id, None)
                self._due.pop(tab_id, None)

    # --- saves

    async def save(self, tab: Tab) -> None:
        """Have a tab save, and other tabs with the notebook refresh.

        Raises:
            TabGone, TabRefused.
        """
        if (due := self._due.get(tab.id)) is not None:
            due.cancel()
        await tab.ask("save")
        for other in self.channel.present(tab.path):
            if other.id != tab.id and not other.shared:
                self.spawn(self._refresh(other), f"refresh {tab.path}")

    def save_soon(self, tab: Tab) -> None:
        """Have a tab save within a second, regardless of further changes."""
        if tab.id not in self._due:
            self._due[tab.id] = Schedule(
                partial(self._save_in_time, tab), f"save {tab.path}", self._tasks, delay=SAVE_DELAY
            )
        self._due[tab.id].request()

    async def _save_in_time(self, tab: Tab) -> None:
        try:
            await self.save(tab)
        except TabRefused as error:
            _log.warning("Outputs of a running cell of %s: %s", tab.path, error.message)
        except TabGone:
            # It saves when it reconnects; otherwise the output writer uses another sink.
            _log.debug("The tab of %s disconnected before it was saved", tab.path)

    async def refresh(self, path: str) -> None:
        """Have tabs that opened the notebook meanwhile reload its file, which was written.

        Tabs that do not answer within `REFRESH_WAIT` do so in the background.
        """
        tabs = self.channel.present(path)
        asked = [self.spawn(self._refresh(tab), f"refresh {path}") for tab in tabs]
        if asked:
            await asyncio.wait(asked, timeout=REFRESH_WAIT)

    async def _refresh(self, tab: Tab) -> None:
        with suppress(TabGone, TabRefused):
            await tab.ask("refresh")

    def _on_opened(self, path: str) -> None:
        self._opened(path)
        self.forget_lost()

    # --- tasks

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run a coroutine in the background; it is cancelled when the server stops."""
        return self._tasks.spawn(work, name)

    async def close(self) -> None:
        """Cancel pending saves and background tasks."""
        for due in self._due.values():
            due.cancel()
        await self._tasks.close()


def refusal(error: TabRefused, path: str) -> ToolError:
    """Return the typed error for a tab's error."""
    match error.code:
        case "too_large":
            return LimitReached(
                f"{path} has a cell that is too large to read from its tab.",
                hint="Clear the cell's outputs, or close the tab so that the file is read instead.",
            )
        case "busy":
            return LimitReached(f"The tab with {path} is busy: {error.message}")
        case "file_changed":
            return SaveFailed(
                f"{path} was not saved: another program changed its file.",
                hint="Save or revert the notebook in JupyterLab, which asks what to keep.",
            )
        case _:
            if error.status == 403:
                return ReadOnly(f"{path} cannot be written: {error.message}")
            if found := _ERRNO.search(error.message):
                # The contents manager's answer to the tab quotes the OSError.
                return save_error(OSError(int(found[1]), error.message), path)
            return SaveFailed(f"{path} cannot be saved: {error.message}")
