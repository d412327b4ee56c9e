"""Session kernels: a few at most, shut down when idle, started again where that helps."""

import asyncio
import errno
import inspect

import pytest

from tk_ai_extension.model.errors import LimitReached
from tk_ai_extension.workspace.python_sessions import PythonSessions


@pytest.fixture
def pooled(harness):
    """Give the harness session kernels with other limits."""

    async def pooled(**bounds):
        workspace = harness.workspace
        await workspace.python.close()
        workspace.python = PythonSessions(
            workspace.kernels, workspace.sessions, workspace.notices, **bounds
        )
        return workspace.python

    return pooled


@pytest.fixture
def shut_down(harness):
    """Waits until a kernel is shut down, also where it was already."""
    gone, changed = set(), asyncio.Event()

    def on_event(event):
        if event.kind == "shutdown":
            gone.add(event.kernel_id)
            changed.set()

    harness.workspace.kernels.subscribe(on_event)

    async def shut_down(kernel_id):
        async with asyncio.timeout(30):
            while kernel_id not in gone:
                changed.clear()
                await changed.wait()

    return shut_down


@pytest.mark.proves("kernel:pool")
async def test_at_the_limit_the_least_recently_used_goes(harness, run, pooled):
    await pooled(max_sessions=2)
    made = [await run("x = 1", session=name) for name in "ab"]
    await run("x", session="a")
    await run("x = 1", session="c")
    running = harness.workspace.kernels.ids()
    assert len(running) == 2
    assert [each.kernel_id in running for each in made] == [True, False]
    again = await run("print('x' in dir())", session="b")
    assert again.runs[0].output == "False"
    assert "to make room for another session. Its variables are lost" in again.full_text()


@pytest.mark.proves("kernel:pool")
async def test_one_that_runs_something_does_not_go(harness, run, pooled):
    await pooled(max_sessions=1)
    busy = await run("import time; time.sleep(60)", session="a", wait=0)
    with pytest.raises(LimitReached, match="are in use"):
        await run("1", session="b")
    await harness.call("interrupt_kernel", execution_id=busy.execution_id)
    await harness.call("wait_execution", execution_id=busy.execution_id)
    assert (await run("1", session="b")).status == "ok"
    assert busy.kernel_id not in harness.workspace.kernels.ids()


@pytest.mark.proves("kernel:pool")
async def test_idle_ones_are_swept_by_themselves(run, pooled, shut_down):
    await pooled(idle_after=0.0, sweep_every=0.05)
    first = await run("x = 1")
    await shut_down(first.kernel_id)


@pytest.mark.proves("kernel:pool")
async def test_a_busy_session_is_not_swept_however_long_it_takes(harness, run, pooled):
    pool = await pooled(sweep_every=3600.0)
    busy = await run("input_is_long = 1\nimport time; time.sleep(60)", wait=0)
    await pool.sweep(0.0)
    assert harness.workspace.kernels.ids() == [busy.kernel_id]
    await harness.call("interrupt_kernel", execution_id=busy.execution_id)
    await harness.call("wait_execution", execution_id=busy.execution_id)
    await pool.sweep(0.0)
    assert harness.workspace.kernels.ids() == []


@pytest.mark.proves("kernel:pool")
async def test_a_kernel_that_a_notebook_is_bound_to_outlives_its_session(harness, run, pooled):
    pool = await pooled(max_sessions=1, sweep_every=3600.0)
    harness.write("n.ipynb", "x")
    own = await run("x = 'of the session'")
    await harness.call("use_notebook", notebook="n.ipynb", kernel_id=own.kernel_id)
    await run("1", session="other")
    await pool.sweep(0.0)
    assert harness.workspace.kernels.ids() == [own.kernel_id]
    result = await harness.call("execute_cell", notebook="n.ipynb", cell=0)
    assert result.runs[0].output == "'of the session'"


@pytest.mark.proves("kernel:pool")
async def test_kernels_of_notebooks_are_never_swept(harness, run, pooled):
    pool = await pooled(sweep_every=3600.0)
    harness.write("n.ipynb", "x = 1")
    used = await harness.call("use_notebook", notebook="n.ipynb")
    await run("1")
    await pool.sweep(0.0)
    assert harness.workspace.kernels.ids() == [used.kernel_id]


@pytest.fixture
def failing(harness, monkeypatch):
    """Has Jupyter's kernel manager fail to start kernels, so many times, with an error."""

    def failing(error, times=1):
        manager = harness.app.kernel_manager
        start, failures = manager.start_kernel, iter([error] * times)

        async def start_kernel(**arguments):
            if (failure := next(failures, None)) is not None:
                raise failure
            return await start(**arguments)

        monkeypatch.setattr(manager, "start_kernel", start_kernel)

    return failing


@pytest.mark.proves("kernel:exhaustion")
@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        RuntimeError("zmq: Too many open files"),
    ],
)
async def test_where_files_run_out_idle_sessions_are_shut_down_and_the_start_is_tried_again(
    harness, run, failing, error
):
    idle = await run("x = 1", session="idle")
    failing(error)
    result = await run("1", session="new")
    assert result.status == "ok"
    assert harness.workspace.kernels.ids() == [result.kernel_id]
    assert "too many files were open. Its variables are lost" in result.full_text()
    assert idle.kernel_id != result.kernel_id


@pytest.mark.proves("kernel:pool")
def test_by_default_four_stay_for_five_minutes_and_are_checked_every_thirty_seconds():
    defaults = inspect.signature(PythonSessions).parameters
    names = ("max_sessions", "idle_after", "sweep_every")
    assert [defaults[name].default for name in names] == [4, 300.0, 30.0]
