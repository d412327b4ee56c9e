"""Eight clients that insert cells in one notebook of 500 cells at the same time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from measure import Bench, Row, bench, main

CLIENTS = 8
GOAL = 100


async def measure(folder: Path, limited: Callable[[int], int]) -> AsyncGenerator[Row]:
    """Measure the insertions a second of one client and of eight."""
    async with bench(folder) as here:
        for open_in in ("a file", "a page"):
            name = f"{open_in[2:]}.ipynb"
            await here.notebook(name, 500, open_in=open_in)
            await _rate(here, name, 1, 5)
            alone = await _rate(here, name, 1, limited(40))
            together = await _rate(here, name, CLIENTS, limited(15))
            work = f"insert_cell by {CLIENTS} clients in {open_in} (floor: one client)"
            goal = f"at least {GOAL} a second"
            yield Row(work, round(together, 1), "a second", round(alone, 1), goal, together >= GOAL)


async def _rate(here: Bench, notebook: str, clients: int, each: int) -> float:
    """Return the insertions a second of so many clients, each with so many calls."""
    url = f"{here.server.url}api/tk-ai/tools/insert_cell"

    async def insert(client: int) -> None:
        for number in range(each):
            body = {"notebook": notebook, "source": f"# {client} {number}"}
            answer = await here.http.post(f"{url}?caller=c{client}", json=body)
            answer.raise_for_status()

    began = time.perf_counter()
    await asyncio.gather(*(insert(client) for client in range(clients)))
    return clients * each / (time.perf_counter() - began)


if __name__ == "__main__":
    main(measure, __doc__)
