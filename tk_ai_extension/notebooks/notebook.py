"""One object for each notebook in use, and the map of paths to them.

A path is a name, and another notebook may get it. All state about a notebook is on its object or refers
to it: what callers have read, revisions, the last runs of cells and whether their results are stale.
`Notebooks` alone follows renames and deletions.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from operator import attrgetter
from typing import Any, Literal, cast
from weakref import WeakValueDictionary

from tk_ai_extension.model.background_tasks import BackgroundTasks
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import Cell, CellData, Snapshot
from tk_ai_extension.model.errors import NotebookNotFound
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.paths import DELETED, moved
from tk_ai_extension.notebooks import notebook_json
from tk_ai_extension.notebooks.computed_edit import LoadedNotebook
from tk_ai_extension.notebooks.running_outputs import (
    CellOutputWriter,
    OutputSaver,
    RunningCellOutputs,
)

_log = logging.getLogger(__name__)

MAX_UNUSED = 200
"""Maximum notebooks that are kept although nothing refers to them; the oldest is evicted first."""

MAX_CELLS = 100_000
"""Maximum remembered cells of all callers for one notebook; about 20 MB."""
MAX_CHARACTERS = 16_000_000
"""Maximum characters of a notebook's cached revisions: of source, plus `CELL` for each cell."""
CELL = 500
"""Characters that a cell counts in addition to its source, for the approximate bytes of its other fields."""
MIN_PREFIX = 4
"""Minimum characters of a revision's prefix."""


class ReadSources:
    """Remembers, for each caller, the last source of each cell of a notebook that the caller read.

    A change to a cell is a compare-and-set against the hash. Only whole sources count: a line of a list
    that shows the beginning of a source does not mark the cell as read. Forgetting is safe: the caller
    reads again. At the limit, the least recently active caller is forgotten first.
    """

    def __init__(self) -> None:
        self._count = 0
        # Hashes by cell, for each caller, the least recently active one first.
        self._callers: OrderedDict[str, dict[str, str]] = OrderedDict()

    def mark(self, caller: Caller, cell: str, source_hash: str) -> None:
        """Record that the caller has read the whole source with this hash. Needs a caller with a key."""
        self._mark(caller, {cell: source_hash})

    def mark_cells(self, caller: Caller, cells: Iterable[Cell]) -> None:
        """Record that the caller has read the whole sources of these cells."""
        self._mark(caller, {cell.key: cell.hash for cell in cells})

    def _mark(self, caller: Caller, hashes: dict[str, str]) -> None:
        if caller.key is None:
            return
        identity = caller.identity
        cells = self._callers.setdefault(identity, {})
        self._callers.move_to_end(identity)
        self._count -= len(cells)
        cells |= hashes
        self._count += len(cells)
        while self._count > MAX_CELLS:
            self._forget_one()

    def expectation(self, caller: Caller, cell: str) -> str | None:
        """Return the hash that the caller's next change of a cell must find; None if it was not read."""
        cells = self._callers.get(caller.identity) if caller.key is not None else None
        if cells is None:
            return None
        self._callers.move_to_end(caller.identity)
        return cells.get(cell)

    def of(self, caller: Caller) -> dict[str, str]:
        """Return the hashes of a caller by cell."""
        return dict(self._callers.get(caller.identity, {}))

    def forget(self, caller: Caller) -> None:
        """Forget a caller after the end of its session."""
        self._count -= len(self._callers.pop(caller.identity, ()))

    def _forget_one(self) -> None:
        oldest = next(iter(self._callers))
        if len(self._callers) > 1:
            self._count -= len(self._callers.pop(oldest))
        else:
            cells = self._callers[oldest]
            del cells[next(iter(cells))]
            self._count -= 1


class SnapshotCache:
    """Caches the snapshots of a notebook that were shown as text, so that the edited text can be merged.

    A revision is a hash of the content, so all callers share an entry. The least recently used entry
    is evicted first. The newest is always kept, even a large one, so that a large notebook can be
    written back.
    """

    def __init__(self) -> None:
        self._characters = 0
        self._snapshots: OrderedDict[str, Snapshot] = OrderedDict()

    def remember(self, snapshot: Snapshot) -> None:
        """Add a snapshot by its revision."""
        if snapshot.revision not in self._snapshots:
            self._snapshots[snapshot.revision] = snapshot
            self._characters += _size(snapshot)
        self._snapshots.move_to_end(snapshot.revision)
        while self._characters > MAX_CHARACTERS and len(self._snapshots) > 1:
            _, oldest = self._snapshots.popitem(last=False)
            self._characters -= _size(oldest)

    def get(self, revision: str) -> Snapshot | None:
        """Return the snapshot of a revision, given in full or as a unique prefix; None if unknown."""
        if revision not in self._snapshots:
            if len(revision) < MIN_PREFIX:
                return None
            found = [each for each in self._snapshots if each.startswith(revision)]
            if len(found) != 1:
                return None
            revision = found[0]
        self._snapshots.move_to_end(revision)
        return self._snapshots[revision]


def _size(snapshot: Snapshot) -> int:
    sources = map(attrgetter("source"), snapshot.cells)
    return sum(map(len, sources)) + CELL * len(snapshot.cells)


class Notebook:
    """A notebook in use, with all state about it.

    Attributes:
        path: Its present path; its last one if it was deleted.
        is_deleted: Whether it was deleted, or replaced by a renamed one. Nothing may be done for it
            then: another notebook may have its path.
        kernel_id: Its last known kernel; None for none.
        starting: Held while its kernel is started; others wait to join it.
        writing: Held while the stored notebook is written.
        seen: The source of each cell as each caller last read it.
        revisions: The snapshots that were shown as text.
        last_runs: The last run of each cell, which determines whether its outputs are fresh.
        runs: The cells with outputs in memory that are saved with the stored notebook: running
            ones, and ended ones that are not saved yet.
        saver: Saves them; None if there are none.
        writers: The writers of running cells, and of ended ones with undelivered outputs.
        tasks: Push outputs.
        renamed_at: When it was renamed last, on the monotonic clock.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_deleted = False
        self.kernel_id: str | None = None
        self.starting = asyncio.Lock()
        self.writing = asyncio.Lock()
        self.runs: list[RunningCellOutputs] = []
        self.saver: OutputSaver | None = None
        self.writers: list[CellOutputWriter] = []
        self.tasks = BackgroundTasks(_log)
        self.renamed_at = float("-inf")
        self.forget_content()

    def __repr__(self) -> str:
        return f"<Notebook {self.path}{' (deleted)' if self.is_deleted else ''}>"

    @property
    def stored_path(self) -> str:
        """Its path as it is stored: marked if it was deleted."""
        return f"{self.path}{DELETED}" if self.is_deleted else self.path

    def check_present(self) -> None:
        """Check that it was not deleted.

        Raises:
            NotebookNotFound: It was.
        """
        if self.is_deleted:
            raise deleted_error(self.path)

    # --- the stored notebook with the outputs in memory

    def running_cells(self, snapshot: Snapshot) -> list[tuple[RunningCellOutputs, int]]:
        """Return the outputs in memory, each with the index of its cell in the stored notebook."""
        found = [(run, run.find(snapshot)) for run in self.runs]
        return [(run, snapshot.index(cell)) for run, cell in found if cell is not None]

    def shown(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with the outputs of running cells so far."""
        running = self.running_cells(snapshot)
        if not running:
            return snapshot
        cells = list(snapshot.cells)
        for run, index in running:
            cells[index] = run.shown(cells[index])
        return snapshot.with_cells(cells)

    def with_runs(self, stored: LoadedNotebook) -> LoadedNotebook:
        """Return the stored notebook with the outputs of running cells so far."""
        running = {index: run for run, index in self.running_cells(stored.snapshot)}
        if not running or stored.snapshot.nbformat[0] != 4:
            return stored

        def content(index: int) -> CellData:
            loaded, run = stored.content(index), running.get(index)
            if run is None:
                return loaded
            return replace(loaded, outputs=run.outputs(), execution_count=run.execution_count)

        def raw() -> Json:
            notebook = stored.raw()
            cells = cast("list[Any]", notebook["cells"])
            for index, run in running.items():
                outputs = notebook_json.stored_outputs(run.outputs(), as_lines=stored.as_lines)
                more = {"outputs": outputs, "execution_count": run.execution_count}
                cells[index] = {**cells[index], **more}
            return notebook

        return LoadedNotebook(self.shown(stored.snapshot), content, raw)

    def on_moved(self) -> None:
        """Locate its running cells again: another tab, or none, may hold it now."""
        for writer in self.writers:
            writer.wake()

    def forget_content(self) -> None:
        """Forget the state about the content, which was replaced."""
        self.seen = ReadSources()
        self.revisions = SnapshotCache()
        self.last_runs = LastRuns()


def deleted_error(path: str) -> NotebookNotFound:
    """Return the error of an operation on a notebook that was deleted since."""
    return NotebookNotFound(
        f"{path.removesuffix(DELETED)} was deleted.",
        hint="Another notebook may have its name. See list_notebooks.",
    )


class Notebooks:
    """The notebooks of a server by path.

    A notebook stays as long as something refers to it. Of the others, the most recently used ones are kept.

    >>> notebooks = Notebooks()
    >>> notebook = notebooks.at("x/a.ipynb")
    >>> _ = notebooks.rename("x", "y")
    >>> notebook.path, notebooks.at("y/a.ipynb") is notebook, notebooks.at("x/a.ipynb") is notebook
    ('y/a.ipynb', True, False)

    Args:
        max_unused: Maximum notebooks to which nothing else refers.
    """

    def __init__(self, max_unused: int = MAX_UNUSED) -> None:
        self._max_unused = max_unused
        self._by_path: WeakValueDictionary[str, Notebook] = WeakValueDictionary()
        self._recent: OrderedDict[Notebook, None] = OrderedDict()

    def __iter__(self) -> Iterator[Notebook]:
        return iter(list(self._by_path.values()))

    def at(self, path: str) -> Notebook:
        """Return the notebook at a path."""
        notebook = self._by_path.get(path)
        if notebook is None:
            notebook = self._by_path[path] = Notebook(path)
        self._recent[notebook] = None
        self._recent.move_to_end(notebook)
        if len(self._recent) > self._max_unused:
            self._recent.popitem(last=False)
        return notebook

    def find(self, path: str) -> Notebook | None:
        """Return the notebook at a path; None if there is no state about it."""
        return self._by_path.get(path)

    def rename(self, old: str, new: str) -> tuple[dict[str, Notebook], list[Notebook]]:
        """Move a notebook, or those in a folder, to a new path.

        Returns:
            The notebooks that have moved, by former path, and former ones at the new path, which are
            deleted.
        """
        renamed = [(each, path) for each in self if (path := moved(each.path, old, new))]
        for notebook, _ in renamed:
            del self._by_path[notebook.path]
        deleted = self.delete(new)
        former = {notebook.path: notebook for notebook, _ in renamed}
        for notebook, path in renamed:
            notebook.path, notebook.renamed_at = path, time.monotonic()
            self._by_path[path] = notebook
        return former, deleted

    def delete(self, path: str) -> list[Notebook]:
        """Mark a notebook, or those in a folder, as deleted, and return them."""
        deleted = [each for each in self if moved(each.path, path, path)]
        for notebook in deleted:
            notebook.is_deleted = True
            del self._by_path[notebook.path]
            self._recent.pop(notebook, None)
        return deleted


CellState = Literal["fresh", "edited", "stale", "never", "running", "error"]
"""``never``: not run in the current kernel; ``edited``: the source changed since the last run;
``stale``: a cell that it depends on was edited or ran later; ``error``: the last run failed."""


@dataclass(eq=False, slots=True)
class KernelIncarnation:
    """A kernel from its start to its end or restart, which ends its variables."""

    kernel_id: str
    has_ended: bool = False


class KernelIncarnations:
    """The present incarnation of each kernel."""

    def __init__(self) -> None:
        self._present: dict[str, KernelIncarnation] = {}

    def of(self, kernel_id: str) -> KernelIncarnation:
        """Return a kernel's present incarnation. Ask for it when the kernel starts the code."""
        return self._present.setdefault(kernel_id, KernelIncarnation(kernel_id))

    def end(self, kernel_id: str) -> None:
        """End the incarnation of a kernel that has ended or was restarted."""
        if (ended := self._present.pop(kernel_id, None)) is not None:
            ended.has_ended = True


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The last run of a cell in its notebook's current kernel.

    Attributes:
        source_hash: The hash of the source that ran.
        sequence: Its number in the order of all runs of the notebook.
        incarnation: The kernel.
        ok: Whether it ended without an error.
    """

    source_hash: str
    sequence: int
    incarnation: KernelIncarnation
    ok: bool


class LastRuns:
    """The last run of each cell of a notebook, until the kernel ends and its variables are lost."""

    def __init__(self) -> None:
        self._records: dict[str, RunRecord] = {}
        self._sequence = count(1)

    def by_cell(self) -> Mapping[str, RunRecord]:
        """Return the records by cell key."""
        if any(record.incarnation.has_ended for record in self._records.values()):
            self._records = {
                cell: record
                for cell, record in self._records.items()
                if not record.incarnation.has_ended
            }
        return self._records

    def record(
        self, cell: str, source_hash: str, incarnation: KernelIncarnation, *, ok: bool
    ) -> None:
        """Record a run of a cell, unless its kernel has ended or was restarted since."""
        if not incarnation.has_ended:
            self._records[cell] = RunRecord(source_hash, next(self._sequence), incarnation, ok)

    def record_foreign(self, incarnation: KernelIncarnation, snapshot: Snapshot, code: str) -> None:
        """Record code that another client ran, if it is the source of exactly one cell."""
        matching = [cell for cell in snapshot.cells if cell.type == "code" and cell.source == code]
        if len(matching) == 1:
            self.record(matching[0].key, matching[0].hash, incarnation, ok=True)


def states(
    snapshot: Snapshot,
    records: Mapping[str, RunRecord],
    running: Collection[str] = (),
    *,
    cells: Iterable[Cell] | None = None,
) -> dict[str, CellState]:
    """Return the states of code cells by key.

    Args:
        snapshot: The notebook.
        records: The last runs of its cells, by key.
        running: The keys of queued and running cells.
        cells: The cells; None for all. Other cells are examined only if one of these may be fresh.
    """
    selected = [
        cell for cell in (snapshot.cells if cells is None else cells) if cell.type == "code"
    ]
    if not records and not running:
        return {cell.key: "never" for cell in selected}
    result: dict[str, CellState] = {
        cell.key: _own_state(cell, records.get(cell.key), running) for cell in selected
    }
    fresh = [snapshot.index(cell) for cell in selected if result[cell.key] == "fresh"]
    if fresh and snapshot.language in ("", "python"):
        # Cells below the last fresh one cannot make it stale.
        stale = _stale(snapshot.cells[: max(fresh) + 1], records, running)
        result |= dict.fromkeys(stale & result.keys(), "stale")  # pyrefly: ignore[bad-assignment]
    return result


def _stale(
    cells: Sequence[Cell], records: Mapping[str, RunRecord], running: Collection[str]
) -> set[str]:
    """Return the keys of cells that are fresh by themselves but depend on an edited or later run cell."""
    outdated: set[str] = set()
    stale: set[str] = set()
    last_definer: dict[str, str] = {}
    for cell in cells:
        names = cell.names if cell.type == "code" else None
        if names is None:
            continue
        state = _own_state(cell, records.get(cell.key), running)
        if state == "fresh":
            ran = records[cell.key].sequence
            definers = {last_definer[name] for name in names.uses if name in last_definer}
            if any(each in outdated or _ran_after(ran, records.get(each)) for each in definers):
                stale.add(cell.key)
        if state == "edited" or cell.key in stale:
            outdated.add(cell.key)
        last_definer |= dict.fromkeys(names.defines, cell.key)
    return stale


def _ran_after(sequence: int, record: RunRecord | None) -> bool:
    return record is not None and record.sequence > sequence


def _own_state(cell: Cell, record: RunRecord | None, running: Collection[str]) -> CellState:
    if cell.key in running:
        return "running"
    if record is None:
        return "never"
    if record.source_hash != cell.hash:
        return "edited"
    return "fresh" if record.ok else "error"
