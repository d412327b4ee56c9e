"""A cell counts as read by a list only if its line shows the whole source."""

from __future__ import annotations

import json
from random import Random

import pytest

from tests.harness import ToolHarness
from tk_ai_extension.model.errors import Conflict

LETTERS = ["a", " ", "\t", "\r", "\f", "\v", "\x1c", "\x85", "\u2028", "\u2029", "\n"]


@pytest.mark.proves("doc:conflict")
@pytest.mark.parametrize("seed", range(8))
async def test_a_line_that_leaves_something_out_is_no_reading(
    harness: ToolHarness, seed: int
) -> None:
    random = Random(seed)
    sources = ["x=1\rimport os", "a" * 101, "a" * 100]
    sources += ["".join(random.choices(LETTERS, k=random.randint(1, 5))) for _ in range(12)]
    harness.write("n.ipynb", *sources)
    listed = await harness.call("list_cells", notebook="n.ipynb")
    for cell, source in zip(listed.cells, sources, strict=True):
        line = {"notebook": "n.ipynb", "cell": cell.index, "source": "changed"}
        assert (cell.address is not None) == (cell.first_line == source)
        if cell.first_line == source:
            await harness.call("overwrite_cell", **line)
        else:
            with pytest.raises(Conflict) as refused:
                await harness.call("overwrite_cell", **line)
            assert json.loads(json.dumps(refused.value.details))["cells"][0]["source"] == source
