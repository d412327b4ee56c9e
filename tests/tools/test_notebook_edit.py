"""NotebookEdit: one cell, by its id, in a notebook named by its whole path."""

import re
from dataclasses import replace

import nbformat
import pytest

from tests.harness import registry_of
from tk_ai_extension.model.errors import (
    CellNotFound,
    Conflict,
    InvalidArguments,
    InvalidNotebook,
    NotebookNotFound,
    PathRefused,
)


@pytest.fixture
def harness(harness):
    return replace(harness, registry=registry_of(("default", "claude-code")))


@pytest.fixture
def path(harness):
    written = harness.write("n.ipynb", "a = 1", ("markdown", "# Title"), "b = 2\nprint(b)")
    notebook = nbformat.read(written, as_version=4)
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.metadata["custom"] = {"kept": True}
    notebook.cells[0].update(
        execution_count=7, outputs=[nbformat.v4.new_output("stream", name="stdout", text="1\n")]
    )
    notebook.cells[1].metadata["tags"] = ["intro"]
    nbformat.write(notebook, written)
    return str(written)


@pytest.fixture
async def edit(harness, path):
    """Calls the tool for a caller who has read the notebook."""
    await harness.call("read_notebook", notebook=path)

    async def edit(**arguments):
        return await harness.call("NotebookEdit", **{"notebook_path": path, **arguments})

    return edit


def facts(result):
    """The answer's fields that are the tool's own."""
    names = "notebook_path edit_mode cell_id cell_type language total_cells cells_delta"
    return {name: result.structured()[name] for name in names.split()}


@pytest.mark.proves("edit:notebookedit", "edit:replace-clears")
async def test_replace_is_the_default_and_clears_what_the_old_source_had_put_out(
    harness, path, edit
):
    result = await edit(cell_id="cella000", new_source="a = 2")
    assert facts(result) == {
        "notebook_path": path,
        "edit_mode": "replace",
        "cell_id": "cella000",
        "cell_type": "code",
        "language": "python",
        "total_cells": 3,
        "cells_delta": 0,
    }
    assert "-a = 1\n+a = 2" in result.as_text()
    notebook = harness.on_disk("n.ipynb")
    assert notebook.cells[0].source == "a = 2"
    assert (notebook.cells[0].execution_count, notebook.cells[0].outputs) == (None, [])
    assert notebook.metadata["custom"] == {"kept": True}


@pytest.mark.proves("edit:replace-clears")
async def test_replacing_a_markdown_cell_keeps_its_metadata(harness, edit):
    result = await edit(cell_id="cellb000", new_source="# Other", edit_mode="replace")
    assert result.cell_type == "markdown"
    cell = harness.on_disk("n.ipynb").cells[1]
    assert (cell.source, cell.metadata["tags"]) == ("# Other", ["intro"])
    changed = await edit(cell_id="cellb000", new_source="c = 3", cell_type="code")
    assert changed.cell_type == "code"
    cell = harness.on_disk("n.ipynb").cells[1]
    assert (cell.cell_type, cell.outputs, cell.metadata["tags"]) == ("code", [], ["intro"])


@pytest.mark.proves("edit:notebookedit", "edit:insert-after")
async def test_insert_goes_after_the_cell_named_and_without_one_to_the_top(harness, edit):
    after = await edit(
        cell_id="cella000", new_source="text", cell_type="markdown", edit_mode="insert"
    )
    assert (after.total_cells, after.cells_delta, after.cell_type) == (4, 1, "markdown")
    assert re.fullmatch(r"[a-z0-9-]+", after.cell_id)
    for empty in ({"cell_id": ""}, {}):
        first = await edit(**empty, new_source="first", cell_type="code", edit_mode="insert")
        assert harness.on_disk("n.ipynb").cells[0].id == first.cell_id
    cells = harness.on_disk("n.ipynb").cells
    assert [cell.source for cell in cells[:4]] == ["first", "first", "a = 1", "text"]
    assert len({cell.id for cell in cells}) == 6
    with pytest.raises(InvalidArguments, match="cell_type"):
        await edit(cell_id="cella000", new_source="x", edit_mode="insert")
    assert harness.on_disk("n.ipynb").cells == cells


@pytest.mark.proves("edit:notebookedit")
async def test_delete_answers_with_what_is_gone(harness, edit):
    result = await edit(cell_id="cellc000", edit_mode="delete")
    assert facts(result)["cells_delta"] == -1
    assert (result.cell_id, result.cell_type, result.total_cells) == ("cellc000", "code", 2)
    assert "b = 2\nprint(b)" in result.as_text()
    assert harness.sources("n.ipynb") == ["a = 1", "# Title"]


@pytest.mark.proves("edit:replace-at-end")
async def test_replace_one_past_the_last_cell_is_an_insert_and_needs_a_type(harness, edit):
    with pytest.raises(InvalidArguments, match=r"cell_type.*one past the last"):
        await edit(cell_id="cell-3", new_source="new")
    result = await edit(cell_id="cell-3", new_source="new", cell_type="code")
    assert (result.edit_mode, result.cells_delta, result.total_cells) == ("insert", 1, 4)
    assert harness.sources("n.ipynb")[3] == "new"
    for mode in ("delete", "insert"):
        with pytest.raises(CellNotFound):
            await edit(cell_id="cell-4", new_source="x", cell_type="code", edit_mode=mode)
    with pytest.raises(CellNotFound):
        await edit(cell_id="cell-9", new_source="x", cell_type="code")
    empty = str(harness.write("empty.ipynb"))
    result = await edit(notebook_path=empty, cell_id="cell-0", new_source="x", cell_type="code")
    assert (result.edit_mode, result.total_cells) == ("insert", 1)


@pytest.mark.proves("edit:resolve")
async def test_a_literal_id_comes_before_a_number_and_a_failure_lists_ten_ids(harness, edit):
    many = harness.write("many.ipynb", *(f"x = {n}" for n in range(12)))
    notebook = nbformat.read(many, as_version=4)
    notebook.cells[5]["id"] = "cell-0"
    nbformat.write(notebook, many)
    await harness.call("read_notebook", notebook="many.ipynb")
    result = await edit(notebook_path=str(many), cell_id="cell-0", new_source="named")
    assert result.cell_id == "cell-0"
    assert harness.sources("many.ipynb")[5] == "named"
    with pytest.raises(CellNotFound):  # The id of a cell that was deleted, perhaps.
        await edit(notebook_path=str(many), cell_id="cell-1", new_source="numbered")
    await edit(notebook_path=str(harness.root / "n.ipynb"), cell_id="cell-1", new_source="numbered")
    assert harness.sources("n.ipynb")[1] == "numbered"
    with pytest.raises(CellNotFound) as raised:
        await edit(notebook_path=str(many), cell_id="missing", new_source="x")
    assert len(raised.value.details["cells"]) == 10
    assert "and 2 more" in raised.value.message


@pytest.mark.proves("edit:notebookedit-path")
async def test_a_path_has_to_be_absolute_end_in_ipynb_and_stay_inside(harness, path, edit):
    (harness.root / "a.txt").write_text("text")
    before = (harness.root / "n.ipynb").read_bytes()
    for refused, error in (
        ("n.ipynb", InvalidArguments),
        ("./n.ipynb", InvalidArguments),
        ("", InvalidArguments),
        (str(harness.root / "a.txt"), InvalidArguments),
        (str(harness.root), PathRefused),
        ("/etc/n.ipynb", PathRefused),
        (str(harness.root / ".." / "n.ipynb"), PathRefused),
        (str(harness.root / "none.ipynb"), NotebookNotFound),
    ):
        with pytest.raises(error):
            await edit(notebook_path=refused, cell_id="cella000", new_source="x")
    assert (harness.root / "n.ipynb").read_bytes() == before


@pytest.mark.proves("edit:notebookedit")
async def test_an_invalid_call_gets_an_error_and_the_file_stays_as_it_is(harness, path, edit):
    before = (harness.root / "n.ipynb").read_bytes()
    for wrong in (
        {"cell_id": "cella000"},
        {"new_source": "x"},
        {"cell_id": "", "new_source": "x"},
        {"edit_mode": "delete"},
        {"cell_id": "cella000", "new_source": "x\0"},
        {"cell_id": "cella000", "new_source": "x", "edit_mode": "append"},
        {"cell_id": "cella000", "new_source": "x", "cell_type": "chart"},
    ):
        with pytest.raises(InvalidArguments):
            await edit(**wrong)
    assert (harness.root / "n.ipynb").read_bytes() == before
    broken = harness.root / "broken.ipynb"
    broken.write_text('{"cells": 3}')
    with pytest.raises(InvalidNotebook):
        await edit(notebook_path=str(broken), cell_id="cell-0", new_source="x", cell_type="code")
    assert broken.read_text() == '{"cells": 3}'


@pytest.mark.proves("doc:conflict")
async def test_a_cell_that_was_not_read_is_shown_instead_of_changed(harness, path):
    call = {"notebook_path": path, "cell_id": "cella000", "new_source": "a = 9"}
    with pytest.raises(Conflict) as raised:
        await harness.call("NotebookEdit", **call)
    assert raised.value.details["cells"][0]["source"] == "a = 1"
    assert harness.sources("n.ipynb")[0] == "a = 1"
    await harness.call("NotebookEdit", **call)  # the refusal showed it
    assert harness.sources("n.ipynb")[0] == "a = 9"
