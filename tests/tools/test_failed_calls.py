"""What a hostile or failed call must not cost: variables, edits, answers, other callers' time."""

import pytest

from tests.harness import ALICE
from tests.support.faults import LoopMeter
from tk_ai_extension.model import cells
from tk_ai_extension.model.errors import (
    CellNotFound,
    InvalidArguments,
    KernelspecNotFound,
    PermissionRequired,
)
from tk_ai_extension.model.names import names_of
from tk_ai_extension.workspace.patterns import Pattern


@pytest.fixture
def notebook(harness):
    harness.write("n.ipynb", "a = 1", "print('second')")
    return "n.ipynb"


async def test_a_wrong_range_restarts_nothing(harness, notebook):
    await harness.call("execute_ipython", notebook=notebook, code="kept = 1")
    with pytest.raises(CellNotFound):
        await harness.call("execute_cells", notebook=notebook, cells="99", restart=True)
    assert (await harness.call("execute_ipython", notebook=notebook, code="kept")).status == "ok"


@pytest.mark.proves("edit:batch")
async def test_a_batch_that_cannot_run_changes_nothing(harness):
    harness.write("n.ipynb", "a = 1", kernelspec={"name": "cobol", "display_name": "Cobol"})
    operations = [{"action": "insert", "source": "b"}]
    with pytest.raises(KernelspecNotFound):
        await harness.call("edit_cells", notebook="n.ipynb", operations=operations, run=True)
    assert harness.sources("n.ipynb") == ["a = 1"]


async def test_a_cancelled_run_starts_no_further_cell(harness):
    deaf = "import time\ntry:\n    print('on', flush=True); time.sleep(60)\nexcept KeyboardInterrupt: pass"
    harness.write("n.ipynb", deaf, "print('must not run')")
    await harness.call("use_notebook", notebook="n.ipynb")
    running = await harness.call("execute_cells", which="all", wait=1.5)
    await harness.call("interrupt_kernel", execution_id=running.execution_id)
    ended = await harness.call("wait_execution", execution_id=running.execution_id)
    assert ended.skipped == 1
    assert harness.on_disk("n.ipynb").cells[1].outputs == []


@pytest.mark.proves("out:truncate")
async def test_an_answer_survives_an_output_that_is_too_large_to_keep(harness, notebook):
    harness.workspace.artifacts._max_each = 10_000
    result = await harness.call("execute_ipython", notebook=notebook, code="print('x' * 50_000)")
    assert result.status == "ok"
    assert "the whole was not saved" in result.runs[0].output


async def test_no_source_breaks_the_list_of_cells(harness, monkeypatch):
    sources = [
        "s = " + " + ".join(['"ab"'] * 3_000),
        "\n" * 12_000 + "1 +",
        "x = \\",
        "%%writefile dump\n" + "0a" * 10_000,
    ]
    harness.write("n.ipynb", *sources, "y = 1")
    # Only cells above one that has run are read for names.
    runs = harness.workspace.runs
    runs.ran("n.ipynb", "celle000", cells.source_hash("y = 1"), runs.incarnation("a"), ok=True)
    read = []

    def names(source):
        read.append(source)
        return names_of(source)

    monkeypatch.setattr(cells, "names_of", names)
    with LoopMeter() as meter:
        listed = (await harness.call("list_cells", notebook="n.ipynb")).cells
    assert listed[-1].state == "fresh"
    assert {*sources} <= {*read}
    assert meter.longest < 0.5


@pytest.mark.parametrize("address", [f"cell-{'9' * 5_000}", "9" * 5_000, f"@{'9' * 5_000}"])
async def test_a_huge_index_is_no_cell(harness, notebook, address):
    with pytest.raises(CellNotFound):
        await harness.call("read_cell", notebook=notebook, cell=address)
    with pytest.raises(CellNotFound):
        await harness.call("clear_outputs", notebook=notebook, cells=f"0-{'9' * 5_000}")


async def test_half_a_character_is_replaced_where_it_comes_in(harness, notebook):
    await harness.call("insert_cell", notebook=notebook, source="x\ud800", index=0)
    assert harness.sources(notebook)[0] == "x\ufffd"


async def test_a_pattern_that_backtracks_does_not_hold_the_loop(harness, monkeypatch):
    monkeypatch.setitem(Pattern.__init__.__kwdefaults__, "seconds", 0.7)
    harness.write("n.ipynb", "a" * 40 + "!")
    with LoopMeter() as meter, pytest.raises(InvalidArguments, match="longer than"):
        await harness.call("search_cells", notebook="n.ipynb", pattern="^(a|a|aa)+$")
    assert meter.longest < 0.2


async def test_shutting_a_kernel_down_asks_like_any_execution(harness, notebook):
    from dataclasses import replace

    await harness.call("use_notebook", notebook=notebook)
    with pytest.raises(PermissionRequired):
        await harness.call(
            "unuse_notebook", caller=replace(ALICE, mode="edit"), shutdown_kernel=True
        )
    assert harness.app.kernel_manager.list_kernel_ids()


async def test_users_of_a_notebook_are_listed_without_session_keys(harness, notebook):
    await harness.call("use_notebook", notebook=notebook)
    (listed,) = (await harness.call("list_notebooks")).notebooks
    assert listed.open_by == ["alice"]


async def test_no_code_is_not_inserted_to_be_run(harness, notebook):
    with pytest.raises(InvalidArguments):
        await harness.call("insert_and_execute_cell", notebook=notebook, source=" ")
    assert len(harness.sources(notebook)) == 2
