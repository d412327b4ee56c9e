"""`nb verify`: a notebook runs in a new kernel, and differences from the stored outputs are shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.cli.conftest import Nb

HANGS = "open('began', 'w').write('now')\nimport time\ntime.sleep(600)"
"""A cell that notifies the test through a FIFO when it runs."""


def stored(
    nb: Nb, name: str, *cells: tuple[str, Sequence[dict[str, Any]], int | None], **tags: list[str]
) -> Path:
    """Writes a notebook with outputs; ``cell1=[...]`` gives the second cell tags."""
    path = nb.notebook(name, *(source for source, _, _ in cells))
    notebook = nbformat.read(path, as_version=4)
    for at, (cell, (_, outputs, count)) in enumerate(zip(notebook.cells, cells, strict=True)):
        cell.id = f"cell{'abcdefgh'[at]}"
        cell.outputs = [nbformat.from_dict(output) for output in outputs]
        cell.execution_count = count
        if f"cell{at}" in tags:
            cell.metadata["tags"] = tags[f"cell{at}"]
    nbformat.write(notebook, path)
    return path


def printed(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def result(text: str, count: int) -> dict[str, Any]:
    data = {"text/plain": text}
    return {"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}}


@pytest.mark.proves("verify:run")
def test_a_notebook_that_runs_from_the_top_is_verified_and_left_as_it_was(shared: Nb) -> None:
    path = stored(shared, "a.ipynb", ("x = 6", [], 1), ("x * 7", [result("42", 2)], 2))
    before = path.read_bytes()
    ended = shared("verify", "a.ipynb")
    assert ended.out.startswith("a.ipynb: 2 code cells: 2 same (")
    assert ended.err == ""
    assert path.read_bytes() == before
    # No kernel stays.
    assert len(shared.processes()) == 1


@pytest.mark.proves("verify:run")
def test_what_fails_or_differs_is_shown_with_a_diff(shared: Nb) -> None:
    stored(
        shared,
        "differs.ipynb",
        ("print('a')\nprint('b')", [printed("a\nc\n")], 3),
        ("y", [result("1", 1)], 1),
        ("1 / 0", [], 4),
        ("import os; os._exit(1)", [], 5),
        ("y = 1", [], 2),
    )
    # In a running server, next to the notebook's own kernel: its variables do not help.
    shared("open", "differs.ipynb")
    shared("run", "y = 1")
    ended = shared("verify", status=1)
    lines = ended.out.splitlines()
    assert lines[0].startswith("differs.ipynb: 5 code cells: 1 differs, 3 failed, 1 not run (")
    assert lines[1:6] == [
        "Cell 1 @cella: stdout differs",
        "  @@ -1,2 +1,2 @@",
        "   a",
        "  -c",
        "  +b",
    ]
    assert "Cell 2 @cellb failed: NameError: name 'y' is not defined" in lines
    assert "Cell 3 @cellc failed: ZeroDivisionError: division by zero" in lines
    assert "  Cell In[3], line 1" in lines
    assert any(line.startswith("Cell 4 @celld failed: ") for line in lines)
    assert shared("run", "y").out.endswith("1\n")
    assert len(shared("ps", "--json").json["kernels"]) == 1
    history = shared("history").out
    assert "all code cells in a fresh kernel, to verify their outputs" in history


@pytest.mark.proves("verify:run")
def test_what_is_compared_can_be_chosen(shared: Nb) -> None:
    stored(
        shared,
        "a.ipynb",
        ("print('v2', '10:11:12')", [printed("v1 01:02:03\n")], 1),
        ("# NBVAL_IGNORE_OUTPUT\nprint('x')", [printed("y\n")], 2),
        ("raise SystemError('s')", [], 3),
        ("raise RuntimeError", [], 4),
        ("1", [result("1", 5)], 5),
        ("1", [result("2", 6)], 6),
        cell2=["raises-exception", "nbval-ignore-output"],
        cell3=["nbval-skip"],
        cell4=["nbval-check-output"],
    )
    (shared.root / "rules.cfg").write_text("[version]\nregex: v\\d\nreplace: VERSION\n")
    shared("open", "a.ipynb")
    all_rules = ("--sanitize-with", "rules.cfg", "--ignore-times")

    def differing(*options: str) -> list[int]:
        fields = shared("verify", "a.ipynb", "--json", *options, status=None).json
        return [cell["index"] for cell in fields["verification"]["problems"]]

    assert differing() == [0, 5]
    assert differing(*all_rules) == [5]
    assert differing("--lax") == []
    assert shared("verify", "a.ipynb", "--lax").status == 0
    (shared.root / "rules.cfg").write_text("regex: (\nreplace: a")
    assert "is not valid" in shared("verify", "a.ipynb", "--sanitize-with=rules.cfg", status=2).err
    for words in (("--timeout", "0"), ("--sanitize-with", "missing")):
        assert shared("verify", "a.ipynb", *words, status=2).err


@pytest.mark.proves("verify:run")
def test_update_stores_what_differs_and_nothing_else(shared: Nb) -> None:
    path = stored(
        shared,
        "a.ipynb",
        ("print('new')", [printed("old\n")], 4),
        ("import random; 1", [result("1", 9)], 9),
        ("1 / 0", [printed("kept\n")], 10),
        ("# NBVAL_IGNORE_OUTPUT\nprint(5)", [printed("6\n")], 4),
    )
    text = path.read_text().replace('"kernelspec": {', '"unknown": [1,   2],\n  "kernelspec": {', 1)
    path.write_text(text)
    shared("open", "a.ipynb")
    shared("verify", "a.ipynb", "--update", status=1)
    cells = shared.read("a.ipynb").cells
    assert [cell.execution_count for cell in cells] == [1, 2, 10, 4]
    assert cells[0].outputs[0].text == "new\n"
    assert (cells[1].outputs[0].data["text/plain"], cells[1].outputs[0].execution_count) == ("1", 2)
    assert [cells[at].outputs[0].text for at in (2, 3)] == ["kept\n", "6\n"]
    assert '"unknown": [1,   2]' in path.read_text()
    after = path.read_bytes()
    shared("verify", "a.ipynb", "--update", status=1)
    assert path.read_bytes() == after
    shared("undo")
    assert shared.read("a.ipynb").cells[0].outputs[0].text == "old\n"


@pytest.mark.proves("verify:run")
def test_update_stores_no_output_of_code_that_changed_during_the_run(shared: Nb) -> None:
    edit = (
        "from pathlib import Path\nfile = Path('a.ipynb')\n"
        "file.write_text(file.read_text().replace('x =' + ' 1', 'x = 2'))\nprint('new')"
    )
    sources = ("print('a')", edit, "x = 1", "print(x)")
    path = stored(shared, "a.ipynb", *((each, [printed("old\n")], 1) for each in sources))
    ended = shared("verify", "a.ipynb", "--update", status=1)
    assert "Not of cell 3-4: the code there or above has since changed" in ended.err
    cells = shared.read("a.ipynb").cells
    assert [cell.outputs[0].text for cell in cells] == ["a\n", "new\n", "old\n", "old\n"]
    assert "x = 2" in path.read_text()
