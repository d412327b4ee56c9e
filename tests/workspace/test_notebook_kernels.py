"""A notebook has one kernel, even if an agent and a person start it at the same time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness import ToolHarness, backend, documents, harness, jp_server_config

__all__ = ["backend", "documents", "harness", "jp_server_config"]


async def sessions_of(harness: ToolHarness) -> list[tuple[str, str]]:
    sessions = await harness.app.session_manager.list_sessions()
    return [(session["id"], session["kernel"]["id"]) for session in sessions]


@pytest.mark.proves("kernel:session", "kernel:shared-live")
async def test_a_kernel_that_a_person_starts_meanwhile_is_the_notebooks(
    harness: ToolHarness, jp_fetch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = harness.workspace
    harness.write("n.ipynb", "1")
    start, theirs = workspace.kernels.start, []

    async def start_while_a_person_opens_it(*args: Any, **options: Any) -> str:
        started = await start(*args, **options)
        body = {"path": "n.ipynb", "name": "", "type": "notebook", "kernel": {"name": "python3"}}
        await jp_fetch("api", "sessions", method="POST", body=json.dumps(body))
        theirs.extend(await sessions_of(harness))
        return started

    monkeypatch.setattr(workspace.kernels, "start", start_while_a_person_opens_it)
    used = await harness.call("use_notebook", notebook="n.ipynb")
    assert await sessions_of(harness) == theirs
    assert (used.kernel_id, used.kernel) == (theirs[0][1], "joined")
    assert workspace.kernels.ids() == [used.kernel_id]


@pytest.mark.proves("kernel:session", "kernel:shared-live")
async def test_a_kernel_that_is_chosen_meanwhile_is_kept(
    harness: ToolHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, manager = harness.workspace, harness.app.session_manager
    harness.write("n.ipynb", "1")
    await harness.call("use_notebook", notebook="n.ipynb")
    ((session, _),) = await sessions_of(harness)
    chosen = await workspace.kernels.start()
    wait_ready = workspace.kernels.wait_ready

    async def wait_while_another_is_chosen(kernel_id: str) -> float:
        await manager.update_session(session, kernel_id=chosen)
        return await wait_ready(kernel_id)

    monkeypatch.setattr(workspace.kernels, "wait_ready", wait_while_another_is_chosen)
    used = await harness.call("use_notebook", notebook="n.ipynb")
    assert used.kernel_id == chosen
    assert await sessions_of(harness) == [(session, chosen)]
