"""Code that does not end: the exit status says that it still runs, and Ctrl-C interrupts it."""

from __future__ import annotations

import asyncio
import json
import signal

import pytest

from tests.cli.conftest import Nb
from tk_ai_extension.cli import wire
from tk_ai_extension.cli.commands.table import Commands
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
