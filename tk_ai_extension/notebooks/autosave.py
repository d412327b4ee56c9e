"""Autosave: throttles and coalesces the pushes and saves of outputs that are in memory."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tk_ai_extension.model.background import BackgroundTasks, run_to_completion
from tk_ai_extension.model.errors import InvalidNotebook, NotebookNotFound, ReadOnly, ToolError
from tk_ai_extension.notebooks.base import SAVE_INTERVAL
from tk_ai_extension.notebooks.running_outputs import RunningOutputs

_log = logging.getLogger(__name__)

SAVE_DELAY = SAVE_INTERVAL / 2
"""Seconds from an output to its save; the other half of `SAVE_INTERVAL` is for the save itself."""

SAVE_SHARE = 10
"""A slow save delays the next one by this multiple of its duration.

Each save writes the whole file: without a delay, a cell that prints constantly would keep the disk busy.
"""

MAX_DELAY = 60.0
"""Maximum seconds by which a slow or failed save delays the next one."""

LASTING = (NotebookNotFound, ReadOnly, InvalidNotebook)
"""Errors that the next save would have as well, until somebody does something about them."""

MAX_RETRY = 600.0
"""Seconds of failed saves after which the outputs of ended cells are given up, once no cell runs.

Their callers have got the error by then, at the end of the cell or of the run of several cells.
"""

Save = Callable[[Sequence[RunningOutputs]], Coroutine[Any, Any, None]]
"""Saves the outputs and counts of cells that are running or have just ended."""


class Schedule:
    """Throttles an action: calls it a delay after a request, and coalesces requests until then.

    A further request does not postpone the call, and calls never overlap.

    Args:
        action: Called in its own task.
        name: The task's name.
        tasks: Owns the tasks.
        delay: Seconds from a request to the call.

    Attributes:
        delay: See above; it may be changed.
    """

    def __init__(
        self,
        action: Callable[[], Coroutine[Any, Any, None]],
        name: str,
        tasks: BackgroundTasks,
        *,
        delay: float = 0.0,
    ) -> None:
        self.delay = delay
        self._action = action
        self._name = name
        self._tasks = tasks
        self._due: asyncio.TimerHandle | None = None
        self._earliest = 0.0
        self._is_running = False
        self._again = False

    def request(self) -> None:
        """Call the action after the delay, or later if it was postponed."""
        if self._is_running:
            self._again = True
        elif self._due is None:
            wait = max(self.delay, self._earliest - time.monotonic())
            self._due = asyncio.get_running_loop().call_later(wait, self._start)

    def postpone(self, seconds: float) -> None:
        """Begin the next call at the earliest so many seconds from now."""
        self._earliest = time.monotonic() + seconds

    def cancel(self) -> None:
        """Cancel a call that has not begun."""
        self._again = False
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _start(self) -> None:
        self._due, self._is_running = None, True
        self._tasks.spawn(self._run(), self._name)

    async def _run(self) -> None:
        try:
            await self._action()
        finally:
            self._is_running = False
            if self._again:
                self._again = False
                self.request()


class OutputSaver:
    """Autosaves the outputs of running cells of one stored notebook, coalesced, and at their ends.

    It lives from the first running cell until everything is saved. A save that fails, whatever asked for
    it, is made again later with the outputs of all cells: those of a cell that has ended are kept until
    they are saved, or until their own caller gets an error that lasts. Any exception is a failed save.

    Args:
        path: The notebook's path, for messages.
        runs: The cells that are running or not saved yet.
        save: Saves them.
        refresh: Has tabs that opened the notebook during a save read its file.
        on_idle: Called when no cell runs and everything is saved or given up.

    Attributes:
        delay: Seconds from an output to its save.
    """

    def __init__(
        self,
        path: str,
        runs: list[RunningOutputs],
        save: Save,
        *,
        refresh: Callable[[], Coroutine[Any, Any, None]],
        on_idle: Callable[[], None],
    ) -> None:
        self.runs = runs
        self._path = path
        self._save = save
        self._refresh = refresh
        self._on_idle = on_idle
        self._users = 0
        self._failing_since: float | None = None
        self._lock = asyncio.Lock()
        self._tasks = BackgroundTasks(_log)
        self._schedule = Schedule(self._save_in_time, f"save {path}", self._tasks, delay=SAVE_DELAY)

    @property
    def delay(self) -> float:
        """See the class."""
        return self._schedule.delay

    def acquire(self) -> None:
        """Add a running cell as a user."""
        self._users += 1

    def release(self) -> None:
        """Remove a user: its cell no longer runs here."""
        self._users -= 1
        self._check_idle()

    def save_soon(self) -> None:
        """Save within a second, or later if saves are slow."""
        self._schedule.request()

    async def save(self, run: RunningOutputs | None = None) -> None:
        """Save all outputs now; if that fails, save them again later.

        Args:
            run: The run whose caller gets the error: it is given up if the error is a lasting one. None
                if the caller answers for all that have ended: they are given up if the file is gone.

        Raises:
            ReadOnly, DiskFull, SaveFailed, NotebookNotFound.
        """
        # Another notebook may get the name of one that is gone.
        final = (NotebookNotFound,) if run is None else LASTING
        await run_to_completion(self._save_all(run, final))

    async def _save_in_time(self) -> None:
        try:
            if await self._save_runs(None, ()):
                self._tasks.spawn(self._refresh(), f"refresh {self._path}")
        except ToolError as error:
            _log.warning("Outputs of cells of %s: %s", self._path, error.message)

    async def _save_all(
        self, asking: RunningOutputs | None, final: tuple[type[ToolError], ...]
    ) -> None:
        if await self._save_runs(asking, final):
            await self._refresh()

    async def _save_runs(
        self, asking: RunningOutputs | None, final: tuple[type[ToolError], ...]
    ) -> bool:
        """Save all outputs; return whether there were any."""
        async with self._lock:
            self._schedule.cancel()
            runs = tuple(self.runs)
            # A cell that ends during the save has unsaved outputs.
            ended = [run for run in runs if run.ended]
            gone: list[RunningOutputs] = []
            started = time.monotonic()
            try:
                if runs:
                    await self._save(runs)
                gone, self._failing_since = ended, None
                cost = time.monotonic() - started
                self._schedule.delay = min(max(SAVE_DELAY, SAVE_SHARE * cost), MAX_DELAY)
            except Exception as error:
                for run in ended:
                    run.is_late = True
                self._failing_since = self._failing_since or started
                is_over = time.monotonic() - self._failing_since >= MAX_RETRY
                if is_over and not self._users:
                    gone = ended
                elif isinstance(error, final):
                    gone = [run for run in ended if asking in (None, run)]
                self._schedule.delay = min(self.delay * 2, MAX_DELAY)
                self.save_soon()
                raise
            finally:
                self.runs[:] = [run for run in self.runs if run not in gone]
                self._check_idle()
        return bool(runs)

    def _check_idle(self) -> None:
        if not self._users and not self.runs:
            self._schedule.cancel()
            self._on_idle()
