"""Outputs of a running cell, written to whatever holds its notebook while it runs: a tab, or the file."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from tk_ai_extension.model.cells import Cell, Json, Snapshot
from tk_ai_extension.model.encoding import encodable
from tk_ai_extension.model.errors import CellNotFound, OpenTwice, TabOffline, ToolError
from tk_ai_extension.model.outputs import (
    Append,
    ClearOutputs,
    OutputChange,
    ReplaceOutput,
    StreamBuffer,
    StreamEdit,
    stream_text,
)
from tk_ai_extension.notebooks.autosave import SavingOutputWriter
from tk_ai_extension.notebooks.base import NotebookDocument, OutputWriter
from tk_ai_extension.notebooks.running import RunningOutputs
from tk_ai_extension.notebooks.streaming import merged
from tk_ai_extension.notebooks.tabs.protocol import Tab, TabGone, TabRefused
from tk_ai_extension.notebooks.tabs.registry import TabRegistry, refusal
from tk_ai_extension.notebooks.tabs.steps import utf16

_log = logging.getLogger(__name__)

FLUSH_INTERVAL = 0.05
"""Seconds between two messages while outputs come; one that takes longer puts the next one off as long."""

_MOVES = 3
"""So often outputs go on to another holder within one message."""

_OTHERS = -1
"""The number of outputs that no cell has: what is there is not what was written."""


@dataclass
class _InTab:
    """How far a cell's outputs have come in a tab.

    Attributes:
        tab: The tab.
        cell: The cell's id in it; None where it has no such cell.
        expected: How many outputs the cell has there, if nobody else changed them; None before the
            first message.
        whole: Whether the next message holds all of them.
        size: How many there are, where they are not told as a whole.
        texts: Those of them that are streams.
    """

    tab: Tab
    cell: str | None
    expected: int | None = None
    whole: bool = True
    size: int = 0
    texts: dict[int, StreamBuffer] = field(default_factory=dict[int, StreamBuffer])


class TabOutputWriter:
    """Writes the outputs of one running cell; see `OutputWriter`.

    All of them are kept here until the cell has ended and they have arrived: a tab that reloads or
    comes back gets them as a whole. Where others changed the outputs meanwhile, it gets what came since
    and nothing else.

    Args:
        kept: The document where the notebook is kept.
        tabs: What is known of tabs.
        cell: The cell.
        count: How many cells the notebook has.
    """

    def __init__(self, kept: NotebookDocument, tabs: TabRegistry, cell: Cell, count: int) -> None:
        self.finished = False
        self.cell = cell
        self._kept = kept
        self._tabs = tabs
        self._running = RunningOutputs(cell, count)
        self._pending: list[OutputChange] = []
        self._next: list[OutputChange] = []
        self._one = asyncio.Lock()
        self._home: _InTab | OutputWriter | None = None
        self._file = AsyncExitStack()
        self._begun = False
        self._ended: tuple[int | None, bool] | None = None
        self._told_end = False
        self._woken = False
        self._writing: asyncio.Task[None] | None = None

    @property
    def path(self) -> str:
        """Where the notebook is now."""
        return self._kept.path

    @property
    def is_done(self) -> bool:
        """Whether the cell has ended and all its outputs have arrived."""
        return self._told_end

    async def start(self) -> None:
        """See `OutputWriter.start`."""
        self._begun = True
        await self.deliver()

    async def write(self, changes: Sequence[OutputChange]) -> None:
        """See `OutputWriter.write`."""
        self._pending += changes
        self.wake()

    def wake(self) -> None:
        """Writes what is pending soon, to whoever holds the notebook then."""
        self._woken = True
        if self._writing is None or self._writing.done():
            self._writing = self._tabs.spawn(self._write_on(), f"outputs of {self.path}")

    async def _write_on(self) -> None:
        while self._woken:
            self._woken = False
            started = time.monotonic()
            try:
                await self.deliver()
            except ToolError as error:
                _log.warning("Outputs of a running cell of %s: %s", self.path, error.message)
            await asyncio.sleep(max(FLUSH_INTERVAL, time.monotonic() - started))

    async def finish(self, execution_count: int | None, *, save: bool = True) -> None:
        """See `OutputWriter.finish`; a tab is saved within a second, which is not waited for.

        Raises:
            TabOffline, OpenTwice: the outputs are not in the notebook; they will be when its tab is back.
        """
        if self.finished:
            return
        self.finished = True
        if not self._begun:
            return
        self._ended = execution_count, save
        self._running.end(execution_count)
        await self.deliver(last=True)

    async def deliver(self, *, last: bool = False) -> None:
        """Writes what is pending; what cannot be written now is kept.

        Args:
            last: Whether it is an error that it cannot be written.
        """
        if not self._begun or self._told_end:
            return
        async with self._one:
            self._next += merged(self._pending)
            self._pending = []
            for _ in range(_MOVES):
                try:
                    tab = await self._tabs.channel.find(self.path)
                    if tab is None:
                        await self._to_file()
                    else:
                        await self._to_tab(tab)
                    return
                except TabGone:
                    await self._move()
                except TabRefused as error:
                    await self._move()
                    raise refusal(error, self.path) from error
                except (TabOffline, OpenTwice):
                    await self._move()
                    self._wait_for_tab(last)
                    if last:
                        raise
                    return
            self._wait_for_tab(last)
            if last:
                raise TabOffline(f"The tab with {self.path} comes and goes.")

    def _wait_for_tab(self, last: bool) -> None:
        """The cell may have ended: its outputs go to the tab when that is back."""
        if last:
            self._tabs.keep(self)

    def _take(self) -> None:
        """What is being written counts as written: the next one of all gets it."""
        self._running.write(self._next)
        self._next = []

    async def _move(self) -> None:
        """Whoever had the notebook is gone, or has not taken what was told: all is told anew."""
        self._take()
        await self._leave_file()

    # --- in the file

    async def _to_file(self) -> None:
        changes = self._next
        self._take()
        if self._home is None or isinstance(self._home, _InTab):
            try:
                key = self._running.key
                if self._running.is_numbered:
                    cell = self._running.find(await self._kept.read())
                    key = key if cell is None else cell.key
                writer = await self._file.enter_async_context(self._kept.writing(key))
            except CellNotFound:
                self._told_end = True
                return
            self._home = writer
            await writer.start()
            changes = [Append(output) for output in self._running.outputs()]
        if changes:
            await self._home.write(changes)
        if self._ended is not None:
            self._told_end = True
            count, save = self._ended
            await self._home.finish(count, save=save)
            await self._file.aclose()

    async def leave(self) -> None:
        """Lets go of the file."""
        await self._file.aclose()

    async def _leave_file(self) -> None:
        """A tab has the notebook now: the file is not written any more."""
        if isinstance(self._home, SavingOutputWriter):
            self._home.abandon()
        self._home = None
        await self._file.aclose()

    # --- in a tab

    async def _to_tab(self, tab: Tab) -> None:
        home = self._home
        if not isinstance(home, _InTab) or home.tab is not tab:
            home = await self._enter(tab)
        if home.cell is None:
            self._take()
        elif home.whole:
            if not await self._tell(home, {}):
                self._running.hide()
            self._take()
            await self._tell_whole(home)
        elif self._next:
            as_expected = await self._tell(home, {"changes": _told(home, self._next)})
            if not as_expected:
                self._running.hide()
            self._take()
            if not as_expected:
                await self._tell_whole(home)
        if self._ended is not None and home.cell is not None:
            end = {"finish": True, "execution_count": self._ended[0]}
            # Where its outputs are not as expected any more, its end comes all the same.
            if not await self._tell(home, end):
                await self._tell(home, end)
        self._told_end = self._ended is not None
        self._tabs.save_soon(tab)

    async def _enter(self, tab: Tab) -> _InTab:
        """Goes on in a tab, from the beginning."""
        await self._leave_file()
        async with self._tabs.locked(tab) as replica:
            cell = self._running.find(replica.snapshot(self.path))
            home = _InTab(tab, None if cell is None else replica.ids[cell.index])
        await self._tell(home, {"start": True})
        self._home = home
        return home

    async def _tell_whole(self, home: _InTab) -> None:
        """Sets all outputs that are to be seen."""
        outputs = encodable(self._running.outputs())
        if not await self._tell(home, {"whole": outputs}):
            return
        if not self._running.is_hidden:
            home.whole, home.size = False, len(outputs)
            home.texts = {
                index: StreamBuffer(stream_text(output))
                for index, output in enumerate(outputs)
                if output.get("output_type") == "stream"
            }

    async def _tell(self, home: _InTab, what: Json) -> bool:
        """Sends a message about the cell; whether its outputs were as expected, and it was done."""
        if home.cell is None:
            return True
        answer = await home.tab.ask("outputs", cell=home.cell, expected=home.expected, **what)
        if answer.get("gone"):
            home.cell = None
            return True
        home.expected = int(answer["count"])
        if answer["applied"]:
            return True
        home.whole = True
        return False

    # --- edits

    def follow(
        self,
        before: Snapshot,
        placed: Mapping[int, Cell],
        count: int,
        outputs_set: Collection[int],
    ) -> None:
        """Notes the cell's key after an edit.

        Args:
            before: The notebook before it.
            placed: The cells afterwards, by their indexes before.
            count: How many there are afterwards.
            outputs_set: The indexes before of the cells that got other outputs.
        """
        cell = self._running.find(before)
        if cell is not None and cell.index in outputs_set and isinstance(self._home, _InTab):
            # As many as before, perhaps, but not ours.
            self._home.expected = _OTHERS
        if cell is not None and cell.index in placed:
            self._running.follow(placed[cell.index], count)


def _told(home: _InTab, changes: Sequence[OutputChange]) -> list[Json]:
    """Changes as a tab is told them; what of a stream goes is counted as JavaScript counts."""
    told: list[Json] = []
    for change in changes:
        match change:
            case Append(output):
                shared = encodable(output)
                _note(home, home.size, shared)
                home.size += 1
                told.append({"append": shared})
            case StreamEdit(index, start, new):
                gone = home.texts[index].edit(start, new)
                told.append({"stream": index, "cut": utf16(gone), "text": encodable(new)})
            case ReplaceOutput(index, output):
                shared = encodable(output)
                _note(home, index, shared)
                told.append({"replace": index, "output": shared})
            case ClearOutputs():
                home.texts.clear()
                home.size = 0
                told = [{"clear": True}]
    return told


def _note(home: _InTab, index: int, output: Json) -> None:
    home.texts.pop(index, None)
    if output.get("output_type") == "stream":
        home.texts[index] = StreamBuffer(stream_text(output))
