"""What doubling the notebook, the outputs or the callers costs, with a plot of each."""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
from contents import cell_id, printing, write, write_large
from family import Options, main
from harness import BenchmarkHarness, start_harness
from measure import WARM_UPS, Row, seconds

from tk_ai_extension.model.callers import Caller

mpl.use("Agg")
from matplotlib import pyplot as plt

SAMPLES = 3
LOOKS = 5
"""Samples of what takes milliseconds, which the machine's other work blurs most."""
CELLS = (500, 1_000, 2_000, 4_000, 8_000)
LINES = (1_250, 2_500, 5_000, 10_000, 20_000)
CALLERS = (1, 2, 4, 8, 16, 32)
CALLS = 10
GOAL = "at most 2 times (± 5 %)"
TOLERANCE = 1.05
"""What grows in proportion is measured as a little more or less."""
CELL_SIZE = 2_000
"""Bytes of a cell with its outputs."""

Grown = Callable[[int], Awaitable[float]]


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds by size.

    Attributes:
        work: What was done.
        sizes: Each the double of the one before.
        seconds: Medians.
    """

    work: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def factor(self) -> float:
        """What a doubling costs where the work is large: the slope of its upper half, by least squares."""
        upper = [
            (math.log2(size), math.log2(taken))
            for size, taken in zip(self.sizes, self.seconds, strict=True)
        ][-3:]
        middle = statistics.fmean(x for x, _ in upper)
        slope = sum((x - middle) * y for x, y in upper) / sum((x - middle) ** 2 for x, _ in upper)
        return 2**slope


async def measure(options: Options) -> AsyncGenerator[Row]:
    """Three plots, each with its curves."""
    async with start_harness(options.new_folder("root")) as here:
        for name, axis, sizes, samples, works in (
            (
                "notebook",
                "cells",
                CELLS,
                LOOKS,
                {
                    "first look at a notebook": first_look,
                    "later look at a notebook": later_look,
                    "change of a cell in a notebook": change,
                },
            ),
            ("outputs", "lines of 1,000 characters", LINES, SAMPLES, {"a cell that prints": flood}),
            (
                "callers",
                "callers at once",
                CALLERS,
                SAMPLES,
                {"10 reads by each caller": readers, "10 runs by each caller": runners},
            ),
        ):
            curves = [
                await measured(what, sizes, partial(work, here), options.count(samples))
                for what, work in works.items()
            ]
            plot(options.plots / f"growth-{name}.png", axis, curves)
            for curve in curves:
                yield row(curve)


def row(curve: Curve) -> Row:
    """A line of the table for a curve."""
    points = {
        str(size): round(taken, 4) for size, taken in zip(curve.sizes, curve.seconds, strict=True)
    }
    least, most = curve.sizes[-3], curve.sizes[-1]
    work = f"doubling: {curve.work} ({least:,} to {most:,})"
    return Row(work, curve.factor, "times", None, GOAL, 2 * TOLERANCE, {"seconds": points})


async def measured(work: str, sizes: tuple[int, ...], grown: Grown, count: int) -> Curve:
    """Measures one curve, all sizes in turns."""
    samples: dict[int, list[float]] = {size: [] for size in sizes}
    # Warm up.
    for size in (sizes[0], sizes[-1]):
        await grown(size)
    for _ in range(count):
        for size in sizes:
            samples[size].append(await grown(size))
    return Curve(work, sizes, tuple(statistics.median(samples[size]) for size in sizes))


# -- the work --------------------------------------------------------------------------------------


def notebook(here: BenchmarkHarness, name: str, cells: int) -> Path:
    """A notebook of so many cells."""
    return write_large(here.root / f"{name}.ipynb", cells, cells * CELL_SIZE)


async def first_look(here: BenchmarkHarness, cells: int) -> float:
    """list_cells of a notebook that nobody has read."""
    path = notebook(here, "first", cells)
    taken = await seconds(lambda: here.call("list_cells", notebook=path.name, limit=10))
    path.unlink()
    return taken


async def later_look(here: BenchmarkHarness, cells: int) -> float:
    """The same again."""
    path = notebook(here, "later", cells)
    for _ in range(WARM_UPS):
        await here.call("list_cells", notebook=path.name, limit=10)
    taken = await seconds(lambda: here.call("list_cells", notebook=path.name, limit=10))
    path.unlink()
    return taken


async def change(here: BenchmarkHarness, cells: int) -> float:
    """overwrite_cell in a notebook that was read, until it is on disk."""
    path = notebook(here, "change", cells)
    middle = cell_id(cells // 2)
    await here.call("read_cell", notebook=path.name, cell=middle)
    taken = await seconds(
        lambda: here.call("overwrite_cell", notebook=path.name, cell=middle, source="x = 1")
    )
    path.unlink()
    return taken


async def flood(here: BenchmarkHarness, lines: int) -> float:
    """execute_cell of a cell that prints so many lines."""
    path = here.root / f"flood-{lines}.ipynb"
    if not path.exists():
        write(path, [printing(lines)])
    await here.call("use_notebook", notebook=path.name)
    taken = await seconds(lambda: here.call("execute_cell", cell="0", wait=120))
    await here.call("unuse_notebook", shutdown_kernel=True)
    return taken


async def readers(here: BenchmarkHarness, callers: int) -> float:
    """So many callers at once, each reading a cell of one notebook again and again."""
    path = here.root / "shared.ipynb"
    if not path.exists():
        write_large(path, 500, 1_000_000)

    async def read(number: int) -> None:
        caller = Caller("bench", f"reader-{number}", "mcp")
        for turn in range(CALLS):
            await here.call("read_cell", caller=caller, notebook=path.name, cell=cell_id(turn))

    return await seconds(lambda: all_at_once(callers, read))


async def runners(here: BenchmarkHarness, callers: int) -> float:
    """So many callers at once, each running code in one kernel again and again."""
    path = here.root / "shared.ipynb"

    async def run(number: int) -> None:
        caller = Caller("bench", f"runner-{number}", "mcp")
        for _ in range(CALLS):
            await here.call("execute_ipython", caller=caller, notebook=path.name, code="1+1")

    return await seconds(lambda: all_at_once(callers, run))


async def all_at_once(count: int, work: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    """Does something so many times at once."""
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(work(number))


# -- the plots -------------------------------------------------------------------------------------


def plot(path: Path, axis: str, curves: list[Curve]) -> None:
    """Both axes logarithmic; the dotted lines show what doubling with the size would be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(6.4, 4))
    for curve in curves:
        label = f"{curve.work}: {curve.factor:.2f} times for twice as much"
        (line,) = axes.plot(curve.sizes, [1_000 * s for s in curve.seconds], "o-", label=label)
        linear = [1_000 * curve.seconds[0] * size / curve.sizes[0] for size in curve.sizes]
        axes.plot(curve.sizes, linear, ":", color=line.get_color(), linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(curves[0].sizes, [f"{size:,}" for size in curves[0].sizes])
    axes.minorticks_off()
    axes.set(xlabel=axis, ylabel="milliseconds")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small", frameon=False)
    figure.tight_layout()
    # Without the version of what drew it, a picture changes only with what it shows.
    figure.savefig(path, dpi=120, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    main(measure, __doc__)
