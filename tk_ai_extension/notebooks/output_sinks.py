"""Sinks of outputs: where the outputs of a running cell go."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.outputs import OutputChange
from tk_ai_extension.notebooks.autosave import OutputSaver
from tk_ai_extension.notebooks.running_outputs import RunningOutputs

_log = logging.getLogger(__name__)

Find = Callable[[Snapshot], Cell | None]
"""Finds the running cell in a notebook; returns None if it is gone."""


class OutputSink(ABC):
    """Receives the outputs of one running cell, where its notebook is now.

    Attributes:
        share: A slow push delays the next one by this multiple of its duration.
    """

    share: ClassVar[float] = 1.0

    def accept(self, run: RunningOutputs, changes: Sequence[OutputChange]) -> bool:  # noqa: ARG002
        """Take changes at once if that is cheap; return False if they must be pushed."""
        return False

    @abstractmethod
    async def begin(self, run: RunningOutputs) -> None:
        """Clear the cell's outputs and count, and mark it as running.

        Raises:
            TabGone, ToolError.
        """

    @abstractmethod
    async def push_outputs(self, run: RunningOutputs) -> None:
        """Push `RunningOutputs.pending`, or all outputs if this sink lacks the earlier ones.

        Raises:
            TabGone, ToolError.
        """

    @abstractmethod
    async def end(self, run: RunningOutputs, *, save: bool) -> None:
        """Set the count, mark the cell as idle, and save; a stored notebook is saved on return.

        Raises:
            TabGone, ToolError.
        """

    async def release(self, run: RunningOutputs, *, done: bool) -> None:  # noqa: B027 - a tab holds nothing
        """Release resources; unless ``done``, another sink takes the outputs over."""


class StoredOutputSink(OutputSink):
    """The sink of a stored notebook: outputs are read from memory, autosaved, and saved at the end.

    Args:
        saver: The notebook's.
    """

    def __init__(self, saver: OutputSaver) -> None:
        self._saver = saver
        saver.acquire()

    def accept(self, run: RunningOutputs, changes: Sequence[OutputChange]) -> bool:
        """See `OutputSink`."""
        run.write(changes)
        self._saver.save_soon()
        return True

    async def begin(self, run: RunningOutputs) -> None:
        """See `OutputSink`."""
        runs = self._saver.runs
        # If a cell runs twice at once, the later run wins.
        runs[:] = [other for other in runs if not other.is_same_cell(run)]
        runs.append(run)

    async def push_outputs(self, run: RunningOutputs) -> None:
        """See `OutputSink`."""
        run.commit_pending()
        self._saver.save_soon()

    async def end(self, run: RunningOutputs, *, save: bool) -> None:
        """See `OutputSink`."""
        if run not in self._saver.runs:
            return
        if save:
            await self._saver.save(run)
        else:
            self._saver.save_soon()

    async def release(self, run: RunningOutputs, *, done: bool) -> None:
        """See `OutputSink`."""
        if not done and run in self._saver.runs:
            self._saver.runs.remove(run)
        self._saver.release()


@dataclass(frozen=True, slots=True)
class RunningCell:
    """A running cell, located where its notebook is.

    Attributes:
        cell: The cell; None if it is gone.
        count: The number of the notebook's cells.
        sink: Receives its outputs.
    """

    cell: Cell | None
    count: int
    sink: OutputSink
