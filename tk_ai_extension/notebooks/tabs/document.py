"""A notebook that may be open in a JupyterLab tab: edits the tab if it is, else the stored notebook."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.encoding import encodable
from tk_ai_extension.model.errors import InvalidNotebook, TabOffline, ToolError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.operations import Applied, Operation
from tk_ai_extension.model.outputs import (
    Append,
    ClearOutputs,
    OutputChange,
    ReplaceOutput,
    StreamEdit,
)
from tk_ai_extension.notebooks.running_outputs import RunningOutputs
from tk_ai_extension.notebooks.session import (
    Find,
    LoadedNotebook,
    OutputSink,
    RunningCell,
    SessionDocument,
    StoredDocument,
)
from tk_ai_extension.notebooks.tabs.edits import TabEdit
from tk_ai_extension.notebooks.tabs.patch import TabPatch, utf16
from tk_ai_extension.notebooks.tabs.protocol import Tab, TabGone, TabRefused
from tk_ai_extension.notebooks.tabs.registry import TabRegistry, refusal
from tk_ai_extension.notebooks.tabs.replica import TabReplica

_READ_ATTEMPTS = 3
"""How often a tab is read if it disconnects meanwhile."""

_EXACT_ATTEMPTS = 5
"""Number of attempts in which the cells concerned must be unchanged; later only outputs may differ."""

_STALE_WARNING = (
    "a JupyterLab tab with unsaved changes cannot be reached: this is the last saved version"
)

_ROOM_READS = 5.0
"""Seconds in which a collaboration room has read its file, or written what was typed meanwhile."""

_FOREIGN_OUTPUTS = -1
"""An impossible number of outputs: the cell's outputs are not those of the run."""

T = TypeVar("T")


class TabDocument(SessionDocument):
    """A notebook in a JupyterLab tab.

    The server reads the tab's content and sends it patches. The tab applies all steps in one transaction
    if the cells concerned are unchanged, remembers the result, and saves. Each operation determines
    again which tab holds the notebook; without one, the stored notebook is used.

    Args:
        kept: The document of the stored notebook: its file.
        tabs: The registry of tabs.
    """

    tries = 20

    def __init__(self, kept: StoredDocument, tabs: TabRegistry) -> None:
        super().__init__(kept.session)
        self._kept = kept
        self._tabs = tabs

    @property
    def path(self) -> str:
        """See `NotebookDocument.path`."""
        return self._kept.path

    @property
    def backend(self) -> str:
        """``tab`` while a tab is connected, else the stored notebook's backend."""
        return "tab" if self._tabs.channel.present(self.path) else self._kept.backend

    # --- reading

    async def pull(self, look: Callable[[LoadedNotebook], T]) -> T:
        """See `SessionDocument.pull`."""
        return await self._query(
            partial(self._kept.pull, look), lambda _, replica: look(self._pulled(replica))
        )

    def _pulled(self, replica: TabReplica) -> LoadedNotebook:
        return LoadedNotebook(replica.snapshot(self.path), replica.content, replica.raw)

    async def read(self) -> Snapshot:
        """See `NotebookDocument.read`; the last saved version if the tab cannot be reached."""
        try:
            return await self._query(
                self._kept.read, lambda _, replica: replica.snapshot(self.path)
            )
        except TabOffline:
            kept = await self._kept.read()
            return replace(kept, warnings=(*kept.warnings, _STALE_WARNING))

    async def _query(
        self,
        in_kept: Callable[[], Awaitable[T]],
        in_tab: Callable[[Tab, TabReplica], T],
        *,
        deliver: bool = True,
    ) -> T:
        """Return the result of a query of the tab that holds the notebook, or of the stored notebook.

        Args:
            in_kept: Queries the stored notebook.
            in_tab: Queries a tab's replica.
            deliver: Whether to deliver the outputs of running cells first.
        """
        for _ in range(_READ_ATTEMPTS):
            tab = await self._current_tab(deliver=deliver)
            if tab is None:
                return await in_kept()
            try:
                async with self._tabs.locked(tab) as replica:
                    return in_tab(tab, replica)
            except TabGone:
                # It was closed, or may reconnect.
                await self._tabs.returns(tab)
            except TabRefused as error:
                raise refusal(error, self.path) from error
        raise TabOffline(f"The tab with {self.path} does not answer.")

    async def _current_tab(self, *, deliver: bool = True) -> Tab | None:
        """Return the tab that holds the notebook; None if the stored notebook is to be used.

        A tab would save the conversion of a notebook of an old format. Such a notebook is used as stored
        until the person has saved it.
        """
        tab = await self._tabs.channel.find(self.path)
        if deliver:
            await self.session.deliver(self)
        if tab is None:
            return None
        with suppress(ToolError):
            # A save that fails is made again, and is an error of the run that made the outputs.
            await self._save_ended_runs()
        replica = self._tabs.replica(tab)
        if not replica.checked:
            try:
                replica.checked = (await self._kept.read()).nbformat[0] == 4
                if tab.shared and replica.checked:
                    await self._room_reads(tab)
            except InvalidNotebook:
                replica.checked = True
        return tab if replica.checked else None

    async def _room_reads(self, tab: Tab) -> None:
        """Wait until a room that lived without pages has read what was written to its file.

        It would do so later, over what the page has got by then.
        """
        deadline = time.monotonic() + _ROOM_READS
        with suppress(TabGone, TabRefused):
            while time.monotonic() < deadline:
                async with self._tabs.locked(tab) as replica:
                    shown = replica.snapshot(self.path).cells
                stored = (await self._kept.stored()).cells
                if [*map(_content, shown)] == [*map(_content, stored)]:
                    return
                await asyncio.sleep(0.1)

    async def _save_ended_runs(self) -> None:
        """Save outputs of cells that ended before a tab took the notebook from its file, without them.

        Raises:
            The errors of `StoredDocument.flush`.
        """
        if any(run.ended for run in self.session.runs):
            await self._kept.flush()

    # --- editing

    async def attempt(self, operations: Sequence[Operation], number: int) -> Applied | None:
        """See `SessionDocument.attempt`."""
        tab = await self._current_tab()
        if tab is None:
            return await self._kept.apply(operations)
        self._kept.check_writable()
        return await self._apply_in(tab, operations, exact=number < _EXACT_ATTEMPTS)

    async def _apply_in(
        self, tab: Tab, operations: Sequence[Operation], *, exact: bool
    ) -> Applied | None:
        """Apply operations in the tab; return None if the edit must be computed again."""
        edit: TabEdit | None = None
        try:
            async with self._tabs.locked(tab) as replica:
                pulled = self._pulled(replica)
                planned = pulled.edited(operations)
                if not planned.steps:
                    return Applied(pulled.snapshot, ())
                patch = TabPatch.of(planned, replica.ids, pulled.snapshot)
                edit = TabEdit(self._tabs, tab, self._kept, patch)
                if not await edit.apply(replica, exact=exact):
                    return None
                after = replica.snapshot(self.path)
                self._relocate_runs(patch, patch.placed(after, replica.ids), len(after.cells))
        except TabGone:
            if edit is None:
                await self._tabs.returns(tab)
                return None
            if not await edit.is_in_file():
                return None
            return Applied(await self._kept.read(), edit.patch.edit.changes())
        except TabRefused as error:
            if edit is None or not await edit.stays():
                raise refusal(error, self.path) from error
            # Nothing shows the notebook with the edit.
            raise edit.unknown() from error
        return Applied(after, planned.changes()) if await edit.save() else None

    def _relocate_runs(self, plan: TabPatch, placed: Mapping[int, Cell], count: int) -> None:
        """Update the running cells' keys after an edit."""
        outputs_set = {
            step.slot
            for step in plan.edit.steps
            if step.before and step.after and step.before.outputs != step.after.outputs
        }
        for writer in self.session.writers:
            cell = writer.run.find(plan.before)
            if cell is None:
                continue
            if cell.index in outputs_set and isinstance(writer.sink, TabSink):
                writer.sink.outputs_set()
            if cell.index in placed:
                writer.run.relocate(placed[cell.index], count)

    # --- outputs

    async def flush(self) -> None:
        """See `NotebookDocument.flush`."""
        tab = await self._tabs.channel.find(self.path)
        if tab is None:
            await self._kept.flush()
        else:
            await self._save_ended_runs()
            try:
                await self._tabs.save(tab)
            except TabGone:
                raise TabOffline(f"The tab with {self.path} does not answer.") from None
            except TabRefused as error:
                raise refusal(error, self.path) from error

    # --- for the session

    async def locate(self, find: Find) -> RunningCell:
        """See `SessionDocument.locate`."""

        def in_tab(tab: Tab, replica: TabReplica) -> RunningCell:
            snapshot = replica.snapshot(self.path)
            cell = find(snapshot)
            known = None if cell is None else replica.ids[cell.index]
            return RunningCell(cell, len(snapshot.cells), TabSink(self._tabs, tab, known))

        return await self._query(partial(self._kept.locate, find), in_tab, deliver=False)

    async def is_current(self, sink: OutputSink) -> bool:
        """See `SessionDocument.is_current`."""
        tab = await self._tabs.channel.find(self.path)
        return sink.tab is tab if isinstance(sink, TabSink) else tab is None


class TabSink(OutputSink):
    """The outputs of one running cell in a tab; see `OutputSink`.

    Args:
        tabs: The registry of tabs.
        tab: The tab.
        cell: The cell's id in the tab; None if the tab has no such cell.
    """

    def __init__(self, tabs: TabRegistry, tab: Tab, cell: str | None) -> None:
        self.tab = tab
        self._tabs = tabs
        self._cell = cell
        # The cell's number of outputs in the tab if no one else changes them; None before the start.
        self._expected: int | None = None
        # Whether the next message has all outputs.
        self._is_whole = True

    async def begin(self, run: RunningOutputs) -> None:
        """See `OutputSink.begin`; includes outputs from before the notebook was in this tab."""
        await self._send_all(run, start=True)

    async def push_outputs(self, run: RunningOutputs) -> None:
        """See `OutputSink.push_outputs`."""
        if self._cell is None:
            run.commit_pending()
        elif self._is_whole:
            if not await self._send({}):
                run.hide()
            run.commit_pending()
            await self._send_all(run)
        elif run.pending:
            mark = run.mark()
            if not await self._send({"changes": _output_messages(run.commit_pending())}):
                run.hide(mark)
                await self._send_all(run)
        self._tabs.save_soon(self.tab)

    async def end(self, run: RunningOutputs, *, save: bool) -> None:  # noqa: ARG002
        """See `OutputSink.end`; the tab saves within a second, which is not awaited."""
        end = {"finish": True, "execution_count": run.execution_count}
        # Refused if its outputs are not as expected: then send the end once more.
        if not await self._send(end):
            await self._send(end)
        self._tabs.save_soon(self.tab)

    def outputs_set(self) -> None:
        """Note that an edit replaced the cell's outputs, perhaps by the same number of others."""
        self._expected = _FOREIGN_OUTPUTS

    async def _send_all(self, run: RunningOutputs, **more: bool) -> None:
        """Send all visible outputs."""
        if await self._send({"whole": encodable(run.outputs()), **more}):
            self._is_whole = run.is_hidden

    async def _send(self, what: Json) -> bool:
        """Send a message about the cell; return whether its outputs were as expected.

        Raises:
            TabGone, ToolError.
        """
        if self._cell is None:
            return True
        try:
            answer = await self.tab.ask("outputs", cell=self._cell, expected=self._expected, **what)
        except TabRefused as error:
            raise refusal(error, self.tab.path) from error
        if answer.get("gone"):
            self._cell = None
            return True
        self._expected = int(answer["count"])
        if answer["applied"]:
            return True
        self._is_whole = True
        return False


def _content(cell: Cell) -> tuple[str, str, int | None, int, int]:
    outputs = cell.outputs
    # How a file stores other outputs changes their size.
    size = outputs.size if {*outputs.mimes} <= {"stdout", "stderr"} else 0
    return cell.type, cell.source, cell.execution_count, outputs.count, size


def _output_messages(taken: Sequence[tuple[OutputChange, str]]) -> list[Json]:
    """Return changes as messages for a tab; cut text is counted in UTF-16 code units."""
    messages: list[Json] = []
    for change, gone in taken:
        match change:
            case Append(output):
                messages.append({"append": output})
            case StreamEdit(index, _, new):
                messages.append({"stream": index, "cut": utf16(gone), "text": new})
            case ReplaceOutput(index, output):
                messages.append({"replace": index, "output": output})
            case ClearOutputs():
                messages = [{"clear": True}]
    return messages
