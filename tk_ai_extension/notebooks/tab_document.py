"""The document of a notebook: the tab of JupyterLab that has it open, or else the stored notebook."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from tk_ai_extension.model.cell_operations import AppliedOperations, Change, Operation
from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import InvalidNotebook, SaveFailed, TabOffline, ToolError
from tk_ai_extension.model.json_values import Json, encodable
from tk_ai_extension.model.output_changes import (
    AppendOutput,
    ClearOutputs,
    OutputChange,
    ReplaceOutput,
    StreamEdit,
)
from tk_ai_extension.notebooks import notebook_json
from tk_ai_extension.notebooks.browser_pages import BrowserPages, Tab, TabGone, Write
from tk_ai_extension.notebooks.computed_edit import (
    ComputedEdit,
    LoadedNotebook,
    inverse,
    step,
    utf16,
)
from tk_ai_extension.notebooks.document import NotebookDocument, StoredDocument
from tk_ai_extension.notebooks.notebook_json import new_cell_id
from tk_ai_extension.notebooks.parsed_notebooks import TabReplica
from tk_ai_extension.notebooks.running_outputs import (
    CellLocation,
    Find,
    OutputSink,
    RunningCellOutputs,
    SinkGone,
)

ROOM_SAVE = 10.0
"""Seconds within which a collaboration room has to write an edit."""

ROOM_DELAY = 3.0
"""Seconds after which a room has written the changes of a page that is gone."""

RECENT = 0.1
"""Seconds for which a tab need not be read again when a run begins: mostly the same call has read it."""

_READ_ATTEMPTS = 3
"""Maximum reads of a tab that disconnects during them."""

T = TypeVar("T")


class TabDocument(NotebookDocument):
    """A notebook in a JupyterLab tab.

    The server reads the tab's content and sends it patches. The tab applies all steps in one transaction
    if the cells concerned are unchanged, remembers the result, and saves. Each operation determines
    again which tab holds the notebook; without one, the stored notebook is used.

    Args:
        kept: The document of the stored notebook: its file.
        tabs: The pages with tabs.
    """

    tries = 20

    def __init__(self, kept: StoredDocument, tabs: BrowserPages) -> None:
        super().__init__(kept.notebook)
        self._kept = kept
        self._tabs = tabs

    @property
    def backend(self) -> str:
        """``tab`` while a tab is connected, else the stored notebook's backend."""
        return "tab" if self._tabs.present(self.path) else self._kept.backend

    # --- reading

    async def pull(self, look: Callable[[LoadedNotebook], T]) -> T:
        """See `NotebookDocument.pull`."""
        return await self._query(
            partial(self._kept.pull, look), lambda _, replica: look(self._pulled(replica))
        )

    def _pulled(self, replica: TabReplica) -> LoadedNotebook:
        return LoadedNotebook(replica.snapshot(self.path), replica.content, replica.raw)

    async def read(self) -> Snapshot:
        """See `NotebookDocument.read`."""
        return await self._query(self._kept.read, lambda _, replica: replica.snapshot(self.path))

    async def _query(
        self,
        in_kept: Callable[[], Awaitable[T]],
        in_tab: Callable[[Tab, TabReplica], T],
        *,
        runs: bool = False,
    ) -> T:
        """Return the result of a query of the tab that holds the notebook, or of the stored notebook.

        Args:
            in_kept: Queries the stored notebook.
            in_tab: Queries a tab's replica.
            runs: Whether it is for a run: the outputs of running cells are not delivered first, and
                a read from just before counts.
        """
        for _ in range(_READ_ATTEMPTS):
            tab = await self._current_tab(deliver=not runs)
            if tab is None:
                return await in_kept()
            reads = not runs or time.monotonic() - tab.replica.read_at > RECENT
            try:
                async with self._tabs.locked(tab, reads=reads) as replica:
                    return in_tab(tab, replica)
            except TabGone:
                # It was closed, or may reconnect.
                await self._tabs.returns(tab)
        raise TabOffline(f"The tab with {self.path} does not answer.")

    async def _current_tab(self, *, deliver: bool = True) -> Tab | None:
        """Return the tab that holds the notebook; None to use the stored notebook.

        A tab would save the conversion of a notebook of an old format. Such a notebook is used as stored
        until the person has saved it.
        """
        tab = await self._tabs.find(self.path)
        if deliver:
            await self._deliver()
        if tab is None:
            return None
        with suppress(ToolError):
            # A failed save is retried, and is reported as an error of the run that made the outputs.
            await self._save_ended_runs()
        replica = tab.replica
        if not replica.checked:
            try:
                replica.checked = (await self._kept.read()).nbformat[0] == 4
            except InvalidNotebook:
                replica.checked = True
        return tab if replica.checked else None

    async def _deliver(self) -> None:
        """Deliver the outputs of all running cells before the notebook is read."""
        for writer in tuple(self.notebook.writers):
            try:
                await writer.deliver()
            except ToolError as error:
                writer.warn(error)

    async def _save_ended_runs(self) -> None:
        """Save outputs of cells that ended before a tab opened the notebook's file, which lacks them.

        Raises:
            The errors of `StoredDocument.flush`.
        """
        if any(run.ended for run in self.notebook.runs):
            await self._kept.flush()

    # --- editing

    async def attempt(
        self, operations: Sequence[Operation], number: int
    ) -> AppliedOperations | None:
        """See `NotebookDocument.attempt`.

        The first attempt is computed on the replica; the tab checks that against its content.
        """
        tab = await self._current_tab()
        if tab is None:
            return await self._kept.apply(operations)
        self._kept.check_writable()
        return await self._apply_in(tab, operations, reads=number > 0)

    async def _apply_in(
        self, tab: Tab, operations: Sequence[Operation], *, reads: bool
    ) -> AppliedOperations | None:
        """Apply operations in the tab; return None if the edit must be computed again.

        Args:
            tab: The tab.
            operations: The operations.
            reads: Whether the tab is read first.
        """
        live: TabEdit | None = None
        try:
            async with self._tabs.locked(tab, reads=reads) as replica:
                pulled = self._pulled(replica)
                try:
                    edit = pulled.edited(operations)
                except ToolError:
                    if reads:
                        raise
                    return None
                if not edit.changes:
                    return AppliedOperations(pulled.snapshot, ())
                live = TabEdit(self._tabs, tab, self._kept, edit, pulled.snapshot)
                if not await live.apply():
                    return None
                after = replica.snapshot(self.path)
                self._relocate_runs(live, after)
        except TabGone:
            if live is None:
                await self._tabs.returns(tab)
                return None
            if not await live.is_in_file():
                return None
            return AppliedOperations(await self._kept.read(), tuple(live.edit.changes))
        except ToolError:
            if live is None or not await live.stays():
                raise
            return AppliedOperations(await self._kept.read(), tuple(live.edit.changes))
        return AppliedOperations(after, tuple(edit.changes)) if await live.save() else None

    def _relocate_runs(self, live: TabEdit, after: Snapshot) -> None:
        """Update the running cells' keys after an edit; others may have moved cells since."""
        if not self.notebook.writers:
            return
        found = live.by_id(after)
        for writer in self.notebook.writers:
            cell = writer.run.find(live.before)
            now = None if cell is None else found.get(live.ids[live.before.index(cell)])
            if now is not None:
                writer.run.relocate(after, now)

    # --- outputs

    async def flush(self) -> None:
        """See `NotebookDocument.flush`."""
        tab = await self._tabs.find(self.path)
        await self._deliver()
        if tab is None:
            await self._kept.flush()
        else:
            await self._save_ended_runs()
            try:
                await self._tabs.save(tab, self._kept.write_left)
            except TabGone:
                raise TabOffline(f"The tab with {self.path} does not answer.") from None

    # --- for running cells

    async def locate(self, find: Find) -> CellLocation:
        """See `NotebookDocument.locate`."""

        def in_tab(tab: Tab, replica: TabReplica) -> CellLocation:
            snapshot = replica.snapshot(self.path)
            cell = find(snapshot)
            known = None if cell is None else replica.ids[snapshot.index(cell)]
            sink = TabSink(self._tabs, tab, known, self._kept.write_left)
            return CellLocation(snapshot, cell, sink)

        return await self._query(partial(self._kept.locate, find), in_tab, runs=True)

    async def is_current(self, sink: OutputSink) -> bool:
        """See `NotebookDocument.is_current`."""
        tab = await self._tabs.find(self.path)
        return sink.tab is tab if isinstance(sink, TabSink) else tab is None


class TabEdit:
    """An edit in a tab: sent, saved, and reverted if it cannot be saved.

    An edit counts as failed only if the notebook is without it. A lost connection or a refusal does not
    prove that: the tab may have applied the edit before, and people may have changed its cells since, so
    that it cannot be reverted. So the tab is asked; if it is gone for good, the file is compared.

    Args:
        tabs: The pages with tabs.
        tab: The tab; its replica is the notebook before the edit.
        kept: The document of the stored notebook.
        edit: The edit.
        before: The notebook before the edit.

    Attributes:
        edit: The edit.
        before: The notebook before the edit.
        ids: The ids of the cells in the tab, by slot: those of new cells are at the end.
    """

    def __init__(
        self,
        tabs: BrowserPages,
        tab: Tab,
        kept: StoredDocument,
        edit: ComputedEdit,
        before: Snapshot,
    ) -> None:
        self.edit = edit
        self.before = before
        contents = (edit.contents[slot].id for slot in sorted(edit.contents) if slot < 0)
        self.ids = [*tab.replica.ids, *(known or new_cell_id() for known in contents)]
        self._tabs = tabs
        self._tab = tab
        self._kept = kept
        self._op, self._revert_op = uuid.uuid4().hex, uuid.uuid4().hex
        # The changes that the tab leaves to the server to write.
        self._left: Json | None = None
        # The version after which a change of its cells by others forbids the revert.
        self._since = tab.replica.version

    # --- steps

    async def apply(self) -> bool:
        """Have the tab apply the edit and update the replica; return whether the tab applied it.

        The order of the cells is always a precondition: the edit's changes name indexes.

        Raises:
            TabGone: see `is_in_file`.
            ToolError: see `stays`.
        """
        needs = [self.ids[slot] for slot in self.edit.needs]
        steps = self._steps(self.edit.slots, self.edit.changes, needs, ordered=True)
        message = {"op": self._op, "since": self._since, **steps}
        asked = 0

        async def ask() -> Json:
            nonlocal asked
            asked += 1
            answer = await self._tab.ask("apply", **message)
            # A later answer may include others' changes: the revert must not start from its version.
            if asked == 1:
                self._since = int(answer["version"])
            if answer["applied"] and self.edit.reorders:
                # Without others' changes, the page leaves out the order, which the edit determines.
                answer.setdefault("order", [*map(self.ids.__getitem__, self.edit.order)])
            await self._tab.replica.update(self._tab.ask, answer)
            return answer

        # Its id makes the edit idempotent.
        answer = await self._ask_again(ask)
        self._left = answer.get("left")
        return bool(answer["applied"])

    def _steps(
        self,
        slots: Iterable[int],
        changes: Iterable[Change],
        needs: Sequence[str],
        *,
        ordered: bool,
    ) -> Json:
        named = [(self.ids[slot], change) for slot, change in zip(slots, changes, strict=True)]
        touched = [known for known, change in named if change.action != "insert"]
        return {
            "needs": {"order": ordered, "cells": [*dict.fromkeys([*touched, *needs])]},
            "steps": [step(change, known) for known, change in named],
        }

    async def save(self) -> bool:
        """Have the tab save the edit, or revert it; return whether the notebook has the edit.

        Raises:
            ToolError: the edit cannot be saved and was reverted.
            SaveFailed: see `stays`.
        """
        try:
            if self._tab.shared:
                return await self._ask_again(self._save_in_room)
            write = self._kept.write_left
            if self._left is not None:
                try:
                    await self._tabs.write(self._tab, self._left, write)
                    return True
                except TabGone:
                    pass
            await self._ask_again(partial(self._tabs.save, self._tab, write))
        except TabGone:
            return await self.is_in_file()
        except ToolError as failure:
            if not await self.stays():
                raise
            self._tabs.warn(
                f"{self._kept.path} was changed in its open tab, but is not saved: {failure.message} "
                "Do not repeat the change. Fix the cause, then save the notebook in JupyterLab."
            )
        return True

    async def _save_in_room(self) -> bool:
        """Have the notebook's collaboration room write the file; return whether the file has the edit.

        A room may report a save that it did not make, and replaces its document by a file that another
        program wrote. So the cells of the edit are compared with those in the file.

        Raises:
            TabGone, ToolError.
        """
        path = self._kept.path
        refused: ToolError = SaveFailed(
            f"{path} cannot be saved: its collaboration room does not write the file."
        )
        deadline = time.monotonic() + ROOM_SAVE
        replica = self._tab.replica
        while time.monotonic() < deadline:
            try:
                await self._tabs.save(self._tab, self._kept.write_left)
            except ToolError as error:
                refused = error
            await replica.update(self._tab.ask)
            shown = replica.snapshot(path)
            if self._agree(shown, await self._kept.stored()):
                return self._is_applied_in(shown) is not False
        raise refused

    async def stays(self) -> bool:
        """Revert the edit unless its cells were changed since; return whether the notebook has it.

        Raises:
            SaveFailed: The tab does not answer.
        """
        back = map(inverse, reversed(self.edit.changes))
        # Cells that were only set may have been moved by others.
        slots = reversed(self.edit.slots)
        steps = self._steps(slots, back, (), ordered=self.edit.reorders)
        message = {"op": self._revert_op, "reverts": self._op, **steps}
        try:
            ask = partial(self._tab.ask, "apply", since=self._since, **message)
            return bool((await self._ask_again(ask))["stays"])
        except TabGone:
            return await self.is_in_file()
        except ToolError as error:
            raise SaveFailed(
                f"It is unknown whether {self._kept.path} was changed: its tab does not answer.",
                hint="Read the notebook before you repeat the call.",
            ) from error

    async def _ask_again(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the tab; ask again each time that it disconnects and returns."""
        while True:
            try:
                return await ask()
            except TabGone:
                if not await self._tabs.returns(self._tab):
                    raise

    async def is_in_file(self) -> bool:
        """Return whether the file has the edit of a tab that is gone."""
        deadline = time.monotonic() + (ROOM_DELAY if self._tab.shared else 0)
        while not (made := self._is_applied_in(await self._kept.read())):
            if time.monotonic() >= deadline:
                break
            await asyncio.sleep(0.1)
        return bool(made)

    # --- comparisons

    def by_id(self, shown: Snapshot) -> dict[str | None, Cell]:
        """Return the cells of the replica's present snapshot by their ids in the tab."""
        return dict(zip(self._tab.replica.ids, shown.cells, strict=True))

    def _agree(self, shown: Snapshot, stored: Snapshot) -> bool:
        """Return whether the cells that the edit changed are equal in the tab and in the file."""
        there = self.by_id(shown)
        if notebook_json.has_ids(stored.nbformat):
            found = {cell.id: cell for cell in stored.cells}
        elif len(there) == len(stored.cells):
            found = dict(zip(there, stored.cells, strict=True))
        else:
            return False
        ids = {self.ids[slot] for slot in self.edit.slots}
        return all(_content(there.get(known)) == _content(found.get(known)) for known in ids)

    def _is_applied_in(self, now: Snapshot) -> bool | None:
        """Return whether a notebook has the edit's changes; None if that cannot be determined."""
        by_id = {cell.id: cell for cell in now.cells if cell.id is not None}
        for slot, change in zip(self.edit.slots, self.edit.changes, strict=True):
            content = change.after or change.before
            if content is None or content.id is None:
                return None
            cell = by_id.get(content.id)
            end = self.edit.contents.get(slot)
            if slot not in self.edit.order:
                if slot >= 0:
                    return cell is None
            elif change.action == "insert":
                return cell is not None
            elif end is not None and end.source != self.before.cells[slot].source:
                # If the sources differ, a person may have changed either.
                either = {end.source: True, self.before.cells[slot].source: False}
                return None if cell is None else either.get(cell.source)
        return None


def _content(cell: Cell | None) -> tuple[str, str, int | None] | None:
    return None if cell is None else (cell.type, cell.source, cell.execution_count)


class TabSink(OutputSink):
    """The outputs of one running cell in a tab; see `OutputSink`.

    Args:
        tabs: The pages with tabs.
        tab: The tab.
        cell: The cell's id in the tab; None if the tab has no such cell.
        write: Writes the changes that the tab leaves to the server.
    """

    def __init__(self, tabs: BrowserPages, tab: Tab, cell: str | None, write: Write) -> None:
        self.tab = tab
        self._write = write
        self._tabs = tabs
        self._cell = cell
        # The tab's version after which only this changes the outputs; None before, and without the cell.
        self._expected: int | None = None
        # Whether the next message has all outputs.
        self._is_whole = True

    async def push(self, run: RunningCellOutputs, *, save: bool) -> None:  # noqa: ARG002
        """See `OutputSink.push`; the tab saves within a second, which is not awaited."""
        end: Json = {}
        if run.ended:
            end = {"finish": True, "execution_count": run.execution_count}
        if self._cell is None:
            run.commit_pending()
        elif self._expected is None:
            # Also the outputs from before this tab opened the notebook, or got the cell back.
            run.commit_pending()
            if self._is_whole or (await self._send({}) and self._expected is not None):
                await self._send_all(run, start=True, **end)
        elif self._is_whole:
            if not await self._send({}):
                run.hide()
            run.commit_pending()
            await self._send_all(run, **end)
        elif run.pending or end:
            mark = run.mark()
            changes = _output_messages(run.commit_pending())
            if not await self._send({"changes": changes, **end}):
                run.hide(mark)
                await self._send_all(run, **end)
        self._tabs.save_soon(self.tab, self._write)

    async def _send_all(self, run: RunningCellOutputs, **more: Any) -> None:
        """Send all visible outputs."""
        if await self._send({"whole": encodable(run.outputs()), **more}):
            self._is_whole = run.is_hidden

    async def _send(self, what: Json) -> bool:
        """Send a message about the cell; return whether its outputs were as expected.

        Raises:
            SinkGone, ToolError.
        """
        if self._cell is None:
            return True
        try:
            answer = await self.tab.ask("outputs", cell=self._cell, expected=self._expected, **what)
        except TabGone:
            raise SinkGone from None
        if answer.get("gone"):  # until a person undoes that, or pastes what they cut
            self._expected, self._is_whole = None, False
            return True
        self._expected = int(answer["version"])
        if answer["applied"]:
            return True
        self._is_whole = True
        return False


def _output_messages(taken: Sequence[tuple[OutputChange, str]]) -> list[Json]:
    """Return changes as messages for a tab; cut text is counted in UTF-16 code units."""
    messages: list[Json] = []
    for change, gone in taken:
        match change:
            case AppendOutput(output):
                messages.append({"append": output})
            case StreamEdit(index, _, new):
                messages.append({"stream": index, "cut": utf16(gone), "text": new})
            case ReplaceOutput(index, output):
                messages.append({"replace": index, "output": output})
            case ClearOutputs():
                messages = [{"clear": True}]
    return messages
