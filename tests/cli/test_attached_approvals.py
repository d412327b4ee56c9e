"""`nb mcp --mode ask` beside a running server: a person sees the server's proposal; just that runs."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import mcp_types as types
import pytest

from tests.cli.conftest import Nb
from tests.cli.test_attached_server import ask, ask_tool, beside, server
from tests.cli.test_mcp_command import connected, text
from tests.servers import ServerProcess, start_server

__all__ = ["beside", "server", "start_server"]

CALL = {"cell": 0, "notebook": "a.ipynb"}


@pytest.mark.proves("perm:beside", "perm:bound", "perm:message")
async def test_a_person_is_asked_about_the_code_that_the_server_will_run(
    beside: Nb, server: ServerProcess
) -> None:
    beside.notebook("a.ipynb", "print(6 * 7)", "print('other')")
    shown: list[str] = []

    async def person(_context: Any, params: Any) -> types.ElicitResult:
        shown.append(params.message)
        if len(shown) == 1:
            change = {"cell": 0, "old": "6 * 7", "new": "6 * 9", "notebook": "a.ipynb"}
            await asyncio.to_thread(ask_tool, server, "read_cell?caller=b", CALL)
            await asyncio.to_thread(ask_tool, server, "edit_cell?caller=b", change)
        content: dict[str, Any] = {"answer": "once"}
        if len(shown) == 3:
            content = {"answer": "deny", "message": "not that one"}
        return types.ElicitResult(action="accept", content=content)

    async with connected(
        beside, "--mode", "ask", mode="legacy", elicitation_callback=person
    ) as client:
        ran = await client.call_tool("execute_cell", CALL)
        # What was changed while the person read is shown again, and only that runs.
        assert len(shown) == 2, (text(ran), shown)
        assert [" print(6 * 7)" in shown[0], " print(6 * 9)" in shown[1]] == [True, True]
        # Whole words: an id may have the digits of either.
        assert re.findall(r"\b(?:42|54)\b", text(ran)) == ["54"], text(ran)
        denied = await client.call_tool("execute_cell", {**CALL, "cell": 1})
        error = denied.structured_content["error"]
        assert (error["code"], error["details"]["user_message"]) == (
            "permission_denied",
            "not that one",
        )
        assert len(shown) == 3
    assert (await asyncio.to_thread(ask, server, "api/tk-ai/permissions"))["permissions"] == []


@pytest.mark.proves("perm:beside", "perm:message")
async def test_nb_approve_shows_the_servers_proposal_and_its_answer_counts_there(
    beside: Nb, server: ServerProcess
) -> None:
    beside.notebook("a.ipynb", "print(6 * 7)")
    async with connected(beside, "--mode", "ask") as client:

        async def refused() -> str:
            answer = await client.call_tool("execute_cell", CALL)
            error = answer.structured_content["error"]
            assert error["code"] == "permission_required", error
            return error["details"]["permission_id"]

        request = await refused()
        listed = (await asyncio.to_thread(beside, "approve")).out
        assert "\n print(6 * 7)\n" in listed
        assert not await asyncio.to_thread(ask, server, "api/kernels")
        await asyncio.to_thread(beside, "approve", request)
        assert "42" in text(await client.call_tool("execute_cell", CALL))
        request = await refused()
        await asyncio.to_thread(beside, "approve", request, "--deny", "use cell 1")
        denied = await client.call_tool("execute_cell", CALL)
        assert "use cell 1" in text(denied)
