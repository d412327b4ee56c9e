"""What a user may use, and what is kept for them, does not depend on what other users do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from tests.workspace.scripted_kernels import STUCK, ScriptedKernels
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.workspace import executions as executions_module
from tk_ai_extension.workspace.activity import ActivityFeed
from tk_ai_extension.workspace.executions import Executions
from tk_ai_extension.workspace.fresh_kernels import FreshKernels
from tk_ai_extension.workspace.notices import Notices
from tk_ai_extension.workspace.python_sessions import PythonSession, PythonSessions, SessionKey
from tk_ai_extension.workspace.queue import FairQueue
from tk_ai_extension.workspace.runs import Run, Step
from tk_ai_extension.workspace.staleness import RunRecords

DEADLINE = 10
STEPS = 60


class Server:
    """The limited services of a server: two of each are allowed."""

    def __init__(self) -> None:
        kernels: Any = ScriptedKernels(Random(0))
        journal: Any = None  # These runs have no notebook.
        self.kernels = kernels
        self.notices = Notices()
        self.sessions = PythonSessions(kernels, kernels, self.notices, max_sessions=2, max_single=2)
        self.fresh = FreshKernels(kernels, max_kernels=2)
        self.executions = Executions(kernels, FairQueue(), journal, RunRecords(), ActivityFeed())

    async def close(self) -> None:
        await self.executions.close()
        await self.sessions.close()


class User:
    """A user who takes random steps, the same ones for the same seed, and what came of each.

    Attributes:
        outcomes: The steps with their outcomes, in which kernels and runs are numbered.
    """

    def __init__(self, name: str, server: Server, seed: int) -> None:
        self.outcomes: list[tuple[str, object]] = []
        self._caller = Caller(name, "agent", "mcp")
        self._server = server
        self._random = Random(seed)
        self._held: list[PythonSession] = []
        self._single: list[PythonSession] = []
        self._fresh: list[str] = []
        self._stuck: list[Run] = []
        self._runs: list[Run] = []
        self._known: list[str] = []

    async def step(self) -> None:
        """Take a step."""
        steps: list[Callable[[], Awaitable[object]]] = [
            self.use_session,
            self.release_session,
            self.start_single,
            self.discard_single,
            self.start_fresh,
            self.stop_fresh,
            self.run,
            self.run_for_long,
            self.end_run,
        ]
        step = self._random.choice(steps)
        choice = self._random.random()  # As many random numbers whatever comes of a step.
        self._choice = choice
        try:
            outcome = await step()
        except ToolError as error:
            outcome = type(error).__name__
        self.outcomes.append((step.__name__, outcome))
        self.outcomes.append(("notices", self._server.notices.take(self._caller)))
        self.outcomes.append(("kept", [self._is_known(run) for run in self._runs]))

    def _number(self, kernel_id: str) -> int:
        """Return the number of one of the user's kernels: the ids are numbers of the server."""
        if kernel_id not in self._known:
            self._known.append(kernel_id)
        return self._known.index(kernel_id)

    def _is_known(self, run: Run) -> bool:
        try:
            return self._server.executions.get(self._caller, run.id) is run
        except ToolError:
            return False

    def _pop(self, held: list[Any]) -> Any:
        return held.pop(int(self._choice * len(held))) if held else None

    async def use_session(self) -> object:
        key = SessionKey(self._caller.user, "abcd"[int(self._choice * 4)])
        session = await self._server.sessions.acquire(key, self._caller)
        if int(self._choice * 100) % 2:
            self._held.append(session)
        else:
            self._server.sessions.release(session)
        return self._number(session.kernel_id)

    async def release_session(self) -> None:
        if (session := self._pop(self._held)) is not None:
            self._server.sessions.release(session)

    async def start_single(self) -> object:
        self._single.append(await self._server.sessions.single(self._caller.user, ""))
        return self._number(self._single[-1].kernel_id)

    async def discard_single(self) -> None:
        if (session := self._pop(self._single)) is not None:
            await self._server.sessions.discard(session)

    async def start_fresh(self) -> object:
        self._fresh.append(await self._server.fresh.start(self._caller.user, None, "n.ipynb"))
        return self._number(self._fresh[-1])

    async def stop_fresh(self) -> None:
        if (kernel_id := self._pop(self._fresh)) is not None:
            await self._server.fresh.stop(kernel_id)

    async def run(self) -> None:
        assert await (await self._start("1")).wait(DEADLINE)

    async def run_for_long(self) -> None:
        self._stuck.append(await self._start(STUCK))

    async def _start(self, code: str) -> Run:
        kernel_id = await self._server.kernels.start()
        start = self._server.executions.start
        self._runs.append(start(self._caller, kernel_id, [Step(code=code)], approval=None))
        return self._runs[-1]

    async def end_run(self) -> None:
        run: Run | None = self._pop(self._stuck)
        if run is None:
            return
        while not run.current.started:
            await run.changed(run.version, 0.001)
        self._server.kernels.end(run.kernel_id)
        assert await run.wait(DEADLINE)


async def outcomes(seed: int, others: int) -> list[tuple[str, object]]:
    """Return what comes of Alice's steps while other users take theirs between them."""
    server = Server()
    alice = User("alice", server, seed)
    users = [User(f"bob {number}", server, seed + number + 1) for number in range(others)]
    order = Random(seed)
    async with asyncio.timeout(DEADLINE):
        for _ in range(STEPS):
            for user in users:
                for _ in range(order.randrange(4)):
                    await user.step()
            await alice.step()
    await server.close()
    return alice.outcomes


@pytest.mark.proves("kernel:pool", "threat:other-user", "threat:exhaustion")
async def test_a_user_neither_ends_nor_denies_what_another_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executions_module, "MAX_ACTIVE", 2)
    monkeypatch.setattr(executions_module, "MAX_KEPT", 3)
    refused = 0
    for seed in range(20):
        alone = await outcomes(seed, 0)
        assert await outcomes(seed, 2) == alone, f"seed {seed}"
        refused += [outcome for _, outcome in alone].count("LimitReached")
    assert refused, "no limit was reached"


class NoFiles(ScriptedKernels):
    """Kernels of which one more can start only if another ends."""

    most = 0

    async def start(self, kernel_name: str | None = None, *, path: str | None = None) -> str:
        if len(self.ids()) >= self.most:
            raise OSError(24, "Too many open files")
        return await super().start(kernel_name, path=path)


@pytest.mark.proves("kernel:exhaustion")
@pytest.mark.parametrize("own", [0, 1])
async def test_files_are_taken_from_ones_own_idle_sessions_else_from_the_user_with_the_most(
    own: int,
) -> None:
    kernels: Any = NoFiles(Random(0))
    kernels.most = 4 + own
    sessions = PythonSessions(kernels, kernels, Notices())
    users = ["alice", "bob", "bob", "bob", *["carol"] * own]
    for number, user in enumerate(users):
        caller = Caller(user, "agent", "mcp")
        sessions.release(await sessions.acquire(SessionKey(user, f"{number}"), caller))
    session = await sessions.acquire(SessionKey("carol", "new"), Caller("carol", "agent", "mcp"))
    left = ["alice", *["bob"] * 3 * own, "carol"]
    assert [each.user for each in sessions] == left
    sessions.release(session)
    await sessions.close()
