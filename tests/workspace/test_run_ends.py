# ruff: noqa: ARG002 - the signatures are those of the protocols
"""The end of a run: it cannot be missed, and a cell that did not run keeps its outputs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import nbformat
import pytest

from tests.workspace.scripted_kernels import ScriptedKernels
from tk_ai_extension.kernels.base import KernelEvent
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import (
    DiskFull,
    GatewayUnavailable,
    KernelBusy,
    KernelNotFound,
    ToolError,
)
from tk_ai_extension.model.executions import (
    Execution,
    ExecutionEvent,
    ExecutionRequest,
    OutputsChanged,
    Started,
)
from tk_ai_extension.model.outputs import Append
from tk_ai_extension.notebooks.live import NotebookRouter
from tk_ai_extension.notebooks.notebook import Incarnations, Notebooks
from tk_ai_extension.workspace import executions as module
from tk_ai_extension.workspace.displays import DisplayRegistry
from tk_ai_extension.workspace.executions import Executions
from tk_ai_extension.workspace.journal import ActivityFeed
from tk_ai_extension.workspace.runs import FairQueue, Run, Step

DEADLINE = 10
ALICE = Caller("alice", "a", "mcp")


class Parts:
    """What the end of a run calls: the journal, the notebook and the supervisor; each part may fail.

    Args:
        random: The order of events.
        failing: What raises an error, by name.
    """

    def __init__(self, random: Random, failing: dict[str, BaseException]) -> None:
        self.random = random
        self.failing = failing
        self.called: list[str] = []

    async def _part(self, name: str) -> None:
        self.called.append(name)
        for _ in range(self.random.randrange(6)):
            await asyncio.sleep(0)
        if name in self.failing:
            raise self.failing[name]

    async def end_run(self, *_: Any, **__: Any) -> None:
        await self._part("end_run")

    async def record(self, *_: Any, **__: Any) -> int:
        await self._part("record")
        return 1

    async def open(self, _path: str) -> Any:
        await self._part("open")
        return self

    async def flush(self) -> None:
        await self._part("flush")

    async def before_step(self, run: Run, step: Step) -> None:
        await self._part("before_step")

    async def after_step(self, run: Run, step: Step) -> bool:
        await self._part("after_step")
        return False

    async def on_interrupt_ignored(self, run: Run) -> None:
        pass

    async def on_end(self, run: Run) -> None:
        await self._part("on_end")


PARTS = ["end_run", "record", "open", "flush", "before_step", "after_step", "on_end"]
ERRORS: list[BaseException] = [
    DiskFull("The disk is full."),
    OSError("no"),
    KeyError("text"),
    RecursionError(),
    asyncio.CancelledError(),
]


@pytest.mark.proves("exec:statuses", "fault:server-stop")
async def test_every_run_ends_whatever_fails_and_whenever_it_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_ACTIVE", 1)
    for seed in range(50):
        random = Random(seed)
        failing = {name: random.choice(ERRORS) for name in PARTS if random.random() < 0.2}
        parts: Any = Parts(random, failing)
        kernels: Any = ScriptedKernels(random)
        executions = Executions(kernels, FairQueue(), parts, Notebooks(), ActivityFeed())
        kernel_id = await kernels.start()
        entry = random.choice([None, 1])
        run = executions.start(
            ALICE,
            kernel_id,
            [Step(code="1"), Step(code="2")],
            open_document=parts.open,
            path="n.ipynb",
            approval=None,
            supervisor=parts,
            entry=entry,
        )
        for _ in range(random.randrange(60)):
            await asyncio.sleep(0)
        match random.randrange(3):
            case 0:
                await executions.close()
                assert run.done
            case 1:
                await executions.cancel(run, grace=0)
            case _:
                pass
        assert await run.wait(DEADLINE), f"seed {seed}: it does not end"
        assert parts.called.count("on_end") == 1, f"seed {seed}: its kernel is not released"
        await executions.close()
        assert ("end_run" if entry else "record") in parts.called, (
            f"seed {seed}: the history does not know that it ended"
        )
        executions.start(ALICE, kernel_id, [Step(code="3")], approval=None)
        await executions.close()


class Outcomes(ScriptedKernels):
    """A kernel that takes the code or does not, and whose output says "new"."""

    outcome: Any = "ok"
    """An error, a status without a start, or "ok"."""
    took: Any = None
    """The kernel's life in which it has begun to run the code."""

    async def execute(
        self, kernel_id: str, request: ExecutionRequest
    ) -> AsyncGenerator[ExecutionEvent]:
        await self.pause()
        if isinstance(self.outcome, ToolError):
            raise self.outcome
        if self.outcome != "ok":
            yield Execution(self.outcome, message="It did not run.")
            return
        self.took = life = self.lives[kernel_id]
        new = nbformat.v4.new_output("stream", text="new")
        yield Started(1)
        await self.pause()
        if not life.ended.is_set():
            yield OutputsChanged((Append(dict(new)),))
            await self.pause()
        yield Execution(life.status or "ok", (dict(new),), execution_count=1)


NOT_RUN = [
    KernelNotFound("No kernel is running."),
    KernelBusy("The kernel does not answer."),
    GatewayUnavailable("The gateway does not answer."),
    "kernel_died",
    "kernel_restarted",
    "interrupted",
]


@pytest.mark.proves("exec:statuses", "kernel:shared-live")
async def test_a_cell_that_did_not_run_keeps_its_outputs_and_one_in_another_kernel_has_not_run(
    tmp_path: Path,
) -> None:
    old = nbformat.v4.new_output("stream", text="old")
    cell = nbformat.v4.new_code_cell("x", outputs=[old], execution_count=7, id="aaaa")
    path = tmp_path / "n.ipynb"
    store = NotebookRouter(tmp_path, str)
    for seed in range(40):
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
        stored, random = path.read_bytes(), Random(seed)
        kernels: Any = Outcomes(random)
        kernels.outcome = random.choice([*NOT_RUN, *["ok"] * len(NOT_RUN)])
        notebooks, incarnations, displays = Notebooks(), Incarnations(), DisplayRegistry()

        def forget(event: KernelEvent, of: Incarnations = incarnations) -> None:
            of.end(event.kernel_id)

        kernels.subscribe(forget)
        journal: Any = Parts(random, {})
        executions = Executions(
            kernels,
            FairQueue(),
            journal,
            notebooks,
            ActivityFeed(),
            incarnations=incarnations,
            displays=displays,
        )
        kernel_id = await kernels.start()
        run = executions.start(
            ALICE,
            kernel_id,
            [Step(cell="aaaa", code="x")],
            open_document=store.open,
            path="n.ipynb",
            approval=None,
        )
        if random.random() < 0.5:
            with suppress(TimeoutError):
                async with asyncio.timeout(random.random() * 0.02):
                    await run.wait(None)
            await kernels.restart(kernel_id)
        elif random.random() < 0.3:
            await kernels.pause(30)
            await executions.cancel(run, grace=0)
        assert await run.wait(DEADLINE)
        await executions.close()
        if kernels.took is None:
            assert path.read_bytes() == stored, f"seed {seed}: {kernels.outcome}"
        else:
            assert "old" not in path.read_text(), f"seed {seed}"
        is_current = kernels.took is not None and kernels.lives[kernel_id] is kernels.took
        assert bool(notebooks.at("n.ipynb").last_runs.by_cell()) == is_current, f"seed {seed}"
