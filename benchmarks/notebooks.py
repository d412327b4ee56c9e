"""Reading and changing notebooks of many cells and many bytes, beside `json.load` of the file."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contents import cell_id, write_large
from family import Options, main
from harness import BenchmarkHarness, start_harness
from measure import Heartbeat, Row, Samples, at_most, interleaved, seconds, timed

MB = 1_000_000
SIZES = tuple((cells, size) for size in (1 * MB, 100 * MB) for cells in (10, 500, 5_000))
CACHED = 20
COLD = {1 * MB: 7, 100 * MB: 3}
SETTLED = 0.1
"""Seconds after which a file that was changed is not read once more to be sure of it."""
EDITS = {1 * MB: 7, 100 * MB: 3}


async def measure(options: Options) -> AsyncGenerator[Row]:
    """Each size, then how long the loop is held."""
    reads: dict[tuple[int, int], tuple[Samples, Samples]] = {}
    async with start_harness(options.new_folder("root")) as here:
        for cells, size in SIZES:
            path = write_large(here.root / f"{cells}-{size // MB}.ipynb", cells, size)
            case = Case(here, path, cells, f"{cells:,} cells, {size // MB} MB")
            for row in await case.cold(options.count(COLD[size])):
                yield row
            reads[cells, size] = await case.cached(options.count(CACHED))
            yield await case.edit(options.count(EDITS[size]))
            path.unlink()
        for row in cached_rows(reads):
            yield row
        yield await stall(here, 10 * MB, 50)
        yield await stall(here, 100 * MB, 200)


class Case:
    """One size of a notebook."""

    def __init__(self, here: BenchmarkHarness, path: Path, cells: int, name: str) -> None:
        self._here = here
        self._path = path
        self._cells = cells
        self._name = name

    async def load(self) -> None:
        """The floor."""
        with self._path.open(encoding="utf-8") as file:
            json.load(file)

    async def cold(self, count: int) -> list[Row]:
        """The first look at a notebook that nobody has read."""
        with other_names(self._path, 2 * (count + 1)) as names:
            load, listed, read = await interleaved(
                count,
                self.load,
                lambda: self._here.call("list_cells", notebook=next(names), limit=10),
                lambda: self._here.call("read_cell", notebook=next(names), cell=self._middle),
                warm_ups=1,
            )
        return [
            timed(f"list_cells, cold, {self._name}", listed, load, times=2),
            timed(f"read_cell, cold, {self._name}", read, load, times=2),
        ]

    async def cached(self, count: int) -> tuple[Samples, Samples]:
        """Later looks: ten lines of the list, and a cell."""
        name = self._path.name
        listed, read = await interleaved(
            count,
            lambda: self._here.call("list_cells", notebook=name, limit=10),
            lambda: self._here.call("read_cell", notebook=name, cell=self._middle, outputs=False),
        )
        return listed, read

    async def edit(self, count: int) -> Row:
        """A change of one cell, until it is on disk."""
        await self._here.call("read_cell", notebook=self._path.name, cell=self._middle)
        numbers = iter(range(1_000))

        async def edit() -> None:
            source = f"value = {next(numbers)}"
            await self._here.call(
                "overwrite_cell", notebook=self._path.name, cell=self._middle, source=source
            )

        load, edited = await interleaved(count, self.load, edit, warm_ups=1)
        return timed(f"change of 1 cell, {self._name}", edited, load)

    @property
    def _middle(self) -> str:
        return cell_id(self._cells // 2)


@contextmanager
def other_names(path: Path, count: int) -> Generator[Iterator[str]]:
    """Names of a notebook under which nobody has read it."""
    others = [path.with_name(f"{number}-{path.name}") for number in range(count)]
    for other in others:
        # A link takes no time, and counts as a change of the file: all are made before the first look.
        other.hardlink_to(path)
    time.sleep(SETTLED)
    yield iter([other.name for other in others])
    for other in others:
        other.unlink()


def cached_rows(reads: dict[tuple[int, int], tuple[Samples, Samples]]) -> list[Row]:
    """The cached reads of all sizes, beside those of the smallest notebook."""
    smallest = reads[SIZES[0]]
    return [
        timed(
            f"{tool}, cached, {cells:,} cells, {size // MB} MB (floor: 10 cells, 1 MB)",
            samples,
            floor,
            times=2,
        )
        for (cells, size), both in reads.items()
        if (cells, size) != SIZES[0]
        for tool, samples, floor in zip(("list_cells", "read_cell"), both, smallest, strict=True)
    ]


async def stall(here: BenchmarkHarness, size: int, bound: float) -> Row:
    """How long the loop is held by each kind of work on a notebook of 500 cells."""
    path = write_large(here.root / f"stall-{size}.ipynb", 500, size)
    middle = cell_id(250)
    worst: dict[str, float] = {}
    cpu: dict[str, float] = {}
    took: dict[str, float] = {}

    async def watch(what: str, tool: str, **arguments: Any) -> None:
        with Heartbeat() as beat:
            took[what] = await seconds(lambda: here.call(tool, notebook=path.name, **arguments))
        worst[what], cpu[what] = beat.stall * 1_000, beat.stall_cpu * 1_000

    await watch("list_cells, cold", "list_cells", limit=10)
    await watch("read_cell", "read_cell", cell=middle)
    await watch("read_notebook", "read_notebook", view="reading")
    await watch("overwrite_cell", "overwrite_cell", cell=middle, source="value = 0")
    await watch("list_cells after it", "list_cells", limit=10)
    path.unlink()
    name = f"longest loop stall, 500 cells, {size // MB} MB"
    return at_most(
        f"{name}: {max(worst, key=worst.__getitem__)}",
        max(worst.values()),
        bound,
        "ms",
        stalls_ms={what: round(value, 1) for what, value in worst.items()},
        cpu_ms={what: round(value, 1) for what, value in cpu.items()},
        seconds={what: round(value, 3) for what, value in took.items()},
    )


if __name__ == "__main__":
    main(measure, __doc__)
