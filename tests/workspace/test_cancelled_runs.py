"""Cancelling a run interrupts its own code, or nothing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from jupyter_client.session import Session

from tests.harness import ALICE, ToolHarness, backend, documents, harness, jp_server_config
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.workspace.runs import Run, Step

__all__ = ["backend", "documents", "harness", "jp_server_config"]

DEADLINE = 60
CALLERS = [Caller("alice", f"session-{number}", "mcp") for number in range(3)]
QUEUED = 4
"""How many cells a person has in the kernel's queue."""


class Person:
    """A person's own client of a kernel, whose cells wait in the kernel's queue with everybody's."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, code: str) -> str:
        """Send a cell; return its request's id."""
        return self._client.execute(code)

    async def started(self, request: str) -> None:
        """Wait until the kernel runs a cell."""
        kind = parent = ""
        while (kind, parent) != ("execute_input", request):
            message = await self._client.get_iopub_msg()
            kind, parent = message["msg_type"], message["parent_header"].get("msg_id", "")

    async def ended(self, request: str) -> str:
        """Wait for the reply to a cell; return how it ended."""
        while True:
            reply = await self._client.get_shell_msg()
            if reply["parent_header"]["msg_id"] == request:
                content = reply["content"]
                return content.get("ename") or content["status"]


@asynccontextmanager
async def person_at(harness: ToolHarness, kernel_id: str) -> AsyncGenerator[Person]:
    manager: Any = harness.app.kernel_manager.get_kernel(kernel_id)
    client = manager.client(session=Session(key=manager.session.key))
    client.start_channels()
    try:
        await client.wait_for_ready()
        yield Person(client)
    finally:
        client.stop_channels()


async def runs_in_kernel(run: Run) -> None:
    while not run.current.started:
        await run.changed(run.version, 0.01)


class HeldDocument:
    """A notebook whose outputs are saved only once the test says so."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self.saving, self.may_save = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.document, name)

    @asynccontextmanager
    async def writing(self, cell: str) -> AsyncGenerator[Any]:
        async with self.document.writing(cell) as writer:
            finish = writer.finish

            async def finish_later(*args: Any, **options: Any) -> None:
                self.saving.set()
                await self.may_save.wait()
                await finish(*args, **options)

            writer.finish = finish_later
            yield writer


@pytest.mark.proves("exec:cancel", "kernel:shared-live")
@pytest.mark.parametrize("backend", ["direct", "stack"])
@pytest.mark.parametrize("seed", range(2))
async def test_cancels_at_random_moments_interrupt_nobody_elses_cell(
    harness: ToolHarness, seed: int
) -> None:
    executions, kernels = harness.workspace.executions, harness.workspace.kernels
    kernel_id = await kernels.start()
    never = asyncio.get_running_loop().create_future()

    async def some_time(random: Random, most: float) -> None:
        await asyncio.wait([never], timeout=random.uniform(0, most))

    async def cells_of_a_person(person: Person) -> set[str]:
        random, ends = Random(f"{seed} person"), set[str]()
        queued = deque[str]()

        def is_needed() -> bool:
            return not all(task.done() for task in running)

        while is_needed() or queued:
            while is_needed() and len(queued) < QUEUED:
                seconds = random.uniform(0.01, 0.04)
                queued.append(person.run(f"__import__('time').sleep({seconds})"))
            ends.add(await person.ended(queued.popleft()))
        return ends

    async def runs_of(caller: Caller) -> None:
        random = Random(f"{seed} {caller.key}")
        for _ in range(16):
            is_endless, is_cancelled = random.random() < 0.2, random.random() < 0.7
            seconds = 600 if is_endless else random.choice([0, 0.01])
            code = f"__import__('time').sleep({seconds})"
            run = executions.start(caller, kernel_id, [Step(code=code)], approval=None)
            if is_endless:
                await runs_in_kernel(run)
            if is_endless or is_cancelled:
                await some_time(random, 0.1)
                await executions.cancel(run, grace=0)
            assert await run.wait(DEADLINE), "every run ends"
            ends = {"interrupted"} if is_endless else {"ok", "interrupted"}
            assert run.status in (ends if is_endless or is_cancelled else {"ok"})

    async with (
        asyncio.timeout(2 * DEADLINE),
        person_at(harness, kernel_id) as person,
        asyncio.TaskGroup() as group,
    ):
        running = [group.create_task(runs_of(caller)) for caller in CALLERS]
        ends = await cells_of_a_person(person)
    assert ends == {"ok"}


@pytest.mark.proves("exec:cancel", "kernel:shared-live")
async def test_a_short_cell_that_is_cancelled_before_its_turn_is_not_interrupted(
    harness: ToolHarness,
) -> None:
    executions, kernel_id = harness.workspace.executions, await harness.workspace.kernels.start()
    gate = harness.root / "gate"
    async with asyncio.timeout(DEADLINE), person_at(harness, kernel_id) as person:
        for _ in range(3):
            first = person.run(f"import os, time\nwhile not os.path.exists({str(gate)!r}): pass")
            await person.started(first)
            run = executions.start(ALICE, kernel_id, [Step(code="1")], approval=None)
            while run.current.status == "queued":
                await run.changed(run.version, 0.01)
            for _ in range(100):  # until it is in the kernel's queue
                await asyncio.sleep(0)
            second = person.run("time.sleep(0.3)")
            assert await executions.cancel(run, grace=0) == "waiting"
            gate.touch()
            assert await person.ended(second) == "ok"
            assert await run.wait(DEADLINE)
            gate.unlink()


@pytest.mark.proves("exec:cancel", "kernel:shared-live")
async def test_a_cancel_while_outputs_are_saved_interrupts_nobody(harness: ToolHarness) -> None:
    workspace = harness.workspace
    harness.write("n.ipynb", "1")
    document = HeldDocument(await workspace.store.open("n.ipynb"))
    kernel_id, _ = await workspace.kernel_for(document.document)

    async def open_document(_path: str) -> Any:
        return document

    async with asyncio.timeout(DEADLINE), person_at(harness, kernel_id) as person:
        run = workspace.executions.start(
            ALICE,
            kernel_id,
            [Step(cell="cella000", code="1")],
            open_document=open_document,
            path="n.ipynb",
            approval=None,
        )
        await document.saving.wait()
        theirs = person.run("import time\ntime.sleep(0.5)")
        await person.started(theirs)
        assert await workspace.executions.cancel(run, grace=0.01) == "ended"
        assert await person.ended(theirs) == "ok"
        document.may_save.set()
        assert await run.wait(DEADLINE)
    assert run.status == "ok"
