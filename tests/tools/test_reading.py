"""Reading: few characters, nothing missing, and shown sources count as read."""

import json
import re
from pathlib import Path

import nbformat
import pytest

from tk_ai_extension.model.errors import (
    CellNotFound,
    Conflict,
    InvalidArguments,
)

FIFTY_CELLS = Path(__file__).parents[1] / "data" / "fifty_cells.ipynb"


@pytest.fixture
def notebook(harness):
    harness.write("n.ipynb", "import math", ("markdown", "# Title\ntext"), "x = 3\nprint(x)")
    return "n.ipynb"


async def test_list_cells_is_a_line_a_cell(harness, notebook):
    await harness.call("execute_cell", notebook=notebook, cell=2, wait=60)
    listed = await harness.call("list_cells", notebook=notebook)
    lines = listed.as_text().split("\n")
    assert lines[0] == "n.ipynb: 3 cells"
    assert lines[1].endswith("code never: import math")
    assert lines[2] == "1 @cellb markdown: # Title (+1 lines)"
    assert "[1] fresh: x = 3 (+1 lines) -> 2 chars text" in lines[3]
    part = await harness.call("list_cells", notebook=notebook, start=1, limit=1)
    assert part.as_text().endswith("[1 more: start=2]")


async def test_read_cell_shows_source_outputs_and_a_versioned_address(harness, notebook):
    await harness.call("execute_cell", notebook=notebook, cell=2)
    read = await harness.call("read_cell", notebook=notebook, cell="@cellc")
    assert read.source == "x = 3\nprint(x)"
    assert read.output == "3"
    assert re.fullmatch(r"cellc\w*\.[0-9a-f]{8}", read.address)
    assert (
        await harness.call("read_cell", notebook=notebook, cell=2, outputs=False)
    ).output is None


@pytest.mark.proves("edit:resolve")
@pytest.mark.parametrize("address", ["cellc000", "cell-2", 2, "2", -1, "-1", "@cellc000", "cellc0"])
async def test_every_form_of_an_address_finds_the_cell(harness, notebook, address):
    assert (await harness.call("read_cell", notebook=notebook, cell=address)).index == 2


@pytest.mark.parametrize("address", [3, -4, "cell-9", "nothere", "", 10**9, "99999999999999999999"])
async def test_an_unknown_cell_is_an_error_that_lists_the_cells(harness, notebook, address):
    with pytest.raises(CellNotFound) as raised:
        await harness.call("read_cell", notebook=notebook, cell=address)
    assert "import math" in raised.value.message
    assert len(raised.value.details["cells"]) == 3


async def test_read_notebook_and_write_it_back(harness, notebook):
    read = await harness.call("read_notebook", notebook=notebook)
    assert read.text.startswith(f"# %% notebook: n.ipynb rev:{read.revision}\n")
    before = (harness.root / notebook).read_bytes()
    await harness.call("write_notebook", text=read.text)
    assert (harness.root / notebook).read_bytes() == before
    changed = read.text.replace("x = 3", "x = 4") + "# %% [code]\nprint('new')\n"
    result = await harness.call("write_notebook", text=changed)
    assert [change.action for change in result.changes] == ["replace", "insert"]
    assert harness.sources(notebook) == [
        "import math",
        "# Title\ntext",
        "x = 4\nprint(x)",
        "print('new')",
    ]


async def test_changes_that_others_made_since_are_kept(harness, notebook):
    read = await harness.call("read_notebook", notebook=notebook)
    harness.write("n.ipynb", "import math, os", ("markdown", "# Title\ntext"), "x = 3\nprint(x)")
    await harness.call("write_notebook", text=read.text.replace("x = 3", "x = 4"))
    assert harness.sources(notebook) == ["import math, os", "# Title\ntext", "x = 4\nprint(x)"]
    before = (harness.root / notebook).read_bytes()
    with pytest.raises(Conflict):
        await harness.call("write_notebook", text=read.text.replace("import math", "import sys"))
    assert (harness.root / notebook).read_bytes() == before


@pytest.mark.parametrize("text", ["", "a = 1", "\n# %% [code]\na", "# %% [python]\na"])
async def test_text_that_is_no_cell_marked_text_is_refused_and_changes_nothing(
    harness, notebook, text
):
    before = (harness.root / notebook).read_bytes()
    with pytest.raises(InvalidArguments):
        await harness.call("write_notebook", notebook=notebook, text=text)
    assert (harness.root / notebook).read_bytes() == before
    with pytest.raises(InvalidArguments):
        await harness.call("write_notebook", notebook="unmade.ipynb", text=text)
    assert not (harness.root / "unmade.ipynb").exists()


async def test_a_revision_that_is_not_known_is_refused(harness, notebook):
    with pytest.raises(InvalidArguments):
        await harness.call("write_notebook", notebook=notebook, text="# %% [code]\na\n")
    with pytest.raises(InvalidArguments):
        await harness.call(
            "write_notebook", notebook=notebook, text="# %% [code]\na\n", base="000000000000"
        )


async def test_a_budget_cuts_between_cells_and_says_where_to_go_on(harness):
    harness.write("long.ipynb", *(f"x = {'1' * 400}" for _ in range(8)))
    read = await harness.call("read_notebook", notebook="long.ipynb", budget=1_000)
    assert len(read.cells) == 2
    assert read.next_range == "2-"
    assert "cells:0-1" in read.text.split("\n")[0]
    rest = await harness.call("read_notebook", notebook="long.ipynb", cells=read.next_range)
    assert len(rest.cells) == 6


async def test_search_finds_in_sources_and_outputs_of_many_notebooks(harness, notebook):
    harness.write("sub/m.ipynb", "print('needle')")
    await harness.call("execute_cell", notebook="sub/m.ipynb", cell=0)
    found = await harness.call("search_cells", pattern="needle|math", notebook="")
    assert [(m.notebook, m.index, m.line) for m in found.matches] == [
        ("n.ipynb", 0, 1),
        ("sub/m.ipynb", 0, 1),
    ]
    outputs = await harness.call(
        "search_cells", pattern="^needle$", notebook="sub", where="outputs"
    )
    assert [m.where for m in outputs.matches] == ["outputs"]
    for pattern in ("(", ""):
        with pytest.raises(InvalidArguments):
            await harness.call("search_cells", pattern=pattern, notebook=notebook)


async def test_lists_and_searches_say_what_they_left_out(harness, notebook, monkeypatch):
    harness.write("sub/z.ipynb", "needle")
    (harness.root / "broken.ipynb").write_text("{")
    found = await harness.call("search_cells", pattern="needle", notebook="")
    assert [match.notebook for match in found.matches] == ["sub/z.ipynb"]
    assert "`broken.ipynb`" in found.full_text()
    monkeypatch.setattr("tk_ai_extension.workspace.files.MAX_ENTRIES", 2)
    for tool, arguments in {
        "search_cells": {"pattern": "needle", "notebook": ""},
        "list_files": {"pattern": "z.ipynb"},
        "list_notebooks": {},
    }.items():
        cut = await harness.call(tool, **arguments)
        assert "Only the first 2 files" in cut.full_text()
        assert "z.ipynb" not in cut.full_text()


@pytest.mark.proves("text:ranges")
async def test_lines_of_the_text_are_looked_at_and_license_no_overwrite(harness):
    harness.write("n.ipynb", "a = 1\nb = 2", "c = 3")
    some = await harness.call("read_notebook", notebook="n.ipynb", lines="3,5-")
    assert some.text.splitlines() == ["a = 1", some.text.splitlines()[1], "c = 3"]
    assert some.text.splitlines()[1].startswith("# %% [code] @")
    assert (some.cells, some.next_range) == ([], None)
    with pytest.raises(Conflict):
        await harness.call("overwrite_cell", cell=1, source="d", notebook="n.ipynb")
    for wrong in ({"lines": "0"}, {"lines": "x"}, {"lines": "1", "view": "raw"}):
        with pytest.raises(InvalidArguments):
            await harness.call("read_notebook", notebook="n.ipynb", **wrong)


@pytest.mark.proves("text:read", "text:ranges")
async def test_the_raw_view_shows_the_cells_asked_for_within_the_budget(harness):
    harness.write("long.ipynb", *(f"a = '{letter * 900}'" for letter in "abcde"))
    some = await harness.call("read_notebook", notebook="long.ipynb", view="raw", cells="1,3-")
    sources = [cell["source"] for cell in json.loads(some.text)["cells"]]
    assert ["".join(source)[5] for source in sources] == ["b", "d", "e"]
    short = await harness.call(
        "read_notebook", notebook="long.ipynb", view="raw", cells="0,2,4", budget=2_500
    )
    assert len(json.loads(short.text)["cells"]) == len(short.cells) == 2
    assert short.next_range == "4-"
    assert "cells='4-'" in short.as_text()
    harness.write("one.ipynb", f"a = '{'a' * 9_000}'")
    one = await harness.call("read_notebook", notebook="one.ipynb", view="raw", budget=500)
    assert "read_output" in one.text
    assert len(one.text) < 800


@pytest.mark.proves("mcp:structured")
async def test_the_fifty_cell_notebook_reads_below_12_500_characters(harness):
    (harness.root / "fifty.ipynb").write_bytes(FIFTY_CELLS.read_bytes())
    read = await harness.call("read_notebook", notebook="fifty.ipynb", view="reading")
    assert read.next_range is None
    assert len(read.full_text()) < 12_500
    notebook = nbformat.read(harness.root / "fifty.ipynb", as_version=4)
    for cell in notebook.cells:
        assert all(line in read.text for line in cell.source.split("\n"))
        for output in cell.get("outputs", ()):
            if output.output_type == "error":
                assert output.ename in read.text
