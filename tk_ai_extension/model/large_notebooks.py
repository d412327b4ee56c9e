"""Process the cells of large notebooks in a thread instead of on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from tk_ai_extension.model.cells import Snapshot

T = TypeVar("T")

MANY = 2_000
"""Maximum cells that are processed on the event loop, which takes about 10 ms."""


async def run_off_loop_if_large(cells: int, work: Callable[[], T]) -> T:
    """Return the result of ``work``, which processes this number of cells; run it in a thread if large."""
    return work() if cells <= MANY else await asyncio.to_thread(work)


async def prepared(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot; if it is large, compute its cached properties in a thread first."""
    if len(snapshot.cells) > MANY and "revision" not in vars(snapshot):
        await asyncio.to_thread(lambda: (snapshot.by_key, snapshot.revision))
    return snapshot
