"""What a model pays for: the schemas of the tools, and a notebook of 50 cells with its outputs."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator

from family import PROJECT, Options, main
from harness import start_harness
from measure import Row, at_most

NOTEBOOK = PROJECT / "tests" / "data" / "fifty_cells.ipynb"


async def measure(options: Options) -> AsyncGenerator[Row]:
    """Both, in characters."""
    root = options.new_folder("sizes")
    shutil.copy(NOTEBOOK, root)
    async with start_harness(root) as here:
        read = await here.call("read_notebook", notebook=NOTEBOOK.name, view="reading")
        listed = [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
            for tool in here.registry
        ]
    raw = NOTEBOOK.read_text(encoding="utf-8")
    schemas = sum(len(json.dumps(each, separators=(",", ":"))) for each in listed)
    yield at_most(
        "a notebook of 50 cells in the reading view",
        len(read["text"]),
        12_499,
        "characters",
        cells=read["total_cells"],
        json_characters=len(raw),
    )
    yield at_most(
        "names, descriptions and schemas of the default tools",
        schemas,
        19_999,
        "characters",
        tools=len(listed),
    )


if __name__ == "__main__":
    main(measure, __doc__)
