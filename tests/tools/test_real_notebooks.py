"""The main job on real notebooks: use, read, edit, insert and execute, undo, write back."""

import json
import shutil
from pathlib import Path

import nbformat
import pytest

from tests.corpus import notebooks

REAL = notebooks("real")


def cells_of(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


@pytest.mark.parametrize("source", REAL, ids=lambda path: path.stem.replace(" ", "-"))
async def test_an_agent_works_in_a_real_notebook(harness, source):
    name = "work.ipynb"
    shutil.copyfile(source, harness.root / name)
    path = harness.root / name
    before = path.read_bytes()
    original = cells_of(path)

    used = await harness.call("use_notebook", notebook=name, kernel_name="python3")
    assert used.total_cells == len(original)
    listed = await harness.call("list_cells", limit=2000)
    assert len(listed.cells) == len(original)
    reading = await harness.call("read_notebook", view="reading", budget=2_000_000)
    assert len(reading.text) < 300_000
    read = await harness.call("read_notebook", budget=2_000_000)
    await harness.call("write_notebook", text=read.text)
    assert path.read_bytes() == before

    await harness.call("overwrite_cell", cell=0, source="# changed by a test", cell_type="markdown")
    result = await harness.call("insert_and_execute_cell", source="print('ran', 6 * 7)", index=1)
    assert result.status == "ok", result.full_text()
    assert result.runs[0].output == "ran 42"
    changed = cells_of(path)
    assert "".join(changed[1]["outputs"][0]["text"]) == "ran 42\n"
    assert changed[2:] == original[1:]
    nbformat.validate(nbformat.read(path, as_version=4))

    await harness.call("undo", steps=2)
    assert cells_of(path) == original
