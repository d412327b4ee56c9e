"""Approvals in a terminal for an agent over stdio: shown, given, denied, by other processes."""

from __future__ import annotations

import asyncio
import re
import time
from typing import get_args

import mcp_types as types
import pytest
from mcp import Client

from tests.cli.conftest import Nb, Recorded
from tests.cli.test_mcp_command import connected, text
from tests.proposals import running
from tk_ai_extension.cli.permission_results import Answered, PendingRequests
from tk_ai_extension.cli.screen import Screen
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.workspace.permissions import Answer, PermissionRequest


async def refused(client: Client, tool: str, **arguments: object) -> tuple[str, str]:
    """A call that needs approval: the request's id, and the agent's error message."""
    answer = await client.call_tool(tool, arguments)
    error = answer.structured_content["error"]
    assert error["code"] == "permission_required"
    return error["details"]["permission_id"], text(answer)


@pytest.mark.proves("perm:approvals", "mcp:permission-required")
async def test_a_person_in_a_terminal_lets_an_agents_cell_run(nb: Nb) -> None:
    nb.notebook("a.ipynb", "print(6 * 7)")
    async with connected(nb, "--mode", "ask") as client:
        request, message = await refused(client, "execute_cell", cell=0, notebook="a.ipynb")
        assert f"`nb approve {request}`" in message
        listed = (await asyncio.to_thread(nb, "approve")).out
        assert "wants to call execute_cell in a.ipynb" in listed
        assert "\n print(6 * 7)\n" in listed
        assert (
            f"nb approve {request} [--for chat|chat_tool|notebook|notebook_tool]\n"
            f"nb approve {request} --deny [MESSAGE]"
        ) in listed
        (waits,) = (await asyncio.to_thread(nb, "approve", "--json")).json["permissions"]
        assert (waits["id"], waits["interface"], waits["effect"]) == (request, "mcp", "EXECUTE")
        assert "need your approval: 1" in (await asyncio.to_thread(nb, "status")).out
        assert "execute_cell" in (await asyncio.to_thread(nb, "approve", request)).out
        assert "No requests" in (await asyncio.to_thread(nb, "approve")).out
        ran = await client.call_tool("execute_cell", {"cell": 0, "notebook": "a.ipynb"})
        assert "42" in text(ran)
        await refused(client, "execute_cell", cell=0, notebook="a.ipynb")


@pytest.mark.proves("perm:approvals")
async def test_an_approval_for_a_notebook_holds_and_a_denial_is_reported(nb: Nb) -> None:
    nb.notebook("a.ipynb", "1")
    async with connected(nb, "--mode", "ask") as client:
        insert = {"source": "x = 1", "notebook": "a.ipynb"}
        request, _ = await refused(client, "insert_cell", **insert)
        assert "+x = 1" in (await asyncio.to_thread(nb, "approve")).out
        denied = await asyncio.to_thread(nb, "approve", request, "--deny", "--json")
        assert denied.json["answer"] == "deny"
        answer = await client.call_tool("insert_cell", insert)
        assert answer.structured_content["error"]["code"] == "permission_denied"
        request, _ = await refused(client, "insert_cell", **insert)
        await asyncio.to_thread(nb, "approve", request, "--for", "notebook")
        for _ in range(2):
            assert not (await client.call_tool("insert_cell", insert)).is_error
        # Approval to change is not approval to run.
        await refused(client, "execute_cell", cell=0, notebook="a.ipynb")
    assert len(nb.read("a.ipynb").cells) == 3


@pytest.mark.proves("perm:approvals")
async def test_a_call_that_is_being_asked_about_goes_on_when_the_terminal_answers(nb: Nb) -> None:
    nb.notebook("a.ipynb", "print(6 * 7)")
    asked = asyncio.Event()

    async def ask(_context: object, _params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.set()
        return await asyncio.Future()

    async with connected(nb, "--mode", "edit", mode="legacy", elicitation_callback=ask) as client:
        call = {"cell": 0, "notebook": "a.ipynb"}
        running = asyncio.create_task(client.call_tool("execute_cell", call))
        await asked.wait()
        (waits,) = (await asyncio.to_thread(nb, "approve", "--json")).json["permissions"]
        await asyncio.to_thread(nb, "approve", waits["id"])
        assert "42" in text(await running)


def test_a_request_that_is_not_pending_cannot_be_answered(nb: Nb) -> None:
    assert nb("approve").out == "No requests are waiting.\n"
    assert nb("approve", "--json").json == {"permissions": []}
    assert "not_found" in nb("approve", "0123456789abcdef", status=2).err
    assert "name the request" in nb("approve", "--deny", status=2).err
    assert not (nb.root / ".nb").exists()


def test_a_person_sees_the_code_and_nothing_obeys_it() -> None:
    terminal = Recorded()
    agent = Caller("ada", "key", "mcp", "ask", "agent 1.0")
    evil = "\x1b[2J\u202e"  # clears the screen; turns what follows round
    request = PermissionRequest(
        "9c1f",
        agent,
        "execute_ipython",
        "EXECUTE",
        None,
        running(f"x = 1{evil}"),
        "hash",
        time.time(),
    )
    Screen(terminal, live=True).show(PendingRequests.of([request]))
    assert re.search(r"agent 1\.0 \(mcp\) wants to call execute_ipython, \d+ s ago", terminal.text)
    assert "│  x = 1" in terminal.text
    assert "nb approve 9c1f [--for chat|chat_tool]" in terminal.text
    assert "\x1b[2J" not in terminal.printed
    assert "\u202e" not in terminal.printed


@pytest.mark.proves("perm:approvals")
def test_each_answer_is_said_and_only_a_denial_says_that_the_agent_may_not() -> None:
    said: set[str] = set()
    for answer in get_args(Answer):
        result = Answered(
            id="9c1f", answer=answer, tool="edit_cell", notebook="a.ipynb", author="Claude"
        )
        text = result.as_text()
        assert ("may not" in text) == (answer == "deny")
        assert ("same effect" in text) == (answer in ("chat", "notebook"))
        assert ("this session" in text) == answer.startswith("chat")
        said.add(text)
    assert len(said) == len(get_args(Answer))
