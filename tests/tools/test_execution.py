"""Running cells and code."""

import asyncio
import re

import pytest

from tests.harness import ALICE, BOB
from tk_ai_extension.model.errors import (
    InvalidArguments,
)
from tk_ai_extension.tools.registry import ToolContext


@pytest.fixture
def notebook(harness):
    harness.write("n.ipynb", "x = 41", "print('out')\nx + 1", ("markdown", "text"), "1/0", "y = 5")
    return "n.ipynb"


@pytest.mark.proves("exec:tools")
async def test_a_cell_runs_and_its_outputs_are_in_the_notebook(harness, notebook):
    await harness.call("execute_cell", notebook=notebook, cell=0)
    result = await harness.call("execute_cell", notebook=notebook, cell="cellb000")
    assert result.status == "ok"
    assert result.runs[0].output == "out\n42"
    assert result.runs[0].execution_count == 2
    stored = harness.on_disk(notebook).cells[1]
    assert stored.execution_count == 2
    assert [output.output_type for output in stored.outputs] == ["stream", "execute_result"]


@pytest.mark.proves("exec:not-connected")
async def test_without_a_notebook_the_error_says_what_to_do(harness, notebook):
    for tool, arguments in (
        ("execute_cell", {"cell": 0}),
        ("execute_ipython", {"code": "1"}),
        ("insert_and_execute_cell", {"source": "1"}),
    ):
        with pytest.raises(
            InvalidArguments, match=r"No notebook connected\. Use use_notebook first"
        ) as raised:
            await harness.call(tool, **arguments)
        assert tool in raised.value.message
    assert (await harness.call("execute_ipython", notebook=notebook, code="1 + 1")).runs[
        0
    ].output == "2"


@pytest.mark.proves("exec:tools")
async def test_scratch_code_leaves_the_notebook_alone(harness, notebook):
    before = (harness.root / notebook).read_bytes()
    await harness.call("use_notebook", notebook=notebook)
    result = await harness.call("execute_ipython", code="z = 7\nz")
    assert result.runs[0].output == "7"
    assert (harness.root / notebook).read_bytes() == before


@pytest.mark.proves("edit:mutate-and-execute", "exec:tools")
async def test_insert_and_execute(harness, notebook):
    result = await harness.call(
        "insert_and_execute_cell", notebook=notebook, source="print('new')", after=0
    )
    assert result.runs[0].output == "new"
    assert result.runs[0].index == 1
    assert harness.on_disk(notebook).cells[1].outputs[0].text == "new\n"
    assert result.total_cells == 6


async def test_no_kernel_starts_for_an_edit_that_cannot_be_applied(harness, notebook):
    with pytest.raises(InvalidArguments, match="out of range"):
        await harness.call("insert_and_execute_cell", notebook=notebook, source="1", index=99)
    assert (await harness.call("list_running_kernels")).kernels == []


async def test_an_exception_is_an_error_result_with_a_short_traceback(harness, notebook):
    result = await harness.call("execute_cell", notebook=notebook, cell=3)
    assert result.is_error
    assert result.status == "error"
    assert result.runs[0].error == "ZeroDivisionError: division by zero"
    assert "----> 1 1/0" in result.full_text()
    assert "\x1b" not in result.full_text()
    assert any("\x1b" in line for line in harness.on_disk(notebook).cells[3].outputs[0].traceback)


async def test_many_cells_run_in_order_and_stop_at_the_first_error(harness, notebook):
    result = await harness.call("execute_cells", notebook=notebook, which="all")
    assert [run.status for run in result.runs] == ["ok", "ok", "error"]
    assert result.skipped == 1
    assert result.is_error
    result = await harness.call(
        "execute_cells", notebook=notebook, cells="0,3-4", stop_on_error=False
    )
    assert [run.status for run in result.runs] == ["ok", "error", "ok"]
    assert result.status == "error"


async def test_stale_cells_alone_are_run_again(harness):
    harness.write("s.ipynb", "a = 1", "b = a + 1", "print(b)", "c = 0")
    await harness.call("execute_cells", notebook="s.ipynb", which="all")
    await harness.call("read_notebook", notebook="s.ipynb")
    await harness.call("overwrite_cell", notebook="s.ipynb", cell=0, source="a = 10")
    listed = await harness.call("list_cells", notebook="s.ipynb")
    assert [cell.state for cell in listed.cells] == ["edited", "stale", "stale", "fresh"]
    result = await harness.call("execute_cells", notebook="s.ipynb", which="stale")
    assert [run.index for run in result.runs] == [0, 1, 2]
    assert result.runs[-1].output == "11"
    listed = await harness.call("list_cells", notebook="s.ipynb")
    assert {cell.state for cell in listed.cells} == {"fresh"}


async def test_restart_first_begins_with_a_clean_kernel(harness, notebook):
    await harness.call("execute_ipython", notebook=notebook, code="x = 100; leftover = 1")
    result = await harness.call("execute_cells", notebook=notebook, cells="0-1", restart=True)
    assert result.runs[1].output == "out\n42"
    assert (await harness.call("execute_ipython", notebook=notebook, code="leftover")).is_error


@pytest.mark.proves("out:stream", "exec:progress")
async def test_a_long_execution_reports_progress_and_is_followed(harness, notebook):
    messages = []

    async def progress(message):
        messages.append(message)

    await harness.call("use_notebook", notebook=notebook)
    code = "import time\nfor i in range(4):\n    print('step', i, flush=True)\n    time.sleep(0.4)"
    context = ToolContext(harness.workspace, ALICE, progress)
    result = await harness.registry.call("execute_ipython", {"code": code, "wait": 1.0}, context)
    assert result.status == "running"
    assert not result.is_error
    assert result.runs[0].output.startswith("step 0")
    assert messages
    assert re.search(r"code running, \d+ s: step \d", messages[-1])
    followed = await harness.call(
        "wait_execution", execution_id=result.execution_id, since=result.next
    )
    assert followed.status == "ok"
    assert "step 0" not in followed.runs[0].output
    assert followed.runs[0].output.endswith("step 3")


@pytest.mark.proves("exec:timeout")
async def test_a_timeout_interrupts_and_keeps_what_was_printed(harness, notebook):
    code = "print('begun', flush=True)\nimport time\ntime.sleep(60)"
    result = await harness.call("execute_ipython", notebook=notebook, code=code, timeout=1)
    assert result.status == "timed_out"
    assert result.is_error
    assert "begun" in result.runs[0].output
    assert "1" in result.runs[0].message
    assert (await harness.call("execute_ipython", notebook=notebook, code="2")).runs[
        0
    ].output == "2"


async def test_an_execution_is_interrupted_by_its_id_while_it_runs_and_while_it_waits(
    harness, notebook
):
    await harness.call("use_notebook", notebook=notebook)
    first = await harness.call("execute_ipython", code="import time\ntime.sleep(60)", wait=0.5)
    second = await harness.call("execute_ipython", code="2", wait=0)
    assert second.status == "queued"
    status = await harness.call("get_kernel_status")
    assert (status.kernel.running, status.kernel.queued) == (first.execution_id, 1)
    await harness.call("interrupt_kernel", execution_id=second.execution_id)
    assert (
        await harness.call("wait_execution", execution_id=second.execution_id)
    ).status == "interrupted"
    result = await harness.call("interrupt_kernel", execution_id=first.execution_id)
    assert result.outcome == "ok"
    ended = await harness.call("wait_execution", execution_id=first.execution_id)
    assert ended.status == "interrupted"
    assert ended.is_error


@pytest.mark.proves("exec:stdin")
async def test_input_is_refused_and_says_what_was_asked(harness, notebook):
    result = await harness.call(
        "execute_ipython", notebook=notebook, code="name = input('Your name? ')", wait=20
    )
    assert result.status != "running"
    assert result.prompt == "Your name? "
    assert "input_requested" in result.full_text()


@pytest.mark.proves("out:truncate", "out:artifact")
async def test_a_long_output_is_cut_and_the_whole_is_an_artifact(harness, notebook):
    result = await harness.call(
        "execute_ipython", notebook=notebook, code="for i in range(20_000): print('line', i)"
    )
    run = result.runs[0]
    assert len(run.output) < 9_000
    assert run.output.endswith("line 19999")
    assert f"read_output {run.artifact}" in run.output
    assert f" left out of {run.total_lines:,};" in run.output
    page = await harness.call("read_output", artifact=run.artifact, offset=10_000, limit=3)
    assert page.content == "line 10000\nline 10001\nline 10002"
    found = await harness.call("read_output", artifact=run.artifact, grep="line 1234$")
    assert "line 1234" in found.content


@pytest.mark.proves("out:structured")
async def test_a_plot_comes_as_a_picture(harness, notebook):
    code = "import matplotlib.pyplot as plt\n%matplotlib inline\nplt.plot([1, 2]);"
    result = await harness.call("execute_ipython", notebook=notebook, code=code, wait=60)
    assert result.status == "ok", result.full_text()
    assert result.images[0].mime == "image/png"
    assert "[image/png]" in result.full_text()


@pytest.mark.proves("exec:concurrent", "kernel:queue")
async def test_two_callers_queue_and_an_error_of_one_drops_nothing_of_the_other(harness, notebook):
    def run(caller, code):
        return harness.call("execute_ipython", caller=caller, notebook=notebook, code=code)

    await harness.call("use_notebook", notebook=notebook)
    results = await asyncio.gather(
        run(ALICE, "import time; time.sleep(0.3); 1/0"), run(BOB, "'B'"), run(ALICE, "'A'")
    )
    assert [result.status for result in results] == ["error", "ok", "ok"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("execute_ipython", {"code": ""}),
        ("execute_ipython", {"code": "a\0b"}),
        ("execute_cell", {"cell": 2}),
        ("execute_cells", {}),
        ("execute_cells", {"cells": "0", "which": "all"}),
        ("execute_cells", {"cells": "2"}),
        ("execute_cells", {"cells": "0,,1"}),
        ("execute_ipython", {"code": "1", "wait": -1}),
        ("execute_ipython", {"code": "1", "timeout": 0}),
    ],
)
async def test_wrong_calls_are_refused(harness, notebook, tool, arguments):
    with pytest.raises(InvalidArguments):
        await harness.call(tool, notebook=notebook, **arguments)


@pytest.mark.proves("exec:saved", "out:stream")
async def test_the_file_has_the_outputs_of_a_running_cell_within_two_seconds(harness):
    code = (
        "import time\nfor i in range(100):\n    print('tick', i, flush=True)\n    time.sleep(0.2)"
    )
    harness.write("slow.ipynb", code)
    await harness.call("use_notebook", notebook="slow.ipynb")
    running = await harness.call("execute_cell", cell=0, wait=3.5)
    assert running.status == "running"
    stored = harness.on_disk("slow.ipynb").cells[0].outputs
    shown = stored[0].text.count("\n")
    assert shown >= 5
    seen = await harness.call("read_cell", cell=0)
    assert seen.output.count("tick") >= shown
    assert seen.state == "running"
    await harness.call("interrupt_kernel", execution_id=running.execution_id)
    assert harness.on_disk("slow.ipynb").cells[0].outputs[-1].output_type == "error"


@pytest.mark.proves("edit:tools", "exec:concurrent")
async def test_a_running_cell_is_followed_while_others_edit_move_and_delete(harness):
    harness.write(
        "m.ipynb",
        "import time\nprint('a', flush=True)\ntime.sleep(1.5)\nprint('b')",
        "x = 1",
        "y = 1",
    )
    await harness.call("use_notebook", notebook="m.ipynb")
    running = await harness.call("execute_cell", cell=0, wait=0.3)
    await harness.call("insert_cell", caller=BOB, notebook="m.ipynb", source="above", index=0)
    await harness.call("move_cell", caller=BOB, notebook="m.ipynb", cell="cella000", to=3)
    await harness.call("list_cells", caller=BOB, notebook="m.ipynb")
    await harness.call("delete_cell", caller=BOB, notebook="m.ipynb", cell="cellb000")
    ended = await harness.call("wait_execution", execution_id=running.execution_id)
    assert ended.status == "ok"
    cells = harness.on_disk("m.ipynb").cells
    assert [cell.id for cell in cells][1:] == ["cellc000", "cella000"]
    assert cells[2].outputs[0].text == "a\nb\n"
    assert cells[2].execution_count == 1
