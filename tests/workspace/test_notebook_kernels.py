"""A notebook has one kernel, even if an agent and a person start it at the same time."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.harness import ALICE, BOB, ToolHarness, backend, harness, jp_server_config

__all__ = ["backend", "harness", "jp_server_config"]


async def sessions_of(harness: ToolHarness, path: str) -> list[str]:
    """The kernels of the notebook's sessions."""
    sessions = await harness.app.session_manager.list_sessions()
    return [session["kernel"]["id"] for session in sessions if session["path"] == path]


@pytest.mark.proves("kernel:session", "kernel:shared-live")
@pytest.mark.parametrize("seed", range(3))
async def test_all_who_start_a_notebooks_kernel_at_once_share_it(
    harness: ToolHarness, jp_fetch: Any, seed: int
) -> None:
    randomness, loop = random.Random(seed), asyncio.get_running_loop()
    body = {"name": "", "type": "notebook", "kernel": {"name": "python3"}}

    async def opened_by_page(path: str) -> str:
        sent = json.dumps({**body, "path": path})
        response = await jp_fetch("api", "sessions", method="POST", body=sent)
        return json.loads(response.body)["kernel"]["id"]

    async def used_by_agent(path: str) -> str:
        caller = ALICE if randomness.random() < 0.5 else BOB
        return (await harness.call("use_notebook", caller=caller, notebook=path)).kernel_id

    async def after(seconds: float, kernel: Callable[[str], Awaitable[str]], path: str) -> str:
        begins = loop.create_future()
        loop.call_later(seconds, begins.set_result, None)
        await begins
        return await kernel(path)

    longest = 0.5
    for number in range(1, 5):
        path = f"n{number}.ipynb"
        harness.write(path, "1")
        starters = [opened_by_page, used_by_agent, opened_by_page, used_by_agent]
        began = loop.time()
        kernels = await asyncio.gather(
            *(after(randomness.uniform(0, longest), each, path) for each in starters)
        )
        longest = min(longest, loop.time() - began)
        assert len(set(kernels)) == 1
        assert await sessions_of(harness, path) == [kernels[0]]
        assert len(harness.workspace.kernels.ids()) == number


@pytest.mark.proves("kernel:session", "kernel:shared-live")
async def test_a_kernel_that_is_chosen_at_the_same_time_is_kept(
    harness: ToolHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, manager = harness.workspace, harness.app.session_manager
    harness.write("n.ipynb", "1")
    await harness.call("use_notebook", notebook="n.ipynb")
    (session,) = await manager.list_sessions()
    chosen = await workspace.kernels.start()
    wait_ready = workspace.kernels.wait_ready

    async def wait_while_another_is_chosen(kernel_id: str) -> None:
        await manager.update_session(session["id"], kernel_id=chosen)
        await wait_ready(kernel_id)

    monkeypatch.setattr(workspace.kernels, "wait_ready", wait_while_another_is_chosen)
    used = await harness.call("use_notebook", notebook="n.ipynb")
    assert used.kernel_id == chosen
    assert await sessions_of(harness, "n.ipynb") == [chosen]
