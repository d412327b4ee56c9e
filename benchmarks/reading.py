"""Frequent reads of agents, compared with reading the file over REST, and their cost for a model."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from measure import PROJECT, Row, at_most, bench, in_turns, main, timed

FIFTY = PROJECT / "tests" / "data" / "fifty_cells.ipynb"


async def measure(folder: Path, limited: Callable[[int], int]) -> AsyncGenerator[Row]:
    """Measure views of 500 cells, and the characters of the tools and of 50 cells."""
    async with bench(folder) as here:
        await here.notebook("many.ipynb", 500)
        path = f"{here.server.url}api/contents/many.ipynb"
        floor, view, cells = await in_turns(
            limited(20),
            lambda: here.http.get(path),
            here.calls("read_notebook", view="reading"),
            here.calls("list_cells"),
        )
        yield timed("read_notebook of 500 cells (floor: the file by REST)", view, floor, times=0.2)
        yield timed("list_cells of 500 cells (floor: the file by REST)", cells, floor, times=0.4)
        tools = (await here.client.list_tools()).tools
        wire = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
        paid = [{key: each[key] for key in ("name", "description", "inputSchema")} for each in wire]
        yield at_most("tools/list", len(_compact(wire)), 25_000, "characters")
        yield at_most("the tools, as a model gets them", len(_compact(paid)), 16_000, "characters")
        shutil.copy(FIFTY, here.root)
        read = await here.call("read_notebook", notebook=FIFTY.name, view="reading")
        yield at_most("read_notebook of 50 cells", len(read["text"]), 9_600, "characters")


def _compact(data: object) -> str:
    return json.dumps(data, separators=(",", ":"))


if __name__ == "__main__":
    main(measure, __doc__)
