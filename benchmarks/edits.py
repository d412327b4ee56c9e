"""An edit and an insertion in large notebooks, compared with a notebook of ten cells."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from itertools import count
from pathlib import Path

from measure import Bench, Row, Work, bench, in_turns, main, timed

SAMPLES = 15
SIZES = {500: 1.2, 5_000: 2.0, 20_000: None}
"""Number of cells, and the allowed time of an edit as a multiple of one in ten cells."""


async def measure(folder: Path, limited: Callable[[int], int]) -> AsyncGenerator[Row]:
    """Measure both in a file and in an open page, and twenty insertions that run."""
    async with bench(folder) as here:
        for open_in in ("a file", "a page"):
            for cells, times in SIZES.items():
                if open_in == "a page" and cells > 5_000:
                    continue
                small = await _edited(here, 10, open_in, f"beside{cells}")
                large = await _edited(here, cells, open_in, "")
                taken = await in_turns(limited(SAMPLES), *small, *large)
                for at, what in enumerate(("overwrite_cell", "insert_cell")):
                    work = f"{what} in {cells:,} cells in {open_in} (floor: in 10)"
                    yield timed(work, taken[2 + at], taken[at], times=times)
        for open_in in ("a file", "a page"):
            name = f"runs-{open_in[2:]}.ipynb"
            await here.notebook(name, 500, open_in=open_in)
            insert = here.calls("insert_and_execute_cell", source="1+1", notebook=name)

            async def twenty(insert: Work = insert) -> None:
                for _ in range(20):
                    await insert()

            (samples,) = await in_turns(limited(5), twenty, warm_ups=1)
            yield timed(f"20 times insert_and_execute_cell in 500 cells in {open_in}", samples)


async def _edited(here: Bench, cells: int, open_in: str, suffix: str) -> tuple[Work, Work]:
    """Return an edit that changes something each time, and an insertion."""
    name = f"{open_in[2:]}{cells}{suffix}.ipynb"
    await here.notebook(name, cells, open_in=open_in)
    cell, numbers = f"cell{cells // 2}", count()
    await here.call("read_cell", notebook=name, cell=cell)

    async def overwrite() -> None:
        source = f"1 + {next(numbers)}"
        await here.call("overwrite_cell", notebook=name, cell=cell, source=source)

    return overwrite, here.calls("insert_cell", notebook=name, source="1+1")


if __name__ == "__main__":
    main(measure, __doc__)
