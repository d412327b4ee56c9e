"""Half surrogate pairs, file names that are no UTF-8, and links that lead away: nothing fails for them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

from tests.harness import KERNELSPEC, ToolHarness
from tk_ai_extension.model.errors import NotebookNotFound, PathRefused

HALF = "\ud83d"


def _notebook(texts: list[str]) -> dict[str, Any]:
    """A notebook that has these texts wherever it has text."""
    cells = [
        {
            "cell_type": "code",
            "id": f"cell{number:04}",
            "metadata": {"tags": [text], text: {text: text}},
            "source": text if number % 2 else [f"{text}\n", f"x = '{text}'"],
            "execution_count": 1,
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": [text]},
                {"output_type": "stream", "name": "stderr", "text": text},
                {
                    "output_type": "execute_result",
                    "execution_count": 1,
                    "metadata": {text: text},
                    "data": {"text/plain": text, "application/json": {text: [text]}},
                },
                {"output_type": "error", "ename": text, "evalue": text, "traceback": [text]},
            ],
        }
        for number, text in enumerate(texts)
    ]
    metadata = {"kernelspec": {**KERNELSPEC, "display_name": texts[0]}, texts[0]: texts}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


READS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("list_cells", {}),
    ("read_cell", {"cell": 0}),
    ("read_cell", {"cell": -1}),
    ("read_notebook", {}),
    ("read_notebook", {"view": "reading"}),
    ("read_notebook", {"view": "raw"}),
    ("search_cells", {"pattern": "x"}),
    ("search_cells", {"pattern": "\ufffd"}),
    ("notebook_history", {}),
)


@pytest.mark.proves("doc:lenient")
async def test_a_notebook_with_halves_of_pairs_is_read_edited_and_taken_back(
    harness: ToolHarness,
) -> None:
    path = harness.root / "n.ipynb"
    path.write_text(json.dumps(_notebook([HALF, f"a{HALF}b", "\ude00", "\U0001f600"])))
    before = path.read_bytes()
    for tool, arguments in READS:
        result = await harness.call(tool, notebook="n.ipynb", **arguments)
        json.dumps(result.structured(), ensure_ascii=False).encode()
        result.full_text().encode()
    assert path.read_bytes() == before
    await harness.call("edit_cell", notebook="n.ipynb", cell=1, old="a", new=f"b{HALF}")
    await harness.call("insert_cell", notebook="n.ipynb", source=f"'{HALF}'", index=0)
    read = await harness.call("read_cell", notebook="n.ipynb", cell=2)
    assert read.source == "b\ufffd\ufffdb"
    await harness.call("undo", notebook="n.ipynb", steps=2)
    cells = json.loads(path.read_bytes())["cells"]
    assert cells[0] == json.loads(before)["cells"][0]
    assert cells[2] == json.loads(before)["cells"][2]


class TestLinks:
    """Links out of the root, with one target that an administrator allows."""

    @pytest.fixture
    def shared(self, tmp_path: Path) -> Path:
        folder = tmp_path / "shared"
        folder.mkdir()
        return folder

    @pytest.fixture
    def jp_server_config(self, jp_server_config: Config, shared: Path) -> Config:
        jp_server_config.TkAIExtensionApp.linked_folders = [str(shared)]
        return jp_server_config

    @pytest.mark.proves("threat:path")
    async def test_entries_that_may_not_be_named_are_left_out_of_the_list(
        self, harness: ToolHarness, shared: Path, tmp_path: Path
    ) -> None:
        harness.write("here.ipynb", "x = 1")
        harness.write("below/there.ipynb", "x = 1")
        (harness.root / "data.csv").write_text("a\n")
        no_utf8 = harness.root / os.fsdecode(b"caf\xe9.ipynb")
        no_utf8.write_text("{}")
        secret = tmp_path / "secret"
        hidden = harness.root / ".hidden"
        for folder in (secret, hidden, shared):
            folder.mkdir(exist_ok=True)
            (folder / "other.ipynb").write_text((harness.root / "here.ipynb").read_text())
        (shared / ".private").mkdir()
        for name, target in (
            ("out", secret),
            ("up", tmp_path),
            ("veiled", hidden),
            ("loop", harness.root / "loop"),
            ("nowhere", tmp_path / "gone"),
            ("out.ipynb", secret / "other.ipynb"),
            ("private", shared / ".private"),
            ("team", shared),
        ):
            (harness.root / name).symlink_to(target)

        listed = await harness.call("list_notebooks")
        paths = {entry.notebook for entry in listed.notebooks}
        assert paths == {"here.ipynb", "below/there.ipynb", "team/other.ipynb"}
        files = await harness.call("list_files", pattern="*")
        names = {item.path for item in files.files}
        assert {"data.csv", "below", "team", *paths} == names
        for refused in ("out/other.ipynb", "veiled/other.ipynb", "private/x.ipynb", "out.ipynb"):
            with pytest.raises((PathRefused, NotebookNotFound)):
                await harness.call("list_cells", notebook=refused)
        await harness.call("insert_cell", notebook="team/other.ipynb", source="y = 2")
        assert "y = 2" in (shared / "other.ipynb").read_text()
