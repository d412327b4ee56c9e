"""Notebooks of trivial cells, compared with nbclient and papermill on the same notebooks."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path

import nbformat
from measure import Row, bench, in_turns, main, run, skipped, timed, write
from nbclient import NotebookClient

SAMPLES = 5


async def measure(folder: Path, limited: Callable[[int], int]) -> AsyncGenerator[Row]:
    """Measure `execute_cells` of 100 cells, and whole commands on 20."""
    sources = [f"x = {n}\nx" for n in range(100)]
    async with bench(folder) as here:
        path = write(here.root / "ours.ipynb", sources)
        await here.call("use_notebook", notebook=path.name)
        notebook = nbformat.read(write(folder / "theirs.ipynb", sources), as_version=4)
        client = NotebookClient(notebook, kernel_name="python3")
        async with client.async_setup_kernel():

            async def by_nbclient() -> None:
                for index, cell in enumerate(notebook.cells):
                    await client.async_execute_cell(cell, index)
                nbformat.write(notebook, folder / "theirs.ipynb")

            ours = here.calls("execute_cells", which="all", wait=120)
            floor, tool = await in_turns(limited(SAMPLES), by_nbclient, ours, warm_ups=1)
        yield timed(
            "execute_cells of 100 cells (floor: nbclient)", tool, floor, times=1.1, unit="s"
        )
    work = "nb run of 20 cells, the whole command (floor: papermill)"
    if importlib.util.find_spec("papermill") is None:
        yield skipped(work, "papermill is not installed")
        return
    project = folder / "project"
    project.mkdir()
    write(project / "cells.ipynb", sources[:20])
    programs = Path(sys.executable).parent
    papermill = (sys.executable, "-m", "papermill", "cells.ipynb", "out.ipynb")
    nb = (programs / "nb", "run", "cells.ipynb", "--output", "ours.ipynb")
    floor, command = await in_turns(
        limited(SAMPLES), partial(run, project, *papermill), partial(run, project, *nb), warm_ups=1
    )
    await run(project, programs / "nb", "shutdown")
    yield timed(work, command, floor, times=1.0, unit="s")
    shutil.rmtree(project)


if __name__ == "__main__":
    main(measure, __doc__)
