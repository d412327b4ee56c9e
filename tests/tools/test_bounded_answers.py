"""An answer has a bounded size, whatever the cells printed and the files contain."""

from __future__ import annotations

import base64
import json
from random import Random
from typing import Any

import pytest

from tests.harness import ToolHarness
from tests.tools.test_presented_images import encoded
from tk_ai_extension.tools.output_presentation import MAX_IMAGES
from tk_ai_extension.workspace.artifact_pages import LINE, PAGE

CELLS = 40
PNG = base64.b64encode(encoded("PNG", 2)).decode()
KINDS = ["text", "image", "value", "status"]


def code(choice: Random) -> tuple[str, dict[str, int]]:
    """A cell with outputs, and how many of each kind it has."""
    count = choice.choice([0, 1, 3, 30])
    size = choice.choice([1, 300, 6_000])
    kind = choice.choice(KINDS)
    shown = {
        "text": f"print('x' * {size})",
        "image": f"show({{'image/png': {PNG!r}}}, raw=True)",
        "status": f"show({{'application/x-tk-status': 's' * {size}}}, raw=True)",
        "value": f"show({{'application/json': ['y' * {size}]}}, raw=True)",
    }[kind]
    lines = ["from IPython.display import display as show", f"for _ in range({count}): {shown}"]
    return "\n".join(lines), {kind: count}


def size_of(result: Any) -> int:
    return len(result.full_text()) + len(json.dumps(result.structured()))


@pytest.mark.proves("out:structured")
@pytest.mark.parametrize("seed", range(3))
async def test_all_cells_of_a_run_share_one_budget(harness: ToolHarness, seed: int) -> None:
    choice = Random(seed)
    cells = [code(choice) for _ in range(CELLS)]
    cells.append(("print('the last line'); 1 / 0", {}))
    made = {kind: sum(counts.get(kind, 0) for _, counts in cells) for kind in KINDS}
    sources = [source for source, _ in cells]
    await harness.call(
        "create_notebook", notebook="n.ipynb", cells=[{"source": each} for each in sources]
    )
    result = await harness.call("execute_cells", notebook="n.ipynb", which="all", wait=60)
    budget = harness.workspace.limits.answer_budget
    assert len(result.runs) == len(cells)
    assert size_of(result) < 3 * budget + 600 * len(cells)
    assert len(result.images) == min(made["image"], MAX_IMAGES)
    shown = {
        "image": len(result.images),
        "value": sum(len(run.data) for run in result.runs),
        "status": sum(len(run.events) for run in result.runs),
    }
    left_out = {kind: made[kind] - count for kind, count in shown.items()}
    assert sum(run.left_out for run in result.runs) == sum(left_out.values())
    noted = "are not shown]" in result.full_text()
    assert noted == (left_out["image"] + left_out["value"] > 0)
    assert "the last line" in result.runs[-1].output
    assert "ZeroDivisionError" in result.runs[-1].output
    for at in range(0, CELLS, 7):
        read = await harness.call("read_cell", notebook="n.ipynb", cell=at)
        assert size_of(read) < 3 * budget + 4 * len(sources[at]) + 600


@pytest.mark.parametrize("seed", range(6))
async def test_a_file_is_read_to_its_end_in_pages(harness: ToolHarness, seed: int) -> None:
    choice = Random(seed)
    lengths = [0, 3, LINE - 1, LINE, LINE + 1, 3 * LINE, 30_000]
    lines = [f"{number}".ljust(choice.choice(lengths), "z") for number in range(60)]
    (harness.root / "data.txt").write_text("\n".join(lines))
    read: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = await harness.call("read_file", path="data.txt", offset=offset, limit=5_000)
        assert len(page.content) <= PAGE
        assert page.offset == offset
        read.append(page.content)
        offset = page.next_offset
    assert "\n".join(read).replace("\n", "") == "".join(lines)
