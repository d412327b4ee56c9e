"""A notebook of 100 trivial cells, beside nbclient on the same notebook."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator

import nbformat
from contents import write
from family import Options, main
from harness import BenchmarkHarness, start_harness
from measure import Row, timed
from nbclient import NotebookClient

CELLS = 100
SAMPLES = 5
SOURCES = [f"x = {n}\nx" for n in range(CELLS)]


async def measure(options: Options) -> AsyncGenerator[Row]:
    """With both executors: the cells alone, and all from a kernel's start to the saved file."""
    for executor in ("direct", "stack"):
        root = options.new_folder(executor)
        async with start_harness(root, executor) as here:
            theirs: list[tuple[float, float]] = []
            ours: list[tuple[float, float]] = []
            for number in range(options.count(SAMPLES) + 1):
                path = write(root / f"theirs-{number}.ipynb", SOURCES)
                theirs.append(await by_nbclient(str(path)))
                write(root / f"ours-{number}.ipynb", SOURCES)
                ours.append(await by_tool(here, f"ours-{number}.ipynb"))
        for at, what in enumerate(("with the kernel's start", "in a running kernel")):
            yield timed(
                f"{CELLS} trivial cells {what}, {executor} (floor: nbclient)",
                [pair[at] for pair in ours[1:]],
                [pair[at] for pair in theirs[1:]],
                times=1.1,
                unit="s",
            )


async def by_nbclient(path: str) -> tuple[float, float]:
    """Seconds in all, and of the cells alone with saving."""
    began = time.perf_counter()
    notebook = nbformat.read(path, as_version=4)
    # Its kernel keeps its history in a file, as a server's does; by default it is in memory.
    client = NotebookClient(notebook, kernel_name="python3", ipython_hist_file="")
    async with client.async_setup_kernel():
        running = time.perf_counter()
        for index, cell in enumerate(notebook.cells):
            await client.async_execute_cell(cell, index)
        nbformat.write(notebook, path)
        ended = time.perf_counter()
    return ended - began, ended - running


async def by_tool(here: BenchmarkHarness, notebook: str) -> tuple[float, float]:
    """The same by use_notebook and execute_cells."""
    began = time.perf_counter()
    used = await here.call("use_notebook", notebook=notebook)
    running = time.perf_counter()
    ran = await here.call("execute_cells", which="all", wait=120)
    ended = time.perf_counter()
    assert len(ran["runs"]) == CELLS
    await here.workspace.kernels.shutdown(used["kernel_id"])
    return ended - began, ended - running


if __name__ == "__main__":
    main(measure, __doc__)
