"""Code that does not end: the exit status says that it still runs, and Ctrl-C interrupts it."""

from __future__ import annotations

import asyncio
import json
import signal
from io import StringIO
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.cli.conftest import Nb
from tk_ai_extension.cli import wire
from tk_ai_extension.cli.commands.table import Commands
from tk_ai_extension.cli.session import Options, Session
from tk_ai_extension.cli.terminal import TerminalInfo
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.execution_results import ExecutionResult
from tk_ai_extension.tools.registry import Registry

ENDLESS = "import time\nprint('began', flush=True)\ntime.sleep(600)"

CALLS = {
    "exec": ["exec", "0"],
    "exec-several": ["exec", "--all"],
    "run": ["run", ENDLESS],
    "add": ["add", ENDLESS],
    "apply": ["apply", json.dumps([{"action": "insert", "source": ENDLESS}]), "--run"],
}
"""A call of each command that waits for code in the notebook's kernel."""


def test_each_command_that_waits_for_code_is_among_them() -> None:
    waiting = {
        command.name
        for command in Commands(Registry.load())
        for action in Commands(Registry.load()).parser(command.name)._actions
        if action.dest == "wait"
    }
    # `verify` and whole notebooks run in kernels of their own; `watch` starts nothing.
    assert waiting - {"watch", "verify"} == {words[0] for words in CALLS.values()}


async def busy(nb: Nb) -> None:
    """Waits until the kernel runs code."""
    state = ""
    while state != "busy":
        state = (await asyncio.to_thread(nb, "kernel", "--json")).json["kernel"]["state"]


@pytest.mark.proves("nb:pipe-is-the-notebook")
@pytest.mark.parametrize("call", CALLS)
async def test_the_exit_status_says_that_it_still_runs(shared: Nb, call: str) -> None:
    shared.notebook("a.ipynb", ENDLESS)
    await asyncio.to_thread(shared, "open", "a.ipynb")
    ended = await asyncio.to_thread(shared, *CALLS[call], "--wait", "0.5", status=wire.RUNNING)
    assert "Still" in ended.out
    await asyncio.to_thread(shared, "interrupt")
    watched = await asyncio.to_thread(shared, "watch", status=1)
    assert "interrupted" in watched.out


@pytest.mark.proves("nb:pipe-is-the-notebook", "edit:batch")
@pytest.mark.parametrize("call", CALLS)
async def test_the_first_ctrl_c_interrupts_it_and_shows_how_it_ended(shared: Nb, call: str) -> None:
    shared.notebook("a.ipynb", ENDLESS)
    await asyncio.to_thread(shared, "open", "a.ipynb")
    process = await shared.start(*CALLS[call])
    await busy(shared)
    process.send_signal(signal.SIGINT)
    out, _ = await asyncio.wait_for(process.communicate(), 30)
    assert b"interrupted" in out
    assert process.returncode == 1
    kept = [cell.source for cell in shared.read("a.ipynb").cells]
    assert kept == [ENDLESS] * (2 if call == "add" else 1)


class Stubborn:
    """A registry whose code ignores the interrupt, and is ended after some time."""

    effect = "EXECUTE"

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def get(self, _tool: str) -> Stubborn:
        return self

    async def call(self, tool: str, _arguments: object, context: ToolContext) -> ExecutionResult:
        loop = asyncio.get_running_loop()
        passed = loop.create_future()
        if tool == "interrupt_kernel":
            loop.call_later(0.2, passed.set_result, None)
            await passed
            self.ended.set()
        elif context.on_follow is not None:
            context.on_follow("run")
            loop.call_later(0.01, passed.set_result, None)
            await passed
        status = "interrupted" if self.ended.is_set() else "running"
        return ExecutionResult.model_construct(execution_id="run", status=status, notices=[])  # pyrefly: ignore[missing-argument]


@pytest.mark.proves("nb:pipe-is-the-notebook")
async def test_an_interrupt_is_carried_out_however_short_the_waits_are() -> None:
    registry, said = Stubborn(), StringIO()
    terminal = SimpleNamespace(
        info=TerminalInfo(cwd="/", project="/", tty=False),
        interrupted=asyncio.Event(),
        gone=asyncio.Event(),
        out=said.write,
        err=said.write,
    )
    context = SimpleNamespace(root="/", workspace=None, registry=registry)
    session = Session(
        cast("Any", context), cast("Any", terminal), Caller("a", "nb", "nb"), Options()
    )
    running = asyncio.create_task(session.run("execute_ipython", code="1"))
    terminal.interrupted.set()
    async with asyncio.timeout(20):
        assert (await running).status == "interrupted"
