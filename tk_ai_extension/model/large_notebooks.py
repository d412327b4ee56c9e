"""Work that goes through all cells of a notebook: off the event loop if they are many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from tk_ai_extension.model.cells import Snapshot

T = TypeVar("T")

MANY = 2_000
"""Cells that are gone through on the event loop, which takes about 10 ms; more are in a thread."""


async def run_off_loop_if_large(cells: int, work: Callable[[], T]) -> T:
    """Return what ``work``, which goes through so many cells, returns."""
    return work() if cells <= MANY else await asyncio.to_thread(work)


async def prepared(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with what it derives from all of its cells at hand, if they are many."""
    if len(snapshot.cells) > MANY and "short_keys" not in vars(snapshot):
        await asyncio.to_thread(lambda: (snapshot.by_key, snapshot.revision, snapshot.short_keys))
    return snapshot
