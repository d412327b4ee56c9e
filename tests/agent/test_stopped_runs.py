"""A stopped turn ends every run that it began, once, whichever call waits for it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from tests.agent.conftest import USER, Talk, talk_with
from tests.agent.test_backend_contract import until
from tests.harness import ToolHarness
from tests.support.echo_agent import EchoBackend, EchoSession
from tk_ai_extension.agent.backend import Checkpoint, SessionConfig
from tk_ai_extension.agent.events import TextDelta, ToolCalled
from tk_ai_extension.workspace.runs import Run
from tk_ai_extension.workspace.turn_credentials import TurnCredential

WITHIN = 30.0
LOOP = """\
import time
print('begun', flush=True)
try:
    time.sleep(600)
except KeyboardInterrupt:
    time.sleep(0.2)
    print('cleaned up')
"""
"""A second interrupt would end the cleanup after the first one."""


class Running(EchoBackend):
    """An agent that runs the first cell and then follows the run in the way that the message names."""

    async def start(self, config: SessionConfig) -> RunningSession:
        session = await super().start(config)
        return RunningSession(self, config.call, session._session, session._kept)


class RunningSession(EchoSession):
    async def _answer(self, text: str, credential: TurnCredential) -> None:
        if not text.startswith("run"):
            await super()._answer(text, credential)
            return
        self.events.put_nowait(Checkpoint(self._session))

        async def call(tool: str, **arguments: Any) -> types.CallToolResult:
            name = secrets.token_hex(6)
            self.events.put_nowait(ToolCalled(name, tool, arguments))
            return await self._call_tool(credential.token, name, tool, arguments)

        if text == "run in one call":
            await call("execute_cell", cell=0, wait=600)
            return
        result = await call("execute_cell", cell=0, wait=0)
        assert result.structured_content is not None
        run = result.structured_content["execution_id"]
        match text:
            case "run and wait":
                await call("wait_execution", execution_id=run, wait=600)
            case "run and write":
                self.events.put_nowait(TextDelta(0, 0, "It runs."))
                await asyncio.Event().wait()
            case "run two":
                # The second one is queued behind the first.
                await call("execute_ipython", code="1", wait=600)
            case _:
                self.events.put_nowait(TextDelta(0, 0, "It runs on."))


@pytest.fixture
async def talk(harness: ToolHarness, tmp_path: Path) -> AsyncIterator[Talk]:
    talk = talk_with(harness, Running(), tmp_path)
    yield talk
    await talk.close()


async def active(harness: ToolHarness, turn: str, count: int = 1) -> list[Run]:
    """The runs of a turn, once there are as many and the first one has printed."""
    executions = harness.workspace.executions
    async with asyncio.timeout(WITHIN):
        while len(executions.active(turn=turn)) < count:  # noqa: ASYNC110 - no event says it
            await asyncio.sleep(0)
        runs = executions.active(turn=turn)
        while not runs[0].current.outputs:
            await runs[0].changed(runs[0].version, None)
    return runs


End = Callable[[Talk, str, str], Awaitable[object]]
ENDS: dict[str, End] = {
    "stop": lambda talk, chat, _: talk.chats.stop(USER, chat),
    "restore": lambda talk, chat, turn: talk.chats.restore(USER, chat, turn),
    "replace": lambda talk, chat, turn: talk.send("Hello.", chat=chat, replaces=turn),
    "delete": lambda talk, chat, _: talk.chats.delete(USER, chat),
    "close": lambda talk, _chat, _turn: talk.close(),
}


@pytest.mark.proves("exec:cancel", "rest:restore")
@pytest.mark.parametrize("follows", ["in one call", "and wait", "and write", "two"])
@pytest.mark.parametrize("ended_by", ENDS)
async def test_however_a_turn_is_stopped_its_runs_end_once(
    talk: Talk,
    harness: ToolHarness,
    monkeypatch: pytest.MonkeyPatch,
    follows: str,
    ended_by: str,
) -> None:
    interrupted: list[str] = []
    kernels = harness.workspace.kernels
    interrupt = kernels.interrupt

    async def counted(kernel_id: str, **options: Any) -> None:
        interrupted.append(kernel_id)
        await interrupt(kernel_id, **options)

    monkeypatch.setattr(kernels, "interrupt", counted)
    harness.write("a.ipynb", LOOP)
    started = await talk.send(f"run {follows}", notebook="a.ipynb", mode="auto")
    runs = await active(harness, started.turn, 2 if follows == "two" else 1)
    async with asyncio.timeout(WITHIN):
        await ENDS[ended_by](talk, started.chat, started.turn)
        if ended_by == "restore":
            # What was restored does not change any more.
            assert all(run.done for run in runs)
        for run in runs:
            assert await run.wait(None)
    assert harness.workspace.executions.active() == []
    printed = "".join(each["text"] for each in runs[0].steps[0].outputs)
    assert len(interrupted) == 1
    assert printed == "begun\ncleaned up\n"
    assert [run.outcome for run in runs[1:]] == ["interrupted"] * (len(runs) - 1)


async def test_a_run_goes_on_after_the_normal_end_of_its_turn(
    talk: Talk, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", LOOP)
    started = await talk.send("run", notebook="a.ipynb", mode="auto")
    assert (await until(started, "done")).data["end"] == "done"
    (run,) = await active(harness, started.turn)
    assert not await talk.chats.stop(USER, started.chat)
    assert not run.cancelled
    assert await harness.workspace.executions.cancel(run) == "ended"


async def test_a_stopped_turn_ends_no_run_of_another_turn(talk: Talk, harness: ToolHarness) -> None:
    harness.write("a.ipynb", LOOP)
    harness.write("b.ipynb", LOOP)
    other = await talk.send("run", notebook="a.ipynb", mode="auto")
    await until(other, "done")
    (run,) = await active(harness, other.turn)
    started = await talk.send("run and write", chat=other.chat, notebook="b.ipynb", mode="auto")
    (own,) = await active(harness, started.turn)
    assert await talk.chats.stop(USER, started.chat)
    async with asyncio.timeout(WITHIN):
        assert await own.wait(None)
    assert not run.cancelled
    assert await harness.workspace.executions.cancel(run) == "ended"
