"""`notebook`: cells by their index, and nothing is run."""

import pytest

from tests.harness import NOBODY
from tk_ai_extension.model.errors import (
    Conflict,
    InvalidArguments,
    InvalidNotebook,
    NotebookNotFound,
    PathRefused,
)


@pytest.fixture
async def edit(harness):
    """Calls the tool for a caller who has read the notebook."""
    harness.write("sub/n.ipynb", "a = 1\nb", ("markdown", "# Title"), ("raw", "raw"))
    await harness.call("read_notebook", notebook="sub/n.ipynb")

    async def edit(action, cell_index, content=None, **more):
        call = {"path": "sub/n.ipynb", "cell_index": cell_index, "content": content, **more}
        return await harness.call("notebook", action=action, **call)

    return edit


def facts(result):
    answer = result.structured()
    names = ("action", "cellIndex", "cellType", "totalCells", "cellSource")
    return tuple(answer[name] for name in names)


@pytest.mark.proves("edit:notebook-tool")
async def test_edit_replaces_the_source_and_keeps_the_type(harness, edit):
    changed = await edit("edit", 1, "# Other\nline", cell_type="code")
    assert facts(changed) == ("edit", 1, "markdown", 3, "# Other\nline")
    assert "Changed cell 1" in changed.as_text()
    assert "sub/n.ipynb: 3 cells" in changed.as_text()
    assert facts(await edit("edit", 2, ""))[2:] == ("raw", 3, "")
    assert harness.sources("sub/n.ipynb") == ["a = 1\nb", "# Other\nline", ""]


@pytest.mark.proves("edit:notebook-tool")
async def test_insert_takes_the_number_of_cells_too_and_makes_code_by_default(harness, edit):
    assert facts(await edit("insert", 3, "last")) == ("insert", 3, "code", 4, "last")
    first = await edit("insert", 0, "first", cell_type="markdown")
    assert facts(first) == ("insert", 0, "markdown", 5, "first")
    cells = harness.on_disk("sub/n.ipynb").cells
    assert [cell.source for cell in cells] == ["first", "a = 1\nb", "# Title", "raw", "last"]
    assert (cells[4].execution_count, cells[4].outputs) == (None, [])
    assert set(cells[0]) == {"cell_type", "id", "metadata", "source"}


@pytest.mark.proves("edit:notebook-tool")
async def test_delete_answers_with_the_source_that_is_gone(harness, edit):
    assert facts(await edit("delete", 0)) == ("delete", 0, "code", 2, "a = 1\nb")
    assert harness.sources("sub/n.ipynb") == ["# Title", "raw"]


@pytest.mark.proves("edit:notebook-tool")
async def test_an_index_out_of_range_or_no_content_changes_nothing(harness, edit):
    before = (harness.root / "sub/n.ipynb").read_bytes()
    for action, index, takes in (
        ("insert", 4, "0 to 3"),
        ("insert", -1, "0 to 3"),
        ("edit", 3, "0 to 2"),
        ("delete", 3, "0 to 2"),
        ("delete", -1, "0 to 2"),
    ):
        with pytest.raises(InvalidArguments, match=takes):
            await edit(action, index, "x")
    for action in ("edit", "insert"):
        with pytest.raises(InvalidArguments, match="content"):
            await edit(action, 0)
    assert (harness.root / "sub/n.ipynb").read_bytes() == before


@pytest.mark.proves("edit:notebook-tool")
async def test_an_invalid_notebook_is_refused_by_name(harness, edit):
    (harness.root / "bad.ipynb").write_text('{"cells": {}}')
    with pytest.raises(InvalidNotebook, match=r"bad\.ipynb"):
        await edit("edit", 0, "x", path="bad.ipynb")
    with pytest.raises(NotebookNotFound, match=r"none\.ipynb"):
        await edit("edit", 0, "x", path="none.ipynb")
    assert (harness.root / "bad.ipynb").read_text() == '{"cells": {}}'


@pytest.mark.proves("edit:relative-path")
async def test_a_path_is_relative_to_the_folder_in_which_code_of_the_session_runs(
    harness, edit, run
):
    for path in ("./sub/n.ipynb", str(harness.root / "sub" / "n.ipynb")):
        assert (await edit("insert", 0, "x", path=path)).notebook == "sub/n.ipynb"
    code = "import json; print(len(json.load(open('sub/n.ipynb'))['cells']))"
    assert (await run(code, mode="per-call")).runs[0].output == "5"
    for outside in ("../n.ipynb", "/etc/n.ipynb"):
        with pytest.raises(PathRefused):
            await edit("insert", 0, "x", path=outside)


@pytest.mark.proves("doc:conflict")
async def test_only_what_was_seen_is_changed_and_a_version_does_without_a_session(harness, edit):
    harness.write("sub/n.ipynb", "changed by somebody")
    with pytest.raises(Conflict) as raised:
        await edit("edit", 0, "mine")
    assert raised.value.details["cells"][0]["source"] == "changed by somebody"
    version = raised.value.details["cells"][0]["address"].rpartition(".")[2]
    with pytest.raises(Conflict):
        await edit("delete", 0, caller=NOBODY)
    await edit("edit", 0, "mine", caller=NOBODY, version=version)
    assert harness.sources("sub/n.ipynb") == ["mine"]
