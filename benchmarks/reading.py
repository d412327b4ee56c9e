"""What agents ask again and again of a notebook of many cells: its views, its list, its kernel, the tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

from contents import write, write_large
from family import Options, main
from harness import start_harness
from latency import served
from measure import Row, at_most, interleaved, timed

CELLS = 500
MANY = 2_000
READING = 25
"""Milliseconds that the reading view of `CELLS` cells may take."""
SAMPLES = 50


async def measure(options: Options) -> AsyncGenerator[Row]:
    """In the server's own process, then by a client of MCP."""
    root = options.new_folder("root")
    count = options.count(SAMPLES)
    for row in await views(root, count):
        yield row
    folder = options.new_folder("http")
    async with served(folder, root, "direct") as there:
        kernels, tools = await interleaved(
            count,
            lambda: there.mcp("list_kernels"),
            lambda: there.client.list_tools(cache_mode="bypass"),
        )
    yield timed("tools/list, MCP over HTTP (floor: list_kernels)", tools, kernels)


async def views(root: Path, count: int) -> list[Row]:
    """All of a notebook, read before: nothing of it is read from disk again."""
    large = write_large(root / "large.ipynb", CELLS, 1_000_000).name
    many = write(root / "many.ipynb", ["value = 0"] * MANY).name
    async with start_harness(root) as here:
        editable, reading, some, all_of_many = await interleaved(
            count,
            lambda: here.call("read_notebook", notebook=large, view="editable"),
            lambda: here.call("read_notebook", notebook=large, view="reading"),
            lambda: here.call("list_cells", notebook=many, limit=10),
            lambda: here.call("list_cells", notebook=many, limit=MANY),
        )
        (used,) = await interleaved(count, lambda: here.call("use_notebook", notebook=large))
    beside = timed(
        f"read_notebook, reading, {CELLS} cells (floor: editable)", reading, editable, times=3
    )
    return [
        beside,
        at_most(f"read_notebook, reading, {CELLS} cells", beside.value, READING, "ms"),
        timed(f"list_cells, limit {MANY:,} (floor: limit 10)", all_of_many, some),
        timed(f"use_notebook, in use already, {CELLS} cells", used),
    ]


if __name__ == "__main__":
    main(measure, __doc__)
