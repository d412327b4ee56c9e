"""Displays of cells that have ended, which later code in the same kernel may update."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from tk_ai_extension.model.background_tasks import BackgroundTasks
from tk_ai_extension.model.cell_operations import SetOutputs
from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import Conflict, ToolError
from tk_ai_extension.model.executions import Execution
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.notebooks.notebook import Notebook
from tk_ai_extension.workspace.runs import OpenDocument

logger = logging.getLogger(__name__)

MAX_CELLS = 1_000
"""Maximum cells with displays that are tracked for one kernel; the least recently run is evicted first."""

UPDATE_INTERVAL = 0.5
"""Minimum seconds between two writes of updated displays."""
UPDATE_SHARE = 10
"""After a slow write, the next one is delayed by this multiple of its duration."""

_DISPLAYS = ("display_data", "execute_result")


class _Cell(NamedTuple):
    """A cell with displays, identified by its unique id, else by its source, as others may move it."""

    notebook: Notebook
    id: str | None
    hash: str

    def find(self, snapshot: Snapshot) -> Cell | None:
        """Return the cell in its notebook; None if it is gone, was changed, or may be another one."""
        if self.id is not None:
            found = snapshot.get(self.id)
            return found if found is not None and found.id == self.id else None
        alike = [each for each in snapshot.cells if each.is_numbered and each.hash == self.hash]
        return alike[0] if len(alike) == 1 else None


class _Displays(NamedTuple):
    """The displays of a cell, and its state after its run.

    Attributes:
        places: The indices of its outputs by display id.
        total: The number of its outputs.
        execution_count: Its execution count.
        source: The hash of its source.
    """

    places: Mapping[str, Sequence[int]]
    total: int
    execution_count: int | None
    source: str


@dataclass(eq=False, slots=True)
class _Kernel:
    """The cells with displays that a kernel ran.

    Attributes:
        cells: The displays of each cell, the least recently run first.
        updating: Serialises updates: two at once would conflict, and the newer one could be lost.
    """

    cells: OrderedDict[_Cell, _Displays] = field(default_factory=OrderedDict)
    updating: asyncio.Lock = field(default_factory=asyncio.Lock)


class DisplayRegistry:
    """Tracks the displays of cells in each kernel, by display id."""

    def __init__(self) -> None:
        self.kernels: dict[str, _Kernel] = {}
        """The kernels that ran a cell with displays."""

    def ran(
        self,
        kernel_id: str,
        notebook: Notebook,
        cell: Cell,
        execution: Execution,
    ) -> None:
        """Record the displays of a cell that has ended, replacing those of its previous run.

        Args:
            kernel_id: The kernel that ran it.
            notebook: Its notebook.
            cell: The cell, as it was when it ran.
            execution: The result of its run.
        """
        known = self.kernels.setdefault(kernel_id, _Kernel()).cells
        by_id = not cell.is_numbered
        ran = _Cell(notebook, cell.id if by_id else None, "" if by_id else cell.hash)
        known.pop(ran, None)
        if execution.displays:
            known[ran] = _Displays(
                execution.displays,
                len(execution.outputs),
                execution.execution_count,
                cell.hash,
            )
        while len(known) > MAX_CELLS:
            known.popitem(last=False)

    def has(self, kernel_id: str, display_id: str) -> bool:
        """Return whether a cell of this kernel has a display with this id."""
        kernel = self.kernels.get(kernel_id)
        return kernel is not None and any(
            display_id in each.places for each in kernel.cells.values()
        )

    def forget_kernel(self, kernel_id: str) -> None:
        """Forget the displays of a kernel that has ended or was restarted."""
        self.kernels.pop(kernel_id, None)

    async def update(
        self, kernel_id: str, outputs: Mapping[str, Json], open_document: OpenDocument
    ) -> None:
        """Replace displays in all notebooks, after earlier updates of this kernel.

        A cell is skipped if it has changed since its run: it was edited, its outputs were cleared, or
        it was run elsewhere.

        Args:
            kernel_id: The kernel of the displays.
            outputs: The new outputs by display id.
            open_document: Opens a notebook.

        Raises:
            ToolError: A notebook cannot be written.
        """
        kernel = self.kernels.get(kernel_id)
        if kernel is None:
            return
        async with kernel.updating:
            for cell, displays in list(kernel.cells.items()):
                new = {
                    at: output
                    for display_id, output in outputs.items()
                    for at in displays.places.get(display_id, ())
                }
                if new and not cell.notebook.is_deleted:
                    document = await open_document(cell.notebook.path)
                    await _replace(document, cell, displays, new)


async def _replace(
    document: NotebookDocument, ran: _Cell, displays: _Displays, new: Mapping[int, Json]
) -> None:
    # Flush first: outputs that are not saved yet would overwrite the change.
    await document.flush()
    cell = ran.find(await document.read())
    if cell is None or cell.type != "code":
        return
    before, count = await document.outputs(cell.key), cell.execution_count
    left = (displays.source, displays.execution_count, displays.total)
    if (cell.hash, count, len(before)) != left or any(
        before[at].get("output_type") not in _DISPLAYS for at in new
    ):
        return
    outputs = list(before)
    for at, output in new.items():
        outputs[at] = {**outputs[at], "data": output["data"], "metadata": output["metadata"]}
    replacement = SetOutputs(
        cell.key, tuple(outputs), count, expect=cell.hash, replaces=(before, count)
    )
    with suppress(Conflict):  # The cell has since changed.
        await document.apply([replacement])


class DisplayUpdates:
    """Throttles updates of displays in other cells, by one run or by a person's code in a kernel.

    The first update is written at once, then the newest of each display at most every
    `UPDATE_INTERVAL` seconds and at the end. A progress bar is updated more often than a notebook
    can be written.

    Args:
        registry: Tracks the displays.
        kernel_id: The kernel that runs the code.
        open_document: Opens a notebook; None if there are no notebooks.
    """

    def __init__(
        self, registry: DisplayRegistry, kernel_id: str, open_document: OpenDocument | None
    ) -> None:
        self._registry = registry
        self._kernel_id = kernel_id
        self._open = open_document
        self._pending: dict[str, Json] = {}
        self._ending = asyncio.Event()
        self._tasks = BackgroundTasks(logger)
        self._writing: asyncio.Task[None] | None = None

    def add(self, data: Any) -> None:
        """Add an update, given as the data of an `OTHER_DISPLAY_MIME` event."""
        update = cast("Json", data)
        if self._open is None or not self._registry.has(self._kernel_id, update["display_id"]):
            return
        self._pending[update["display_id"]] = update["output"]
        if self._writing is None or self._writing.done():
            self._writing = self._tasks.spawn(self._write(), "Updating the displays of other cells")

    async def finish(self) -> None:
        """Write pending updates. Call it after the last `add`."""
        self._ending.set()
        if self._writing is not None:
            await asyncio.wait({self._writing})

    async def _write(self) -> None:
        while self._pending and self._open is not None:
            outputs, self._pending = self._pending, {}
            began = time.monotonic()
            try:
                await self._registry.update(self._kernel_id, outputs, self._open)
            except ToolError as error:
                logger.warning("Displays of other cells could not be updated: %s", error.message)
            pause = max(UPDATE_INTERVAL, UPDATE_SHARE * (time.monotonic() - began))
            try:
                async with asyncio.timeout(pause):
                    await self._ending.wait()
            except TimeoutError:
                continue
