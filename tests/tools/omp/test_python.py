"""`python`: code in kernels that are kept for a session, or started for one call."""

import asyncio
import os
from dataclasses import replace

import pytest

from tests.harness import ALICE, BOB, NOBODY
from tk_ai_extension.model.errors import (
    FileMissing,
    InvalidArguments,
    KernelBusy,
    KernelDied,
    PathRefused,
    PermissionDenied,
    PermissionRequired,
)
from tk_ai_extension.tools.registry import ToolContext

CRASH = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
ONCE = """
import os, signal, pathlib
mark = pathlib.Path('crashed')
print('tried')
if not mark.exists():
    mark.touch()
    os.kill(os.getpid(), signal.SIGKILL)
print('went through')
"""


def kernels(harness):
    return harness.workspace.kernels.ids()


@pytest.mark.proves("kernel:python-session")
async def test_state_persists_from_cell_to_cell_and_call_to_call(harness, run):
    first = await run("x = 40", "x += 1\nprint('out')\nx", {"code": "x", "title": "look"})
    assert first.cells == ["complete"] * 3
    assert [each.output for each in first.runs] == ["", "out\n41", "41"]
    second = await run("x + 1")
    assert second.runs[0].output == "42"
    assert (second.session, second.kernel_id) == (first.session, first.kernel_id)
    assert kernels(harness) == [first.kernel_id]


@pytest.mark.proves("kernel:python-session")
async def test_each_session_and_folder_has_its_own_and_a_named_one_is_shared(harness, run):
    (harness.root / "sub").mkdir()
    await run("x = 'root'")
    elsewhere = await run(
        "import os; print(os.path.basename(os.getcwd()), 'x' in dir())", cwd="sub"
    )
    assert elsewhere.runs[0].output == "sub False"
    assert (await run("print('x' in dir())", caller=BOB)).runs[0].output == "False"
    shared = await run("y = 'shared'", session="team")
    found = await run("y", session="team", caller=BOB)
    assert (found.runs[0].output, found.kernel_id) == ("'shared'", shared.kernel_id)
    stranger = replace(BOB, user="mallory")
    other = await run("print('y' in dir())", session="team", caller=stranger, mode="session")
    assert other.runs[0].output == "False"


async def test_a_caller_without_a_session_names_one_or_gets_a_kernel_for_the_call(harness, run):
    with pytest.raises(InvalidArguments, match="session"):
        await run("1", caller=NOBODY)
    assert (await run("6 * 7", caller=NOBODY, mode="per-call")).runs[0].output == "42"
    assert (await run("6 * 7", caller=NOBODY, session="named")).runs[0].output == "42"


@pytest.mark.proves("kernel:python-per-call")
@pytest.mark.parametrize(
    ("code", "status"), [("x = 1\nx", "ok"), ("1/0", "error"), (CRASH, "kernel_died")]
)
async def test_a_kernel_for_one_call_is_shut_down_however_the_call_ends(harness, run, code, status):
    result = await run(code, mode="per-call")
    assert (result.status, result.session) == (status, None)
    assert kernels(harness) == []


@pytest.mark.proves("kernel:python-per-call")
async def test_a_kernel_for_one_call_is_shut_down_when_the_call_is_cancelled(harness):
    context = ToolContext(harness.workspace, ALICE)
    call = {
        "cells": [{"code": "print('begun', flush=True)\nimport time; time.sleep(60)"}],
        "mode": "per-call",
    }
    task = asyncio.ensure_future(harness.registry.call("python", call, context))
    await begun(harness)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kernels(harness) == []


async def begun(harness):
    """Waits until the code that runs has printed something."""
    async with asyncio.timeout(30):
        while not (active := harness.workspace.executions.active()):
            await state_change(harness)
        (found,) = active
        while not found.current.outputs:
            await found.changed(found.version, 30)
        return found


async def state_change(harness):
    changed = asyncio.Event()
    stop = harness.workspace.kernels.subscribe(lambda _: changed.set())
    try:
        await changed.wait()
    finally:
        stop()


@pytest.mark.proves("kernel:reset")
async def test_each_cell_has_its_own_reset(harness, run):
    await run("x = 1")
    result = await run(
        "print('x' in dir())",
        {"code": "print('x' in dir()); y = 2", "reset": True},
        "print('y' in dir())",
    )
    assert [each.output for each in result.runs] == ["True", "False", "True"]
    whole = await run("print('y' in dir()); z = 3", "print('z' in dir())", reset=True)
    assert [each.output for each in whole.runs] == ["False", "True"]


@pytest.mark.proves("kernel:reset")
async def test_a_reset_while_another_is_in_progress_is_rejected(harness, run):
    await run("x = 1")
    (session,) = harness.workspace.python
    first = asyncio.ensure_future(run("1", reset=True))
    async with asyncio.timeout(30):
        while not session.resetting:
            await state_change(harness)
    with pytest.raises(KernelBusy, match="reset"):
        await run({"code": "2", "reset": True})
    assert (await first).status == "ok"
    assert (await run("3", reset=True)).status == "ok"


@pytest.mark.proves("kernel:replace-dead", "kernel:heartbeat")
async def test_a_kernel_that_died_is_replaced_before_the_next_run_and_the_caller_gets_a_notice(
    harness, run
):
    first = await run("x = 1\nimport os; os.getpid()")
    died = asyncio.Event()
    harness.workspace.kernels.subscribe(lambda event: event.kind == "died" and died.set())
    os.kill(int(first.runs[0].output), 9)
    async with asyncio.timeout(5):
        await died.wait()
    result = await run("print('x' in dir())")
    assert (result.status, result.runs[0].output) == ("ok", "False")
    assert "variables are lost" in result.full_text()


@pytest.mark.proves("kernel:replace-dead")
async def test_code_that_crashes_its_kernel_is_run_once_more_in_a_new_one(harness, run):
    result = await run(ONCE, "print('next')")
    assert result.status == "ok"
    assert [each.output for each in result.runs] == ["tried\nwent through", "next"]
    assert "crashed and is replaced" in result.full_text()


@pytest.mark.proves("kernel:restart-limit")
async def test_a_second_crash_ends_the_session_until_it_is_reset(harness, run):
    # A kernel that is killed takes along what it has not sent: the second time it waits for a sign.
    code = """
import os, pathlib, signal, time
if pathlib.Path('crashed').exists():
    print('before', flush=True)
    while not pathlib.Path('seen').exists():
        time.sleep(0.01)
pathlib.Path('crashed').touch()
os.kill(os.getpid(), signal.SIGKILL)
"""
    running = asyncio.ensure_future(run(code, "print('never')"))
    await begun(harness)
    (harness.root / "seen").touch()
    result = await running
    assert result.status == "kernel_died"
    assert result.runs[0].output == "before"
    assert "restarted too many times in this session" in result.as_text()
    assert result.cells == ["error", "pending"]
    with pytest.raises(KernelDied, match="restarted too many times in this session") as raised:
        await run("1")
    assert "reset" in raised.value.hint
    assert (await run("'fresh'", reset=True)).runs[0].output == "'fresh'"
    assert (await run(ONCE)).status == "ok"


@pytest.mark.proves("kernel:env")
async def test_folder_and_path_are_set_for_each_call(harness, run):
    (harness.root / "sub").mkdir()
    (harness.root / "sub" / "helper.py").write_text("value = 5")
    look = "import os; print(os.path.basename(os.getcwd()))"
    first = await run(look, cwd="sub")
    assert first.runs[0].output == "sub"
    await run(
        "import os, sys; os.chdir('/'); sys.path[:] = [p for p in sys.path if 'sub' not in p]",
        cwd="sub",
    )
    second = await run(look, "import helper; helper.value", cwd="sub")
    assert [each.output for each in second.runs] == ["sub", "5"]


@pytest.mark.proves("kernel:env")
async def test_a_session_finds_its_file_its_artifacts_and_the_bridge_in_its_environment(
    harness, run
):
    code = """
import json, os
names = "SESSION_FILE ARTIFACTS_DIR TOOL_BRIDGE_URL TOOL_BRIDGE_TOKEN TOOL_BRIDGE_SESSION"
found = {name: os.environ[name] for name in ["ARTIFACTS", *("PI_" + n for n in names.split())]}
assert found["ARTIFACTS"] == found["PI_ARTIFACTS_DIR"] and os.path.isdir(found["ARTIFACTS"])
state = json.load(open(found["PI_SESSION_FILE"]))
assert state["session"] == found["PI_TOOL_BRIDGE_SESSION"]
print(state["kernel_id"], oct(os.stat(found["PI_SESSION_FILE"]).st_mode & 0o777))
"""
    for again in (False, True):
        result = await run({"code": code, "reset": again})
        assert result.runs[0].output == f"{result.kernel_id} 0o600", result.full_text()
    long = await run("print('line\\n' * 5000)")
    found = f"""
import glob, os
(path,) = glob.glob(os.path.join(os.environ['ARTIFACTS'], {long.runs[0].artifact!r} + '.*'))
print(open(path).read().count('line'))
"""
    assert (await run(found)).runs[0].output == "5000"


async def test_a_folder_that_is_none_is_refused(harness, run):
    (harness.root / "file.txt").write_text("text")
    for cwd, error in (
        ("none", FileMissing),
        ("file.txt", FileMissing),
        ("..", PathRefused),
        ("/etc", PathRefused),
    ):
        with pytest.raises(error):
            await run("1", cwd=cwd)
    with pytest.raises(InvalidArguments):
        await run()
    assert kernels(harness) == []


async def test_the_first_error_ends_the_call_and_the_rest_is_pending(harness, run):
    result = await run("1", "1/0", "2")
    assert result.cells == ["complete", "error", "pending"]
    assert result.is_error
    assert result.runs[1].error == "ZeroDivisionError: division by zero"


@pytest.mark.proves("exec:timeout")
async def test_a_timeout_says_after_how_many_seconds_and_keeps_what_was_printed(harness, run):
    code = "import time\nprint('begun', flush=True)\ntime.sleep(60)"
    result = await run(code, timeout=0.5)
    assert result.status == "timed_out"
    assert result.runs[0].output.startswith("begun")
    assert "Command timed out after 0.5 seconds" in result.as_text()
    assert (await run("'goes on'")).status == "ok"


@pytest.mark.proves("exec:cancel")
async def test_a_session_kernel_that_ignores_an_interrupt_is_killed_and_replaced(harness, run):
    deaf = (
        "x = 1\nimport signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "print('deaf', flush=True)\ntime.sleep(600)"
    )
    waiting = await run(deaf, wait=0)
    found = await begun(harness)
    assert await harness.workspace.executions.cancel(found, grace=0.5) == "ended"
    ended = await harness.call("wait_execution", execution_id=waiting.execution_id)
    assert ended.status == "interrupted"
    assert "The session gets another kernel" in ended.as_text()
    after = await run("print('x' in dir())")
    assert after.runs[0].output == "False"
    assert "ignored an interrupt and is replaced. Its variables are lost" in ended.full_text()


@pytest.mark.proves("out:mime", "out:structured", "out:truncate")
async def test_outputs_are_what_the_default_tools_show(harness, run):
    code = """
from IPython.display import display
display({'text/markdown': '**md**', 'text/plain': 'plain', 'text/html': '<b>html</b>'}, raw=True)
display({'text/html': '<b>html</b>'}, raw=True)
display({'application/json': {'a': 1}}, raw=True)
display({'application/x-omp-status': {'step': 2}, 'text/plain': 'unseen'}, raw=True)
"""
    result = (await run(code)).runs[0]
    assert result.output.splitlines()[:2] == ["**md**", "html"]
    assert (result.data, "unseen" in result.output) == ([{"a": 1}], False)
    assert [event["data"] for event in result.events] == [{"step": 2}]
    long = (await run("for n in range(20000): print('line', n)")).runs[0]
    assert long.artifact is not None
    page = await harness.call("read_output", artifact=long.artifact, offset=19999)
    assert "line 19999" in page.as_text()


async def test_it_needs_approval_to_run_code_and_shows_all_of_it(harness, run):
    with pytest.raises(PermissionDenied):
        await run("1", caller=replace(ALICE, mode="plan"))
    with pytest.raises(PermissionRequired):
        await run("first = 1", "second = 2", caller=replace(ALICE, mode="ask"))
    (request,) = harness.workspace.policy.pending("alice")
    for shown in ("first = 1", "second = 2"):
        assert shown in request.preview
    assert kernels(harness) == []
