"""Between an execution and its cell: outputs in batches, about twenty a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.outputs import OutputChange
from tk_ai_extension.notebooks.base import OutputWriter

logger = logging.getLogger(__name__)

INTERVAL = 0.05
"""Seconds between two batches."""


class OutputPump:
    """Takes changes at any rate and writes them to a cell in batches, in order.

    A cell whose notebook cannot be written any more runs on; `finish` says what was wrong.
    """

    def __init__(self, writer: OutputWriter) -> None:
        self._writer = writer
        self._waiting: list[OutputChange] = []
        self._arrived = asyncio.Event()
        self._closing = asyncio.Event()
        self._error: ToolError | None = None
        self._task: asyncio.Task[None] | None = None

    def put(self, changes: Sequence[OutputChange]) -> None:
        """Queues changes; the first batch is written at once."""
        self._waiting += changes
        self._arrived.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def finish(self, execution_count: int | None, *, save: bool = True) -> str | None:
        """Writes what waits, ends the cell, and returns why its outputs were not saved, if so.

        See `OutputWriter.finish` for ``save``.
        """
        self._closing.set()
        self._arrived.set()
        if self._task is not None:
            await self._task
        await self._flush()
        try:
            await self._writer.finish(execution_count, save=save)
        except ToolError as error:
            self._error = self._error or error
        return self._error.message if self._error else None

    async def _run(self) -> None:
        while not self._closing.is_set():
            await self._arrived.wait()
            self._arrived.clear()
            await self._flush()
            try:
                await asyncio.wait_for(self._closing.wait(), INTERVAL)
            except TimeoutError:
                continue

    async def _flush(self) -> None:
        changes, self._waiting = self._waiting, []
        if not changes:
            return
        try:
            await self._writer.write(changes)
        except ToolError as error:
            logger.warning("Outputs could not be written to the notebook: %s", error.message)
            self._error = error
