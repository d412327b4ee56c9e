"""Changing cells: answers are what happened, and only what was seen is changed."""

import asyncio

import pytest

from tests.desk import ALICE, BOB, NOBODY
from tk_ai_extension.model.errors import Conflict, InvalidArguments, NotebookRequired


@pytest.fixture
def notebook(desk):
    desk.write("n.ipynb", "a = 1", ("markdown", "# Title"), "b = 2\nprint(b)")
    return "n.ipynb"


@pytest.mark.proves("edit:tools")
async def test_insert_at_each_place(desk, notebook):
    first = await desk.call("insert_cell", notebook=notebook, source="first", index=0)
    await desk.call("insert_cell", notebook=notebook, source="last")
    await desk.call(
        "insert_cell", notebook=notebook, source="text", cell_type="markdown", after="cellb000"
    )
    await desk.call("insert_cell", notebook=notebook, source="raw", cell_type="raw", before=1)
    assert desk.sources(notebook) == [
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
async def test_overwrite_needs_to_have_seen_the_cell(desk, notebook):
    with pytest.raises(Conflict) as raised:
        await desk.call("overwrite_cell", notebook=notebook, cell=2, source="b = 3")
    assert raised.value.details["cells"][0]["source"] == "b = 2\nprint(b)"
    assert "b = 2" in raised.value.as_text()
    assert desk.sources(notebook)[2] == "b = 2\nprint(b)"
    # The refusal showed the source, and that counts as having seen it.
    result = await desk.call("overwrite_cell", notebook=notebook, cell=2, source="b = 3\nprint(b)")
    assert result.changes[0].diff == "@@ -1,2 +1,2 @@\n-b = 2\n+b = 3\n print(b)"
    assert desk.sources(notebook)[2] == "b = 3\nprint(b)"


@pytest.mark.proves("doc:conflict")
async def test_the_sources_in_a_conflict_of_a_written_text_count_as_seen(desk, notebook):
    text = (await desk.call("read_notebook", notebook=notebook)).text
    await desk.call("overwrite_cell", notebook=notebook, cell=2, source="b = 5")
    with pytest.raises(Conflict) as raised:
        await desk.call(
            "write_notebook", caller=BOB, notebook=notebook, text=text.replace("b = 2", "b = 7")
        )
    assert raised.value.details["cells"][0]["source"] == "b = 5"
    await desk.call("overwrite_cell", caller=BOB, notebook=notebook, cell=2, source="b = 7")
    assert desk.sources(notebook)[2] == "b = 7"


async def test_a_line_of_list_cells_licenses_only_what_it_showed_whole(desk, notebook):
    listed = await desk.call("list_cells", notebook=notebook)
    assert [cell.address is not None for cell in listed.cells] == [True, True, False]
    await desk.call("overwrite_cell", notebook=notebook, cell=0, source="a = 9")
    with pytest.raises(Conflict):
        await desk.call("overwrite_cell", notebook=notebook, cell=2, source="c")


async def test_a_versioned_address_needs_no_session(desk, notebook):
    with pytest.raises(Conflict) as refused:
        await desk.call("overwrite_cell", caller=NOBODY, notebook=notebook, cell=0, source="x")
    assert "versioned address" in refused.value.hint
    with pytest.raises(Conflict):  # a caller without a key is remembered nowhere
        await desk.call("overwrite_cell", caller=NOBODY, notebook=notebook, cell=0, source="x")
    read = await desk.call("read_cell", caller=NOBODY, notebook=notebook, cell=0)
    changed = await desk.call(
        "overwrite_cell", caller=NOBODY, notebook=notebook, cell=read.address, source="x = 1"
    )
    with pytest.raises(Conflict) as raised:
        await desk.call("delete_cell", caller=NOBODY, notebook=notebook, cell=read.address)
    assert raised.value.details["cells"][0]["address"] == changed.changes[0].address
    await desk.call(
        "delete_cell", caller=NOBODY, notebook=notebook, cell=changed.changes[0].address
    )
    assert desk.sources(notebook) == ["# Title", "b = 2\nprint(b)"]


@pytest.mark.proves("doc:conflict")
async def test_a_users_edit_between_read_and_write_is_a_conflict_and_loses_nothing(desk, notebook):
    await desk.call("read_cell", notebook=notebook, cell=0)
    desk.write("n.ipynb", "a = 'typed by a person'", ("markdown", "# Title"))
    with pytest.raises(Conflict) as raised:
        await desk.call("overwrite_cell", notebook=notebook, cell="cella000", source="a = 2")
    assert raised.value.details["cells"][0]["source"] == "a = 'typed by a person'"
    assert desk.sources(notebook)[0] == "a = 'typed by a person'"


@pytest.mark.proves("edit:tools")
async def test_edit_replaces_a_string_that_occurs_once(desk, notebook):
    await desk.call("read_notebook", notebook=notebook)
    await desk.call("edit_cell", notebook=notebook, cell=2, old="b = 2", new="b = 5")
    assert desk.sources(notebook)[2] == "b = 5\nprint(b)"
    for old in ("b", "nothing", ""):
        with pytest.raises(InvalidArguments):
            await desk.call("edit_cell", notebook=notebook, cell=2, old=old, new="z")
    await desk.call("edit_cell", notebook=notebook, cell=2, old="b", new="c", replace_all=True)
    assert desk.sources(notebook)[2] == "c = 5\nprint(c)"


@pytest.mark.proves("edit:tools")
async def test_delete_answers_with_what_was_removed(desk, notebook):
    await desk.call("read_cell", notebook=notebook, cell=-1)
    result = await desk.call("delete_cell", notebook=notebook, cell="cell-2")
    assert result.changes[0].removed_source == "b = 2\nprint(b)"
    assert "print(b)" in result.full_text()
    assert desk.sources(notebook) == ["a = 1", "# Title"]


@pytest.mark.proves("edit:tools")
@pytest.mark.parametrize(
    ("start", "to", "order"), [(0, 2, "bca"), (2, 0, "cab"), (1, -1, "acb"), (1, 1, "abc")]
)
async def test_the_index_after_a_move_is_the_one_asked_for(desk, start, to, order):
    desk.write("m.ipynb", "a", "b", "c")
    result = await desk.call("move_cell", notebook="m.ipynb", cell=start, to=to)
    assert "".join(desk.sources("m.ipynb")) == order
    assert result.changes[0].index == to % 3


async def test_outputs_are_cleared_by_range_and_altogether(desk, notebook):
    await desk.call("execute_cells", notebook=notebook, which="all")
    assert desk.on_disk(notebook).cells[2].outputs[0].text == "2\n"
    for cells in ("-3", "0"):
        await desk.call("clear_outputs", notebook=notebook, cells=cells)
        assert desk.on_disk(notebook).cells[2].outputs[0].text == "2\n"
        await desk.call("execute_cell", notebook=notebook, cell=0)
    await desk.call("clear_outputs", notebook=notebook, cells="-1")
    assert desk.on_disk(notebook).cells[2].outputs == []
    assert desk.on_disk(notebook).cells[0].execution_count == 4
    await desk.call("clear_outputs", notebook=notebook, all=True)
    assert desk.on_disk(notebook).cells[0].execution_count is None
    with pytest.raises(InvalidArguments):
        await desk.call("clear_outputs", notebook=notebook)


async def test_overwriting_clears_outputs_unless_kept_and_can_change_the_type(desk, notebook):
    await desk.call("execute_cell", notebook=notebook, cell=2)
    await desk.call("read_cell", notebook=notebook, cell=2)
    await desk.call("overwrite_cell", notebook=notebook, cell=2, source="b", keep_outputs=True)
    assert desk.on_disk(notebook).cells[2].outputs
    await desk.call("overwrite_cell", notebook=notebook, cell=2, source="b")
    assert desk.on_disk(notebook).cells[2].outputs == []
    await desk.call("overwrite_cell", notebook=notebook, cell=2, source="b", cell_type="markdown")
    assert desk.on_disk(notebook).cells[2].cell_type == "markdown"


@pytest.mark.proves("edit:batch")
async def test_a_batch_is_applied_whole_or_not_at_all(desk, notebook):
    await desk.call("read_notebook", notebook=notebook)
    operations = [
        {"action": "overwrite", "cell": 0, "source": "a = 10"},
        {"action": "insert", "after": "cella000", "source": "new"},
        {"action": "edit", "cell": "cellc000", "old": "2", "new": "20"},
        {"action": "move", "cell": "cellb000", "to": 0},
    ]
    result = await desk.call("edit_cells", notebook=notebook, operations=operations)
    assert desk.sources(notebook) == ["# Title", "a = 10", "new", "b = 20\nprint(b)"]
    assert [change.action for change in result.changes] == ["replace", "insert", "replace", "move"]
    before = (desk.root / notebook).read_bytes()
    failing = [
        {"action": "delete", "cell": 0},
        {"action": "edit", "cell": 1, "old": "nowhere", "new": ""},
    ]
    with pytest.raises(InvalidArguments):
        await desk.call("edit_cells", notebook=notebook, operations=failing)
    assert (desk.root / notebook).read_bytes() == before


@pytest.mark.proves("edit:batch", "edit:mutate-and-execute")
async def test_a_batch_that_runs_is_taken_back_when_a_cell_fails(desk, notebook):
    await desk.call("read_notebook", notebook=notebook)
    good = [{"action": "overwrite", "cell": 2, "source": "print('ran')"}]
    result = await desk.call("edit_cells", notebook=notebook, operations=good, run=True)
    assert (result.status, result.runs[0].output) == ("ok", "ran")
    bad = [
        {"action": "overwrite", "cell": 2, "source": "1/0"},
        {"action": "insert", "source": "never run"},
    ]
    result = await desk.call("edit_cells", notebook=notebook, operations=bad, run=True)
    assert result.is_error
    assert result.rolled_back
    assert "ZeroDivisionError" in result.full_text()
    assert desk.sources(notebook) == ["a = 1", "# Title", "print('ran')"]


@pytest.mark.proves("edit:history")
async def test_undo_takes_back_ones_own_changes_and_leaves_others(desk, notebook):
    await desk.call("read_notebook", notebook=notebook)
    await desk.call("overwrite_cell", notebook=notebook, cell=0, source="a = 2")
    await desk.call("delete_cell", notebook=notebook, cell=1)
    await desk.call("insert_cell", caller=BOB, notebook=notebook, source="of B", index=0)
    result = await desk.call("undo", notebook=notebook, steps=2)
    assert desk.sources(notebook) == ["of B", "a = 1", "# Title", "b = 2\nprint(b)"]
    assert len(result.undone) == 2
    history = await desk.call("notebook_history", notebook=notebook)
    assert [(entry.author, entry.yours) for entry in history.entries][:2] == [
        ("agent A", True),
        ("agent B", False),
    ]
    assert [entry.state for entry in history.entries] == ["done", "done", "undone", "undone"]


@pytest.mark.proves("edit:history")
async def test_undo_leaves_what_a_person_worked_on_since(desk, notebook):
    await desk.call("read_notebook", notebook=notebook)
    await desk.call("overwrite_cell", notebook=notebook, cell=0, source="a = 2")
    desk.write("n.ipynb", "a = 'typed'", ("markdown", "# Title"))
    with pytest.raises(Conflict):
        await desk.call("undo", notebook=notebook)
    assert desk.sources(notebook)[0] == "a = 'typed'"


@pytest.mark.proves("edit:history")
async def test_undo_to_a_checkpoint(desk, notebook):
    await desk.call("insert_cell", notebook=notebook, source="kept")
    checkpoint = (await desk.call("notebook_history", notebook=notebook)).entries[0].id
    for number in range(3):
        await desk.call("insert_cell", notebook=notebook, source=f"{number}")
    await desk.call("undo", notebook=notebook, checkpoint=checkpoint)
    assert desk.sources(notebook)[3:] == ["kept"]


@pytest.mark.proves("ext:multi-user")
async def test_callers_do_not_touch_each_others_current_notebook_reads_or_undo(desk, notebook):
    desk.write("other.ipynb", "x = 1")
    await desk.call("use_notebook", caller=ALICE, notebook=notebook)
    await desk.call("use_notebook", caller=BOB, notebook="other.ipynb")
    await desk.call("read_cell", caller=ALICE, cell=0)
    await desk.call("insert_cell", caller=ALICE, source="of A")
    assert desk.sources("other.ipynb") == ["x = 1"]
    with pytest.raises(Conflict):  # what A read, B has not
        await desk.call("overwrite_cell", caller=BOB, notebook=notebook, cell=0, source="of B")
    from tk_ai_extension.model.errors import NothingToUndo

    with pytest.raises(NothingToUndo):
        await desk.call("undo", caller=BOB, notebook=notebook)
    with pytest.raises(NotebookRequired):
        await desk.call("list_cells", caller=NOBODY)


@pytest.mark.proves("exec:concurrent")
async def test_parallel_inserts_and_runs_land_where_they_belong(desk, notebook):
    def insert(caller, number):
        return desk.call(
            "insert_and_execute_cell",
            caller=caller,
            notebook=notebook,
            source=f"print({number})",
            after="cella000",
        )

    results = await asyncio.gather(*(insert(ALICE if n % 2 else BOB, n) for n in range(8)))
    cells = {cell.id: cell for cell in desk.on_disk(notebook).cells}
    for number, result in enumerate(results):
        assert result.runs[0].output == str(number)
        assert cells[result.runs[0].cell].source == f"print({number})"
        assert cells[result.runs[0].cell].outputs[0].text == f"{number}\n"
