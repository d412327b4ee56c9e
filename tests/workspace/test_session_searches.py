"""Session kernels in random orders of calls: nobody's kernel, environment or process is mixed up."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from tests.workspace.scripted_kernels import STUCK, ScriptedKernels
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.notebooks.notebook import Notebooks
from tk_ai_extension.workspace.activity import ActivityFeed
from tk_ai_extension.workspace.executions import Executions
from tk_ai_extension.workspace.notices import Notices
from tk_ai_extension.workspace.python_runs import (
    PythonCallContext,
    PythonStep,
    SessionSupervisor,
    SingleRunSupervisor,
)
from tk_ai_extension.workspace.python_sessions import PythonSessions, SessionKey
from tk_ai_extension.workspace.queue import FairQueue
from tk_ai_extension.workspace.runs import Run

DEADLINE = 10
CALLERS = [Caller("alice", name, "mcp") for name in ("ann", "bob", "cyd")]
TEAM = SessionKey("alice", "session:team")


class Bench:
    """A few callers of `python`, and a person at their kernels."""

    def __init__(self, seed: int, *, failures: float = 0.0) -> None:
        self.random = Random(seed)
        self.kernels = ScriptedKernels(self.random, failures=failures)
        kernels: Any = self.kernels
        self.sessions = PythonSessions(kernels, kernels, Notices(), max_sessions=2, max_single=2)
        journal: Any = None  # These runs have no notebook.
        self.executions = Executions(kernels, FairQueue(), journal, Notebooks(), ActivityFeed())
        self.runs: list[Run] = []

    async def python(self, caller: Caller, key: SessionKey | None, codes: list[str]) -> Run:
        """Start a call of the tool `python`; a code that begins with "reset" has a new kernel."""
        kernels: Any = self.kernels
        call = PythonCallContext(caller, {"WHO": str(caller.session)}, Path(), cast("Any", None))
        if key is None:
            session = await self.sessions.single(caller.user, "")
            supervisor = SingleRunSupervisor(kernels, self.sessions, session, call)
        else:
            session = await self.sessions.acquire(key, caller)
            supervisor = SessionSupervisor(kernels, self.sessions, session, call)
        run = self.executions.start(
            caller,
            session.kernel_id,
            [PythonStep(code=code, reset=code.startswith("reset")) for code in codes],
            approval=None,
            supervisor=supervisor,
        )
        self.runs.append(run)
        return run

    async def stop(self, run: Run) -> None:
        """Stop a run that ignores interrupts; a kernel that does not start is tried again."""
        await started(run)
        while not run.done:
            with suppress(ToolError):
                await self.executions.cancel(run, grace=0)
            await asyncio.sleep(0)

    async def close(self) -> None:
        """End all; each run has ended, and no kernel is left that nobody knows."""
        for run in self.runs:
            if STUCK in "".join(step.code for step in run.steps):
                await self.stop(run)
            assert await run.wait(DEADLINE)
        assert self.executions.active() == []
        assert [session.using for session in self.sessions] == [0] * len(list(self.sessions))
        known = {session.kernel_id for session in self.sessions}
        assert set(self.kernels.ids()) <= known | self.kernels.ever_bound, "an unknown kernel runs"
        await self.sessions.close()
        assert set(self.kernels.ids()) <= self.kernels.ever_bound
        assert self.kernels.harmed == []


async def started(run: Run) -> None:
    """Wait until a kernel runs its code, or it has ended."""
    while not (run.current.started or run.done):
        await run.changed(run.version, 0.001)


@pytest.mark.proves("kernel:python-session", "exec:concurrent")
async def test_code_of_a_shared_session_finds_the_environment_of_its_own_caller() -> None:
    async def calls(bench: Bench, caller: Caller) -> None:
        for number in range(4):
            await bench.kernels.pause(20)
            cells = [
                f"{bench.random.choice(['', '', 'reset '])}{caller.session} {number} {cell}"
                for cell in range(bench.random.randrange(1, 4))
            ]
            with suppress(ToolError):
                run = await bench.python(caller, TEAM, cells)
                if bench.random.random() < 0.5:
                    await run.wait(DEADLINE)

    async def person(bench: Bench) -> None:
        for _ in range(4):
            await bench.kernels.pause(60)
            if ids := bench.kernels.ids():
                bench.kernels.end(bench.random.choice(ids))

    for seed in range(30):
        bench = Bench(seed)
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            for caller in CALLERS:
                group.create_task(calls(bench, caller))
            group.create_task(person(bench))
        for run in bench.runs:
            assert await run.wait(DEADLINE)
        mixed = [(code, who) for code, who in bench.kernels.ran if not who or who not in code]
        assert mixed == [], f"seed {seed}"
        await bench.close()


@pytest.mark.proves("kernel:pool", "kernel:shared-live")
async def test_a_kernel_of_a_notebook_is_neither_stopped_nor_restarted_and_none_is_lost() -> None:
    keys = [*(SessionKey("alice", name) for name in "abc"), None]

    async def use(bench: Bench, caller: Caller) -> None:
        for _ in range(4):
            await bench.kernels.pause(20)
            code = bench.random.choice(["1", "reset 1", STUCK])
            with suppress(ToolError):
                run = await bench.python(caller, bench.random.choice(keys), [code])
                if code == STUCK:
                    await bench.stop(run)
                await run.wait(DEADLINE)

    async def person(bench: Bench) -> None:
        kernels = bench.kernels
        for number in range(6):
            await kernels.pause(40)
            if ids := kernels.ids():
                kernels.harm(bench.random.choice(ids), f"{number}.ipynb")
            await bench.sessions.sweep()

    for seed in range(30):
        bench = Bench(seed, failures=0.1)
        bench.sessions._idle_after = 0.0
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            for caller in CALLERS:
                group.create_task(use(bench, caller))
            group.create_task(person(bench))
        await bench.close()


@pytest.mark.proves("kernel:pool", "kernel:python-per-call")
async def test_a_call_that_is_cancelled_at_any_moment_leaves_no_unknown_kernel() -> None:
    for seed in range(60):
        bench = Bench(seed)
        keys = [*(SessionKey("alice", name) for name in "abc"), None]
        for key in keys[:2]:
            await (await bench.python(CALLERS[0], key, ["1"])).wait(DEADLINE)
        call = asyncio.create_task(bench.python(CALLERS[1], bench.random.choice(keys), ["reset 1"]))
        for _ in range(bench.random.randrange(16)):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait({call})
        await bench.close()


@pytest.mark.proves("exec:cancel")
async def test_code_of_a_run_that_has_ended_by_a_cancel_does_not_run_again() -> None:
    for seed in range(60):
        bench = Bench(seed)
        run = await bench.python(CALLERS[0], TEAM, [STUCK])
        await started(run)
        bench.kernels.crash(run.kernel_id)
        await bench.kernels.pause(16)
        end = await bench.executions.cancel(run, grace=0)
        before = len(bench.kernels.ran)
        if end == "ended":
            assert await run.wait(DEADLINE)
            assert len(bench.kernels.ran) == before
        await bench.close()
