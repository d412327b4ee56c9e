"""`1+1` over MCP, compared with a kernel client that stays open."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from measure import Row, bench, in_turns, main, timed

SAMPLES = 30


async def measure(folder: Path, limited: Callable[[int], int]) -> AsyncGenerator[Row]:
    """Measure `execute_ipython`, and `execute_cell` of small and large notebooks."""
    async with bench(folder) as here:
        for open_in in ("a file", "a page"):
            for cells in (10, 500):
                name = f"{open_in[2:]}{cells}.ipynb"
                used = await here.notebook(name, cells, open_in=open_in)
                async with here.kernel_client(used["kernel_id"]) as client:
                    floor, scratch, cell = await in_turns(
                        limited(SAMPLES),
                        client.execute,
                        here.calls("execute_ipython", code="1+1"),
                        here.calls("execute_cell", cell=f"cell{cells // 2}"),
                        between=client.drain,
                    )
                if (open_in, cells) == ("a file", 10):
                    yield timed("execute_ipython", scratch, floor, above=4)
                yield timed(f"execute_cell of {cells} in {open_in}", cell, floor, above=5)


if __name__ == "__main__":
    main(measure, __doc__)
