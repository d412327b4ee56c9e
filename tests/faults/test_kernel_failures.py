"""What a caller of the tools sees when kernels fail, with each executor and each document.

The suite runs each executor with one document and each document with one executor; `make soak` runs
the full product.
"""

import asyncio

import pytest

from tests.harness import BOB, ToolHarness
from tests.support.faults import (
    EXITS,
    GARBAGE,
    KILL_ITSELF,
    OUT_OF_MEMORY,
    RUN_FOREVER,
    SLEEPS,
    LoopMeter,
    kill,
    print_lines,
    processes_with,
    show_displays,
    write_broken_kernelspec,
)
from tk_ai_extension.model.errors import KernelStartFailed

NEVER_READY = {
    "sleeps": (SLEEPS, "I sleep"),
    "exits": (EXITS, "no such module"),
    "garbage": (GARBAGE, "hangs"),
}
"""Kernels that never answer, and what is reported of them."""
pytestmark = pytest.mark.parametrize("backend", ["direct", "stack"])


@pytest.fixture
async def used(harness: ToolHarness):
    harness.write("n.ipynb", "x = 1")
    return await harness.call("use_notebook", notebook="n.ipynb")


async def run(harness, source, **arguments):
    return await harness.call("insert_and_execute_cell", source=source, **arguments)


async def started(harness, source):
    """Starts a cell and returns once it has printed something."""
    result = await run(harness, source, wait=0)
    execution = harness.workspace.executions.get(harness.caller, result.execution_id)
    async with asyncio.timeout(20):
        while not execution.steps[0].outputs:
            await execution.changed(execution.version, None)
    return result


def printed(notebook, index=-1) -> str:
    """What a cell printed, as the file on disk has it."""
    return "".join(output.get("text", "") for output in notebook.cells[index].outputs)


async def works_again(harness):
    result = await harness.call("execute_ipython", code="6 * 7", wait=60)
    assert result.runs[0].output == "42", result.full_text()


@pytest.mark.proves("fault:kernel-killed", "exec:statuses", "kernel:auto-restart")
async def test_a_kernel_that_is_killed_in_a_cell(harness, used):
    waiting = asyncio.create_task(
        harness.call("execute_ipython", caller=BOB, notebook="n.ipynb", code="'after'", wait=60)
    )
    result = await run(
        harness, f"print('kept', flush=True)\nimport time; time.sleep(0.3)\n{KILL_ITSELF}"
    )
    assert result.status == "kernel_died"
    assert "kept" in result.full_text()
    assert (await waiting).status in ("ok", "kernel_died")
    await harness.saved("n.ipynb", lambda notebook: "kept" in printed(notebook))
    await works_again(harness)


@pytest.mark.proves("fault:kernel-killed")
async def test_a_kernel_that_runs_out_of_memory(harness, used):
    result = await run(harness, OUT_OF_MEMORY)
    assert (result.status, result.runs[0].error.split(":")[0]) == ("error", "MemoryError")
    running = await started(harness, RUN_FOREVER)
    pid = (await harness.workspace.kernels.info(used.kernel_id)).pid
    kill(pid)
    async with asyncio.timeout(5):
        result = await harness.call("wait_execution", execution_id=running.execution_id)
    assert result.status == "kernel_died"
    assert "possibly out of memory" in result.full_text()
    await works_again(harness)


@pytest.mark.proves("fault:never-ready", "kernel:readiness")
async def test_a_kernel_that_never_gets_ready(harness, jp_kernel_dir, tmp_path, subtests):
    harness.workspace.kernels.ready_timeout = 2.0
    for name, (broken, message) in NEVER_READY.items():
        with subtests.test(name):
            code = f"{broken}  # {tmp_path}"  # other tests, at the same time, have such processes
            write_broken_kernelspec(jp_kernel_dir, name, code)
            path = f"{name}.ipynb"
            harness.write(path, "x", kernelspec={"name": name, "display_name": "Broken"})
            with pytest.raises(KernelStartFailed) as raised:
                await harness.call("use_notebook", notebook=path)
            assert message in raised.value.message
            assert harness.app.kernel_manager.list_kernel_ids() == []
            assert processes_with(code) == []


@pytest.mark.proves("exec:statuses")
async def test_a_kernel_that_a_person_restarts_or_shuts_down_under_a_running_cell(
    harness, used, jp_fetch
):
    running = await started(harness, RUN_FOREVER)
    await jp_fetch("api", "kernels", used.kernel_id, "restart", method="POST", body="{}")
    result = await harness.call("wait_execution", execution_id=running.execution_id)
    assert result.status == "kernel_restarted"
    await harness.saved("n.ipynb", lambda notebook: "running" in printed(notebook))
    await works_again(harness)

    running = await started(harness, RUN_FOREVER)
    await jp_fetch("api", "kernels", used.kernel_id, method="DELETE")
    result = await harness.call("wait_execution", execution_id=running.execution_id)
    assert result.status == "kernel_died"
    await works_again(harness)


@pytest.mark.proves("fault:flood", "exec:no-block")
async def test_a_flood_of_lines_is_whole_in_the_notebook(harness, used):
    with LoopMeter() as meter:
        result = await run(harness, print_lines(100_000), wait=100)
    assert result.status == "ok"
    notebook = await harness.saved(
        "n.ipynb", lambda notebook: printed(notebook).count("\n") == 100_000
    )
    assert printed(notebook).splitlines()[-1].strip() == "99999"
    assert result.runs[0].artifact
    assert meter.longest < 0.5


@pytest.mark.proves("fault:flood")
async def test_a_flood_of_displays_is_in_the_notebook(harness, used):
    count = 2_000  # A client drops messages beyond 1,000 by default.
    result = await run(harness, show_displays(count), wait=100)
    assert result.status == "ok"
    document = await harness.workspace.store.open("n.ipynb")
    key = result.runs[0].cell
    outputs = await document.outputs(key)
    shown = [int(output["data"]["text/plain"]) for output in outputs if "data" in output]
    assert shown == list(range(count))


@pytest.mark.proves("exec:stdin")
async def test_a_cell_that_asks_for_input(harness, used):
    async with asyncio.timeout(20):
        result = await run(harness, "name = input('Who? ')\nprint('hello', name)")
    assert result.status in ("ok", "error", "interrupted")
    assert result.prompt == "Who? "
    await works_again(harness)


@pytest.mark.proves("fault:concurrent-edit")
async def test_two_agents_and_a_person_edit_while_a_cell_runs(harness, used):
    running = await started(harness, RUN_FOREVER)

    async def insert(caller, number):
        return await harness.call(
            "insert_cell",
            caller=caller,
            notebook="n.ipynb",
            source=f"of {number}",
            index=number % 2,
        )

    await asyncio.gather(*(insert(BOB if n % 2 else None, n) for n in range(8)))
    await harness.call("interrupt_kernel", execution_id=running.execution_id)
    sources = [
        cell.source for cell in (await (await harness.workspace.store.open("n.ipynb")).read()).cells
    ]
    assert sum("of " in source for source in sources) == 8
    await harness.saved("n.ipynb", lambda notebook: len(notebook.cells) == 10)
