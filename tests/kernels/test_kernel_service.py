"""Kernels are started, monitored, queried, restarted and stopped; broken ones are reported."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from tests.kernels.conftest import Server
from tests.stopped_processes import stop_process
from tests.support import faults
from tests.support.executor_bench import (
    ExecutorBench,
    happens,
    kernel_events,
    run,
    submit,
)
from tk_ai_extension.kernels.environment_variables import inherited_environment
from tk_ai_extension.kernels.kernel_service import KernelService
from tk_ai_extension.model.errors import (
    KernelBusy,
    KernelDied,
    KernelNotFound,
    KernelStartFailed,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

Start = Callable[[], Awaitable[str]]


@pytest.fixture(scope="module")
def backend() -> str:
    return "direct"


@pytest.fixture
def specs(server: Server) -> Path:
    """The folder of kernelspecs."""
    return server.specs


# -- what there is


@pytest.mark.proves("kernel:tools")
async def test_kernelspecs_are_listed_with_the_default_first(kernels: KernelService) -> None:
    first, *others = await kernels.kernelspecs()
    assert (first.name, first.language, first.default) == ("python3", "python", True)
    assert ("bash", "bash", False) in [(each.name, each.language, each.default) for each in others]


@pytest.mark.proves("kernel:monitor", "kernel:tools")
async def test_a_kernels_state_memory_cpu_and_uptime_are_known(bench: ExecutorBench) -> None:
    first = await bench.kernels.info(bench.kernel_id)
    assert bench.kernel_id in bench.kernels.ids()
    assert (first.name, first.language, first.state) == ("python3", "python", "idle")
    assert first.cpu is None, "there is nothing to compare the first look with"
    assert first.memory is not None
    assert first.memory > 10_000_000
    assert first.uptime is not None
    assert first.uptime > 0
    await run(bench, "sum(range(10_000_000))")
    second = await bench.kernels.info(bench.kernel_id)
    assert second.cpu is not None
    assert second.cpu > 1
    assert second.uptime is not None
    assert second.uptime > first.uptime


@pytest.mark.proves("kernel:monitor", "kernel:shared-live")
async def test_a_kernel_that_a_person_started_is_known_and_used(
    server: Server, kernels: KernelService, bench: ExecutorBench
) -> None:
    kernel_id = await server.manager.start_kernel(kernel_name="python3")
    assert kernel_id in kernels.ids()
    assert (await kernels.info(kernel_id)).memory
    await kernels.wait_ready(kernel_id)
    assert (await run(bench, "1 + 1", kernel_id)).status == "ok"
    await kernels.shutdown(kernel_id)
    assert kernel_id not in kernels.ids()


@pytest.mark.proves("kernel:readiness")
async def test_a_kernel_that_runs_something_counts_as_ready(
    server: Server, bench: ExecutorBench, harmed: Start, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    kernel_id = await harmed()
    running = submit(bench, faults.run_until(go), kernel_id)
    await running.printed()
    another = KernelService(server.manager, server.app.kernel_spec_manager)
    await another.wait_ready(kernel_id)
    await another.close()
    assert not running.task.done()
    go.touch()
    assert (await running.outcome()).status == "ok"


@pytest.mark.proves("kernel:shared-live")
async def test_states_follow_what_anybody_runs(
    server: Server, bench: ExecutorBench, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    async with (
        faults.person(server.manager, bench.kernel_id) as person,
        kernel_events(bench) as events,
    ):
        await bench.kernels.wait_ready(bench.kernel_id)
        person.execute(faults.run_until(go))
        await happens(events, "state", state="busy")
        assert (await bench.kernels.info(bench.kernel_id)).state == "busy"
        go.touch()
        await happens(events, "state", state="idle")
        assert (await bench.kernels.info(bench.kernel_id)).state == "idle"


async def test_a_kernel_that_lives_and_does_not_answer_is_busy_and_not_dead(
    server: Server, harmed: Start
) -> None:
    kernel_id = await harmed()
    pid = server.manager.get_kernel(kernel_id).provisioner.pid
    stop_process(pid)
    kernels = KernelService(server.manager, server.app.kernel_spec_manager, ready_timeout=0.5)
    bench = ExecutorBench(kernels, server.manager, "direct", kernel_id, harmed, server.request)
    with pytest.raises(KernelBusy):
        await run(bench, "1")
    with pytest.raises(KernelStartFailed):
        await kernels.wait_ready(kernel_id)
    os.kill(pid, signal.SIGCONT)
    kernels.ready_timeout = 29  # it may take its time to wake up
    assert (await run(bench, "1")).status == "ok"
    await kernels.close()


# -- starting


@pytest.mark.proves("kernel:readiness")
async def test_starting_waits_until_the_kernel_answers_and_logs_how_long_it_took(
    kernels: KernelService, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "tk_ai_extension"):
        kernel_id = await kernels.start()
    assert f"Kernel {kernel_id} (python3) answered after " in caplog.text
    await kernels.shutdown(kernel_id)


@pytest.mark.proves("fault:never-ready", "kernel:readiness")
@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("sleeps", faults.SLEEPS, "did not answer within 2 s. Its last output:\nI sleep"),
        ("exits", faults.EXITS, "exited with code 7. Its last output:\nno such module: spam"),
        ("garbage", faults.GARBAGE, "and then it hangs"),
    ],
    ids=["sleeps", "exits", "garbage"],
)
async def test_a_kernel_that_is_never_ready_says_why_and_leaves_nothing(
    server: Server, specs: Path, name: str, code: str, message: str
) -> None:
    code += f"  # {specs}"  # other tests, at the same time, have such processes too
    kernels = KernelService(server.manager, server.app.kernel_spec_manager, ready_timeout=2)
    faults.write_broken_kernelspec(specs, name, code)
    before = kernels.ids()
    with pytest.raises(KernelStartFailed) as failure:
        await kernels.start(name)
    assert message in failure.value.message
    assert kernels.ids() == before
    assert faults.processes_with(code) == []
    await kernels.close()


@pytest.mark.proves("fault:never-ready")
async def test_a_kernelspec_with_a_missing_program_is_reported(
    kernels: KernelService, specs: Path
) -> None:
    faults.write_kernelspec(specs, "missing", ["/nowhere/kernel", "{connection_file}"])
    with pytest.raises(KernelStartFailed, match="/nowhere/kernel"):
        await kernels.start("missing")


@pytest.mark.proves("fault:never-ready")
async def test_a_start_that_is_cancelled_leaves_nothing(
    server: Server, kernels: KernelService, specs: Path, tmp_path: Path
) -> None:
    faults.write_broken_kernelspec(specs, "never", f"{faults.SLEEPS}  # {tmp_path}")
    before = kernels.ids()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await kernels.start("never")
    assert kernels.ids() == before
    assert faults.processes_with(f"# {tmp_path}") == []


@pytest.mark.proves("ext:secrets", "threat:secrets")
async def test_a_kernel_gets_the_environment_without_the_agents_secrets(
    server: Server, monkeypatch: pytest.MonkeyPatch, bench: ExecutorBench
) -> None:
    for name in ("ANTHROPIC_API_KEY", "CLAUDE_CODE_TOKEN", "MY_SECRET"):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("HARMLESS", "here")
    kernels = KernelService(
        server.manager,
        server.app.kernel_spec_manager,
        environment=partial(inherited_environment, ["MY_SECRET"]),
    )
    kernel_id = await kernels.start("python3", path="notebook.ipynb")
    code = "import os\nprint(os.getcwd(), os.environ['HARMLESS'], os.environ['JPY_SESSION_NAME'])\n"
    outcome = await run(bench, code + "print('canary' in os.environ.values())", kernel_id)
    root = server.app.root_dir
    assert outcome.text() == f"{root} here {root}/notebook.ipynb\nFalse\n"
    await kernels.restart(kernel_id)
    outcome = await run(bench, "import os\nprint('canary' in os.environ.values())", kernel_id)
    assert outcome.text() == "False\n"
    await kernels.shutdown(kernel_id)
    await kernels.close()


# -- ending


@pytest.mark.proves("kernel:heartbeat", "kernel:auto-restart")
async def test_an_idle_kernel_that_dies_is_noticed_and_started_again(
    bench: ExecutorBench, harmed: Start
) -> None:
    kernel_id = await harmed()
    pid = (await bench.kernels.info(kernel_id)).pid
    assert pid is not None
    async with kernel_events(bench) as events, asyncio.timeout(5):
        faults.kill(pid)
        await happens(events, "died", kernel_id=kernel_id)
        await happens(events, "restarted", kernel_id=kernel_id)
    assert (await bench.kernels.info(kernel_id)).pid != pid
    assert (await run(bench, "1", kernel_id)).status == "ok"


@pytest.mark.proves("kernel:heartbeat")
async def test_a_kernel_that_is_not_to_be_restarted_stays_dead(
    server: Server, bench: ExecutorBench, harmed: Start
) -> None:
    kernel_id = await harmed()
    manager = server.manager.get_kernel(kernel_id)
    manager.stop_restarter()
    manager.autorestart = False
    async with kernel_events(bench) as events:
        outcome = await run(bench, faults.EXIT_ITSELF, kernel_id)
        assert outcome.status == "kernel_died"
        await happens(events, "died", kernel_id=kernel_id, state="dead")
    with pytest.raises((KernelNotFound, KernelDied)):
        await run(bench, "1", kernel_id)


@pytest.mark.proves("exec:statuses")
async def test_a_kernel_of_another_language_is_run_and_interrupted_alike(
    kernels: KernelService, bench: ExecutorBench
) -> None:
    kernel_id = await kernels.start("bash")
    assert (await kernels.info(kernel_id)).language == "bash"
    outcome = await run(bench, "echo hello; x=41", kernel_id)
    assert (outcome.status, outcome.text()) == ("ok", "hello\n")
    assert (await run(bench, "echo $((x + 1))", kernel_id)).text() == "42\n"
    failed = await run(bench, "ls /nowhere", kernel_id)
    assert failed.status == "error"
    assert failed.execution.error is not None
    assert failed.execution.error["evalue"] == "2"
    # The word comes from another process: bash itself may miss an interrupt while it starts one.
    endless = "bash -c 'echo running; exec sleep 60'"
    running = submit(bench, endless, kernel_id)
    await running.printed()
    await kernels.interrupt(kernel_id)
    assert (await running.outcome()).status == "interrupted"
    timed_out = await run(bench, endless, kernel_id, timeout=1)
    assert timed_out.status == "timed_out"
    assert timed_out.text().startswith("running\n")
    assert (await run(bench, "echo after", kernel_id)).text() == "after\n"
    await kernels.shutdown(kernel_id)
