"""An agent outside of JupyterLab that knows which cell its person looks at, and shows them one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from playwright.async_api import expect

from tests.browser.agents import NOTEBOOK, Open, write_cells
from tests.browser.axe import violations
from tests.browser.conftest import OpenLab
from tests.browser.lab import DEADLINE, Lab


@asynccontextmanager
async def outside(lab: Lab) -> AsyncGenerator[Client]:
    """An agent's client, connected over MCP."""
    async with httpx2.AsyncClient(headers=lab.server.headers, timeout=60) as http:
        transport = streamable_http_client(f"{lab.server.url}api/tk-ai/mcp", http_client=http)
        info = types.Implementation(name="claude-code", version="2.1")
        async with Client(transport, mode="legacy", client_info=info) as client:
            yield client


async def called(agent: Client, tool: str, **arguments: Any) -> Any:
    """The answer of a tool, which has to succeed."""
    result = await agent.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def looked_at(agent: Client, text: str) -> str:
    """What the person looks at, once it has this text: a page says it a moment later."""
    async with asyncio.timeout(DEADLINE / 1000):
        while True:
            with suppress(MCPError):
                (found,) = (await agent.read_resource("notebook://focus")).contents
                if isinstance(found, types.TextResourceContents) and text in found.text:
                    return found.text


@pytest.mark.proves("mcp:focus")
async def test_an_agent_says_what_is_wrong_in_the_cell_that_the_person_looks_at(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab()
    cells = {f"cell{n:04}": f"x{n} = {n}\n" * 6 for n in range(12)}
    write_cells(lab.server.root, **{**cells, "cell0002": "rows = []\nsum(rows) / len(rows)"})
    await lab.open(NOTEBOOK)
    seen = Open(lab)
    await seen.run(2)
    await expect(seen.cells.nth(2)).to_contain_text("ZeroDivisionError")
    await seen.cells.nth(2).locator(".cm-content").click()
    await lab.page.keyboard.press("Control+End")
    await lab.page.keyboard.press("Shift+Home")
    async with outside(lab) as agent:
        assert await looked_at(agent, "Selected text") == (
            f"The person looks at {NOTEBOOK}, cell 2 @cell0002 [1]: rows = []\n"
            "Selected text, line 2 of the cell:\nsum(rows) / len(rows)"
        )
        call = partial(called, agent)
        used = await call("use_notebook", notebook="active")
        assert (used["notebook"], used["focus"]["cell"]) == (NOTEBOOK, "cell0002")
        read = await call("read_cell", cell="[1]")
        assert "ZeroDivisionError" in read["output"]

        # The person is elsewhere: a mark and the toolbar lead there, and nothing moves.
        await seen.cells.nth(0).locator(".cm-content").click()
        await call("show_cell", cell=read["address"])
        mark = seen.cells.get_by_role("button", name="claude-code 2.1 shows this cell.")
        await expect(mark).to_be_visible()
        assert await violations(lab.page, ".tk-Mark, .tk-RunningItem") == []
        await call("show_cell", cell="cell0011")
        await expect(mark).not_to_be_in_viewport()
        leads = seen.toolbar.get_by_role("button", name="claude-code 2.1 shows you a cell")
        await expect(leads).to_be_visible()
        await expect(seen.cells.nth(0)).to_contain_class("jp-mod-active")
        await leads.click()
        await expect(seen.cells.nth(11)).to_be_in_viewport()
        await expect(mark).to_have_count(0)

        # Who follows is taken there.
        await lab.command("tk-ai:follow-agent")
        await call("show_cell", cell="cell0002")
        await expect(seen.cells.nth(2)).to_be_in_viewport()
        await expect(seen.cells.nth(11)).to_contain_class("jp-mod-active")
        fixed = "rows = [1, 3]\nsum(rows) / len(rows)"
        await call("overwrite_cell", cell=read["address"], source=fixed)
        assert (await call("execute_cell", cell="cell0002"))["runs"][0]["output"] == "2.0"
        await expect(seen.mark(2)).to_be_visible()
        await expect(mark).to_have_count(0)
        await call("undo")
        await expect(seen.cells.nth(2)).to_contain_text("rows = []")
        await expect(seen.mark(2)).to_have_count(0)
        # What was shown is still marked, until they go there.
        await mark.click()
        await expect(mark).to_have_count(0)
