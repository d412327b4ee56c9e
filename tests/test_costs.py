"""What calls cost: counts by the official MCP client against a real server, compared with their budgets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx2
import nbformat
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from nbformat.v4 import new_code_cell, new_notebook

from tests.costs import COSTS, MAX_MODULES, Cost, Documents
from tests.servers import ServerProcess, StartServer, start_server
from tests.support.tab_page import TabPage

__all__ = ["start_server"]

pytestmark = pytest.mark.timeout(300)

WARM_UPS = 3
COUNTED = 10
TOLERANCE = 0.1
IDLE = 0.5
"""Seconds after which the server has done what a call left for later."""

REPOSITORY = Path(__file__).parent.parent
COUNTING = (
    'c.ServerApp.jpserver_extensions["tests.call_counter"] = True\n'
    # It would count as well.
    'c.ServerApp.jpserver_extensions["jupyter_server_ydoc"] = False\n'
)


@dataclass(frozen=True, slots=True)
class Bench:
    """A server that counts, and its client."""

    server: ServerProcess
    http: httpx2.AsyncClient
    client: Client

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool and return its structured answer."""
        answer = await self.client.call_tool(tool, arguments)
        assert not answer.is_error, answer.content
        return answer.structured_content

    async def counts(self) -> dict[str, Any]:
        """Return the server's counts once it is idle."""
        await asyncio.sleep(IDLE)
        return (await self.http.get(f"{self.server.url}costs/counts")).json()

    async def measure(self, tool: str, cells: int) -> dict[str, Any]:
        """Return the mean counts of a call, and the modules that it passed."""
        for turn in range(WARM_UPS):
            await self.call(tool, **arguments(tool, cells, turn))
        before = await self.counts()
        for turn in range(COUNTED):
            await self.call(tool, **arguments(tool, cells, WARM_UPS + turn))
        after = await self.counts()
        means = {name: (after[name] - before[name]) / COUNTED for name in ("calls", "transactions")}
        return means | {"modules": after["modules"]}


def arguments(tool: str, cells: int, turn: int) -> dict[str, Any]:
    """Return the arguments of a measured call; each edit changes something."""
    middle = f"cell{cells // 2}"
    return {
        "execute_ipython": {"code": "1+1"},
        "execute_cell": {"cell": middle},
        "overwrite_cell": {"cell": middle, "source": f"1 + {turn}"},
        "insert_cell": {"source": "1+1"},
        "insert_and_execute_cell": {"source": "1+1"},
    }.get(tool, {})


@asynccontextmanager
async def bench(start: StartServer, documents: Documents) -> AsyncGenerator[Bench]:
    """Start a server that counts; with ``tab``, a page has the notebooks open."""
    server = await start(config=COUNTING, PYTHONPATH=str(REPOSITORY))
    for cells in {cost.cells for cost in COSTS}:
        notebook = new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "-"}})
        notebook.cells = [new_code_cell("1+1", id=f"cell{index}") for index in range(cells)]
        nbformat.write(notebook, server.root / f"{cells}.ipynb")
    async with (
        AsyncExitStack() as stack,
        httpx2.AsyncClient(headers=server.headers, timeout=60, trust_env=False) as http,
        Client(
            streamable_http_client(f"{server.url}api/tk-ai/mcp", http_client=http), mode="legacy"
        ) as client,
    ):
        if documents == "tab":
            page = TabPage(server.url, server.token)
            stack.push_async_callback(page.close)
            await page.connect()
            for cells in {cost.cells for cost in COSTS}:
                await page.open(f"{cells}.ipynb")
        yield Bench(server, http, client)


def verdict(cost: Cost, counted: dict[str, Any], documents: Documents) -> list[str]:
    """Return what is not as budgeted, in words."""
    wrong: list[str] = []
    for name, budget in (("calls", cost.calls[documents]), ("transactions", cost.transactions)):
        # How many parts of an output a tab gets depends on the machine, so that it has an upper bound only.
        is_low = documents == "file" and counted[name] < budget * (1 - TOLERANCE)
        if is_low or counted[name] > budget * (1 + TOLERANCE):
            advice = "lower the budget" if is_low else "too many"
            call = f"{cost.tool}, {cost.cells} cells"
            wrong.append(f"{call}: {counted[name]:,.1f} {name} for {budget:,}: {advice}")
    modules = [module for module in counted["modules"] if not module.startswith("model/")]
    if cost.tool == "execute_cell" and len(modules) > MAX_MODULES:
        wrong.append(f"{len(modules)} modules for {MAX_MODULES}: {', '.join(modules)}")
    return wrong


@pytest.mark.parametrize("documents", ["file", "tab"])
async def test_calls_cost_what_is_budgeted(start_server: StartServer, documents: Documents) -> None:
    wrong: list[str] = []
    async with bench(start_server, documents) as server:
        for cells, costs in groupby(COSTS, lambda cost: cost.cells):
            await server.call("use_notebook", notebook=f"{cells}.ipynb")
            await server.call("read_cell", cell=f"cell{cells // 2}")
            for cost in costs:
                wrong += verdict(cost, await server.measure(cost.tool, cells), documents)
    assert wrong == [], "\n" + "\n".join(wrong)
