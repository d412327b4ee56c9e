"""Presence ends with an agent's work, also when that fails, is cancelled or loses its kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness import ALICE, BOB, ToolHarness
from tk_ai_extension.notebooks.rooms import presence

SLEEPS = "print('begun', flush=True)\nimport time\ntime.sleep(60)"


@pytest.fixture
def documents() -> str:
    return "room"


@pytest.fixture(autouse=True)
def short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "ANNOUNCE_INTERVAL", 0.05)
    monkeypatch.setattr(presence, "GRACE", 0.1)


class Watcher:
    """Somebody who sees who is in a notebook's room."""

    def __init__(self, harness: ToolHarness, path: str) -> None:
        store: Any = harness.workspace.store
        self._awareness = store._rooms.find(path).room.awareness

    def names(self) -> list[str]:
        users = [state["user"] for state in self._awareness.states.values() if state.get("user")]
        return sorted(user["display_name"] for user in users)

    async def sees(self, who: Callable[[list[str]], bool]) -> None:
        changed = asyncio.Event()
        subscription = self._awareness.observe(lambda *_: changed.set())
        async with asyncio.timeout(30):
            while not who(self.names()):
                changed.clear()
                await changed.wait()
        self._awareness.unobserve(subscription)


@pytest.mark.proves("ext:presence")
@pytest.mark.parametrize("end", ["error", "cancelled", "kernel"])
async def test_nobody_is_left_behind_by_an_error_a_cancellation_or_a_lost_kernel(
    harness: ToolHarness, end: str
) -> None:
    harness.write("n.ipynb", "1 / 0" if end == "error" else SLEEPS, "2")
    used = await harness.call("use_notebook", notebook="n.ipynb")
    await harness.call("use_notebook", notebook="n.ipynb", caller=BOB)
    ours = await harness.call("execute_cell", notebook="n.ipynb", cell=0, wait=0)
    # It waits for its turn in a kernel that may be no more when that comes.
    theirs = await harness.call("execute_cell", notebook="n.ipynb", cell=1, wait=0, caller=BOB)
    watcher = Watcher(harness, "n.ipynb")
    await watcher.sees(lambda names: ALICE.name in names)
    executions = harness.workspace.executions
    runs = [
        executions.get(ALICE, ours.execution_id),
        executions.get(BOB, theirs.execution_id),
    ]
    if end == "cancelled":
        await executions.cancel(runs[0])
    elif end == "kernel":
        await harness.app.kernel_manager.shutdown_kernel(used.kernel_id, now=True)
    for run in runs:
        assert await run.wait(60)
    await watcher.sees(lambda names: not names)
    # And the notebook shows no run to those who open it now.
    assert harness.workspace.activity.running("n.ipynb") == []


@pytest.mark.proves("ext:presence")
async def test_a_caller_that_edits_is_present_and_one_that_reads_is_not(
    harness: ToolHarness,
) -> None:
    harness.write("n.ipynb", "a = 1", "b = 2")
    await harness.room("n.ipynb")
    await harness.call("read_notebook", notebook="n.ipynb", caller=BOB)
    await harness.call("read_notebook", notebook="n.ipynb")
    await harness.call("overwrite_cell", notebook="n.ipynb", cell=0, source="a = 3")
    watcher = Watcher(harness, "n.ipynb")
    await watcher.sees(lambda names: names == [ALICE.name])
    await watcher.sees(lambda names: not names)
