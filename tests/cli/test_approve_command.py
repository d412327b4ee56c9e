"""Approvals in a terminal for an agent over stdio: shown, given, denied, by other processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from mcp import Client

from tests.cli.conftest import Nb
from tests.cli.test_mcp_command import connected, text


async def refused(client: Client, tool: str, **arguments: object) -> tuple[str, str]:
    """A call that needs approval: the request's id, and the agent's error message."""
    answer = await client.call_tool(tool, arguments)
    error = answer.structured_content["error"]
    assert error["code"] == "permission_required"
    return error["details"]["permission_id"], text(answer)


@pytest.mark.proves("perm:approvals", "mcp:permission-required")
async def test_a_person_in_a_terminal_lets_an_agents_cell_run(shared: Nb) -> None:
    shared.notebook("a.ipynb", "print(6 * 7)")
    async with connected(shared, "--mode", "ask") as client:
        request, message = await refused(client, "execute_cell", cell=0, notebook="a.ipynb")
        assert f"`nb approve {request}`" in message
        listed = (await asyncio.to_thread(shared, "approve")).out
        assert "wants to call execute_cell in a.ipynb" in listed
        assert "print(6 * 7)\n" in listed
        assert (
            f"nb approve {request} [--for chat|chat_tool|notebook|notebook_tool]\n"
            f"nb approve {request} --deny [MESSAGE]"
        ) in listed
        (waits,) = (await asyncio.to_thread(shared, "approve", "--json")).json["permissions"]
        assert (waits["id"], waits["interface"], waits["effect"]) == (request, "mcp", "EXECUTE")
        assert "need your approval: 1" in (await asyncio.to_thread(shared, "status")).out
        assert "Approved" in (await asyncio.to_thread(shared, "approve", request)).out
        assert "No requests" in (await asyncio.to_thread(shared, "approve")).out
        ran = await client.call_tool("execute_cell", {"cell": 0, "notebook": "a.ipynb"})
        assert "42" in text(ran)
        await refused(client, "execute_cell", cell=0, notebook="a.ipynb")


@pytest.mark.proves("perm:approvals")
async def test_an_approval_for_a_notebook_holds_and_a_denial_is_reported(shared: Nb) -> None:
    shared.notebook("approved.ipynb", "1")
    async with connected(shared, "--mode", "ask") as client:
        insert = {"source": "x = 1", "notebook": "approved.ipynb"}
        request, _ = await refused(client, "insert_cell", **insert)
        assert "+x = 1" in (await asyncio.to_thread(shared, "approve")).out
        denied = await asyncio.to_thread(shared, "approve", request, "--deny", "--json")
        assert denied.json["answer"] == "deny"
        answer = await client.call_tool("insert_cell", insert)
        assert answer.structured_content["error"]["code"] == "permission_denied"
        request, _ = await refused(client, "insert_cell", **insert)
        await asyncio.to_thread(shared, "approve", request, "--for", "notebook")
        for _ in range(2):
            assert not (await client.call_tool("insert_cell", insert)).is_error
        # Approval to change is not approval to run.
        await refused(client, "execute_cell", cell=0, notebook="approved.ipynb")
    assert len(shared.read("approved.ipynb").cells) == 3


@pytest.mark.proves("perm:approvals")
async def test_a_capped_mode_asks_for_what_a_command_runs(nb: Nb) -> None:
    config = Path(nb.environment["JUPYTER_CONFIG_DIR"], "jupyter_server_config.py")
    await asyncio.to_thread(config.write_text, "c.TkAIExtensionApp.mode_cap = 'ask'\n")
    path = nb.notebook("a.ipynb", "print('\\x1b[2J', 6 * 7)")
    refused = await asyncio.to_thread(nb, "exec", "0", "-n", "a.ipynb", "--json", status=2)
    error = refused.json["error"]
    assert error["code"] == "permission_required"
    request = error["details"]["permission_id"]
    assert f"nb approve {request}" in error["message"] + error["hint"]
    await asyncio.to_thread(nb, "approve", request)
    assert "42" in (await asyncio.to_thread(nb, "exec", "0", "-n", "a.ipynb")).out
    assert path.exists()
