"""Changing cells: answers match the changes, and only cells that were read are changed."""

import pytest

from tests.harness import ALICE, BOB, NOBODY
from tk_ai_extension.model.errors import Conflict, InvalidArguments, NothingToUndo


@pytest.fixture
def notebook(harness):
    harness.write("n.ipynb", "a = 1", ("markdown", "# Title"), "b = 2\nprint(b)")
    return "n.ipynb"


@pytest.mark.proves("edit:tools")
async def test_insert_at_each_place(harness, notebook):
    first = await harness.call("insert_cell", notebook=notebook, source="first", index=0)
    await harness.call("insert_cell", notebook=notebook, source="last")
    await harness.call(
        "insert_cell", notebook=notebook, source="text", cell_type="markdown", after="cellb000"
    )
    await harness.call("insert_cell", notebook=notebook, source="raw", cell_type="raw", before=1)
    assert harness.sources(notebook) == [
        "first",
        "raw",
        "a = 1",
        "# Title",
        "text",
        "b = 2\nprint(b)",
        "last",
    ]
    assert first.total_cells == 4
    assert first.changes[0].index == 0
    assert first.changes[0].address.startswith(first.changes[0].cell[:4])


@pytest.mark.proves("edit:tools", "doc:conflict")
async def test_overwrite_needs_to_have_seen_the_cell(harness, notebook):
    with pytest.raises(Conflict) as raised:
        await harness.call("overwrite_cell", notebook=notebook, cell=2, source="b = 3")
    assert raised.value.details["cells"][0]["source"] == "b = 2\nprint(b)"
    assert "b = 2" in raised.value.as_text()
    assert harness.sources(notebook)[2] == "b = 2\nprint(b)"
    # The refusal showed the source, and that counts as having seen it.
    result = await harness.call(
        "overwrite_cell", notebook=notebook, cell=2, source="b = 3\nprint(b)"
    )
    assert result.changes[0].diff == "@@ -1,2 +1,2 @@\n-b = 2\n+b = 3\n print(b)"
    assert harness.sources(notebook)[2] == "b = 3\nprint(b)"


async def test_a_line_of_list_cells_licenses_only_what_it_showed_whole(harness, notebook):
    listed = await harness.call("list_cells", notebook=notebook)
    assert [cell.address is not None for cell in listed.cells] == [True, True, False]
    await harness.call("overwrite_cell", notebook=notebook, cell=0, source="a = 9")
    with pytest.raises(Conflict):
        await harness.call("overwrite_cell", notebook=notebook, cell=2, source="c")


async def test_a_versioned_address_needs_no_session(harness, notebook):
    with pytest.raises(Conflict) as refused:
        await harness.call("overwrite_cell", caller=NOBODY, notebook=notebook, cell=0, source="x")
    assert "versioned address" in refused.value.hint
    with pytest.raises(Conflict):  # a caller without a key is remembered nowhere
        await harness.call("overwrite_cell", caller=NOBODY, notebook=notebook, cell=0, source="x")
    read = await harness.call("read_cell", caller=NOBODY, notebook=notebook, cell=0)
    changed = await harness.call(
        "overwrite_cell", caller=NOBODY, notebook=notebook, cell=read.address, source="x = 1"
    )
    with pytest.raises(Conflict) as raised:
        await harness.call("delete_cell", caller=NOBODY, notebook=notebook, cell=read.address)
    assert raised.value.details["cells"][0]["address"] == changed.changes[0].address
    await harness.call(
        "delete_cell", caller=NOBODY, notebook=notebook, cell=changed.changes[0].address
    )
    assert harness.sources(notebook) == ["# Title", "b = 2\nprint(b)"]


@pytest.mark.proves("doc:conflict")
async def test_a_users_edit_between_read_and_write_is_a_conflict_and_loses_nothing(
    harness, notebook
):
    await harness.call("read_cell", notebook=notebook, cell=0)
    harness.write("n.ipynb", "a = 'typed by a person'", ("markdown", "# Title"))
    with pytest.raises(Conflict) as raised:
        await harness.call("overwrite_cell", notebook=notebook, cell="cella000", source="a = 2")
    assert raised.value.details["cells"][0]["source"] == "a = 'typed by a person'"
    assert harness.sources(notebook)[0] == "a = 'typed by a person'"


@pytest.mark.proves("edit:tools")
async def test_edit_replaces_a_string_that_occurs_once(harness, notebook):
    await harness.call("read_notebook", notebook=notebook)
    await harness.call("edit_cell", notebook=notebook, cell=2, old="b = 2", new="b = 5")
    assert harness.sources(notebook)[2] == "b = 5\nprint(b)"
    for old in ("b", "nothing", ""):
        with pytest.raises(InvalidArguments):
            await harness.call("edit_cell", notebook=notebook, cell=2, old=old, new="z")
    await harness.call("edit_cell", notebook=notebook, cell=2, old="b", new="c", replace_all=True)
    assert harness.sources(notebook)[2] == "c = 5\nprint(c)"


@pytest.mark.proves("edit:tools")
async def test_delete_answers_with_what_was_removed(harness, notebook):
    await harness.call("read_cell", notebook=notebook, cell=-1)
    result = await harness.call("delete_cell", notebook=notebook, cell="cell-2")
    assert result.changes[0].removed_source == "b = 2\nprint(b)"
    assert "print(b)" in result.full_text()
    assert harness.sources(notebook) == ["a = 1", "# Title"]


@pytest.mark.proves("edit:tools")
@pytest.mark.parametrize(
    ("start", "to", "order"), [(0, 2, "bca"), (2, 0, "cab"), (1, -1, "acb"), (1, 1, "abc")]
)
async def test_the_index_after_a_move_is_the_one_asked_for(harness, start, to, order):
    harness.write("m.ipynb", "a", "b", "c")
    result = await harness.call("move_cell", notebook="m.ipynb", cell=start, to=to)
    assert "".join(harness.sources("m.ipynb")) == order
    assert result.changes[0].index == to % 3


async def test_outputs_are_cleared_by_range_and_altogether(harness, notebook):
    await harness.call("execute_cells", notebook=notebook, which="all")
    assert harness.on_disk(notebook).cells[2].outputs[0].text == "2\n"
    for cells in ("-3", "0"):
        await harness.call("clear_outputs", notebook=notebook, cells=cells)
        assert harness.on_disk(notebook).cells[2].outputs[0].text == "2\n"
        await harness.call("execute_cell", notebook=notebook, cell=0)
    await harness.call("clear_outputs", notebook=notebook, cells="-1")
    assert harness.on_disk(notebook).cells[2].outputs == []
    assert harness.on_disk(notebook).cells[0].execution_count == 4
    await harness.call("clear_outputs", notebook=notebook, all=True)
    assert harness.on_disk(notebook).cells[0].execution_count is None
    with pytest.raises(InvalidArguments):
        await harness.call("clear_outputs", notebook=notebook)


async def test_overwriting_clears_outputs_unless_kept_and_can_change_the_type(harness, notebook):
    await harness.call("execute_cell", notebook=notebook, cell=2)
    await harness.call("read_cell", notebook=notebook, cell=2)
    await harness.call("overwrite_cell", notebook=notebook, cell=2, source="b", keep_outputs=True)
    assert harness.on_disk(notebook).cells[2].outputs
    await harness.call("overwrite_cell", notebook=notebook, cell=2, source="b")
    assert harness.on_disk(notebook).cells[2].outputs == []
    await harness.call(
        "overwrite_cell", notebook=notebook, cell=2, source="b", cell_type="markdown"
    )
    assert harness.on_disk(notebook).cells[2].cell_type == "markdown"


@pytest.mark.proves("edit:batch")
async def test_a_batch_is_applied_whole_or_not_at_all(harness, notebook):
    await harness.call("read_notebook", notebook=notebook)
    operations = [
        {"action": "overwrite", "cell": 0, "source": "a = 10"},
        {"action": "insert", "after": "cella000", "source": "new"},
        {"action": "edit", "cell": "cellc000", "old": "2", "new": "20"},
        {"action": "move", "cell": "cellb000", "to": 0},
    ]
    result = await harness.call("edit_cells", notebook=notebook, operations=operations)
    assert harness.sources(notebook) == ["# Title", "a = 10", "new", "b = 20\nprint(b)"]
    assert [change.action for change in result.changes] == ["replace", "insert", "replace", "move"]
    before = (harness.root / notebook).read_bytes()
    delete = {"action": "delete", "cell": 0}
    for failing in (
        {"action": "edit", "cell": 1, "old": "nowhere", "new": ""},
        {"action": "move", "cell": 1, "to": 0, "source": "x"},
    ):
        with pytest.raises(InvalidArguments):
            await harness.call("edit_cells", notebook=notebook, operations=[delete, failing])
    assert (harness.root / notebook).read_bytes() == before


@pytest.mark.proves("edit:batch", "edit:mutate-and-execute")
async def test_a_batch_that_runs_is_taken_back_when_a_cell_fails(harness, notebook):
    await harness.call("read_notebook", notebook=notebook)
    good = [{"action": "overwrite", "cell": 2, "source": "print('ran')"}]
    result = await harness.call("edit_cells", notebook=notebook, operations=good, run=True)
    assert (result.status, result.runs[0].output) == ("ok", "ran")
    bad = [
        {"action": "overwrite", "cell": 2, "source": "1/0"},
        {"action": "insert", "source": "never run"},
    ]
    result = await harness.call("edit_cells", notebook=notebook, operations=bad, run=True)
    assert result.is_error
    assert result.rolled_back
    assert "ZeroDivisionError" in result.full_text()
    assert harness.sources(notebook) == ["a = 1", "# Title", "print('ran')"]


@pytest.mark.proves("edit:history")
async def test_undo_takes_back_ones_own_changes_and_leaves_others(harness, notebook):
    await harness.call("read_notebook", notebook=notebook)
    await harness.call("overwrite_cell", notebook=notebook, cell=0, source="a = 2")
    await harness.call("delete_cell", notebook=notebook, cell=1)
    await harness.call("insert_cell", caller=BOB, notebook=notebook, source="of B", index=0)
    result = await harness.call("undo", notebook=notebook, steps=2)
    assert harness.sources(notebook) == ["of B", "a = 1", "# Title", "b = 2\nprint(b)"]
    assert len(result.undone) == 2
    history = await harness.call("notebook_history", notebook=notebook)
    assert [(entry.author, entry.yours) for entry in history.entries][:2] == [
        ("agent A", True),
        ("agent B", False),
    ]
    assert [entry.state for entry in history.entries] == ["done", "done", "undone", "undone"]


@pytest.mark.proves("edit:history")
async def test_undo_leaves_what_a_person_worked_on_since(harness, notebook):
    await harness.call("read_notebook", notebook=notebook)
    await harness.call("overwrite_cell", notebook=notebook, cell=0, source="a = 2")
    harness.write("n.ipynb", "a = 'typed'", ("markdown", "# Title"))
    with pytest.raises(Conflict):
        await harness.call("undo", notebook=notebook)
    assert harness.sources(notebook)[0] == "a = 'typed'"


@pytest.mark.proves("edit:history")
async def test_undo_to_a_checkpoint(harness, notebook):
    await harness.call("insert_cell", notebook=notebook, source="kept")
    checkpoint = (await harness.call("notebook_history", notebook=notebook)).entries[0].id
    for number in range(3):
        await harness.call("insert_cell", notebook=notebook, source=f"{number}")
    await harness.call("undo", notebook=notebook, checkpoint=checkpoint)
    assert harness.sources(notebook)[3:] == ["kept"]


@pytest.mark.proves("ext:multi-user")
async def test_callers_do_not_touch_each_others_current_notebook_reads_or_undo(harness, notebook):
    harness.write("other.ipynb", "x = 1")
    await harness.call("use_notebook", caller=ALICE, notebook=notebook)
    await harness.call("use_notebook", caller=BOB, notebook="other.ipynb")
    await harness.call("read_cell", caller=ALICE, cell=0)
    await harness.call("insert_cell", caller=ALICE, source="of A")
    assert harness.sources("other.ipynb") == ["x = 1"]
    with pytest.raises(Conflict):  # what A read, B has not
        await harness.call("overwrite_cell", caller=BOB, notebook=notebook, cell=0, source="of B")
    with pytest.raises(NothingToUndo):
        await harness.call("undo", caller=BOB, notebook=notebook)
    with pytest.raises(InvalidArguments):
        await harness.call("list_cells", caller=NOBODY)
