"""Eight agents over MCP and a person who types, in one notebook: nothing is lost, doubled or mixed up."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import time
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent
from playwright.async_api import Error as PlaywrightError

from tests.browser.agents import NOTEBOOK, write_cells
from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab, no_dialog
from tests.browser.open_notebook import SOURCES, of_file, save, shown

_log = logging.getLogger(__name__)

AGENTS = 8
PERSON = "mine0000"
COUNTER = "from collections import Counter\nran = Counter()"
WRITE_COUNTS = "import json, pathlib; pathlib.Path('ran.json').write_text(json.dumps(ran))"
SAVED = of_file(
    "mine, printed",
    f"""
    cells[1].source === mine
    && cells.every(({{ id, outputs }}) => outputs.map(each => each.text).join('') === (printed[id] ?? ''))
    && JSON.stringify(cells.map(cell => cell.source)) === JSON.stringify(({SOURCES.strip()})())
""",
)
"""A file has what was typed and printed, and the sources that the page has."""
EDITOR = ".jp-Notebook .jp-Cell .jp-InputArea .cm-content"


@dataclass
class Agent:
    """One agent, and what the notebook has to hold of it.

    Attributes:
        client: Its MCP session.
        name: The prefix of its tokens.
        dice: Its choices.
        cells: The token that each of its cells has last been run with, by cell id.
        ran: How often each token's code was run.
        calls: How many calls it has made.
    """

    client: Client
    name: str
    dice: random.Random
    cells: dict[str, str] = field(default_factory=dict)
    ran: dict[str, int] = field(default_factory=dict)
    calls: int = 0

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool on the notebook; it has to succeed."""
        answer = await self.client.call_tool(tool, {"notebook": NOTEBOOK, **arguments})
        self.calls += 1
        texts = [part.text for part in answer.content if isinstance(part, TextContent)]
        assert not answer.is_error, (tool, arguments, texts)
        return answer.structured_content or {}

    async def step(self) -> None:
        """Do one thing, and check what is said of it."""
        if not self.cells or self.dice.random() < 0.45:
            await self.insert()
        else:
            cell = self.dice.choice(list(self.cells))
            await self.dice.choice([self.edit, self.run, self.move, self.delete])(cell)

    async def insert(self) -> None:
        token = self._token()
        answer = await self.call("insert_and_execute_cell", source=_code(token), index=2, wait=60)
        cell = self._check(answer, token)
        assert cell not in self.cells
        self.cells[cell] = token

    async def edit(self, cell: str) -> None:
        token = self._token()
        answer = await self.call("overwrite_cell", cell=cell, source=_code(token))
        assert [change["cell"] for change in answer["changes"]] == [cell]
        self.cells[cell] = token
        await self.run(cell)

    async def run(self, cell: str) -> None:
        answer = await self.call("execute_cell", cell=cell, wait=60)
        assert self._check(answer, self.cells[cell]) == cell

    async def move(self, cell: str) -> None:
        answer = await self.call("move_cell", cell=cell, to=2)
        assert [change["cell"] for change in answer["changes"]] == [cell]

    async def delete(self, cell: str) -> None:
        answer = await self.call("delete_cell", cell=cell)
        (change,) = answer["changes"]
        assert (change["cell"], change["removed_source"]) == (cell, _code(self.cells.pop(cell)))

    def _token(self) -> str:
        return f"{self.name}-{self.calls}"

    def _check(self, answer: dict[str, Any], token: str) -> str:
        (run,) = answer["runs"]
        self.ran[token] = self.ran.get(token, 0) + 1
        assert (run["status"], run["output"]) == ("ok", token), answer
        return run["cell"]


def _code(token: str) -> str:
    return f"ran['{token}'] += 1\nprint('{token}')"


async def work(lab: Lab, number: int, seed: int, until: float) -> Agent:
    """An agent's work until a moment of the event loop's clock."""
    async with httpx2.AsyncClient(headers=lab.server.headers, timeout=120) as http:
        transport = streamable_http_client(f"{lab.server.url}api/tk-ai/mcp", http_client=http)
        async with Client(transport, mode="legacy") as client:
            agent = Agent(client, f"agent{number}", random.Random(f"{seed} {number}"))
            while time.monotonic() < until:
                await agent.step()
            return agent


async def typing(lab: Lab, until: float, *, saves: bool) -> str:
    """What a person types into their own cell, and saves now and then where the room does not."""
    typed = ""
    while time.monotonic() < until:
        word = f" w{len(typed)}"
        # A click would wait until the cell has kept its place for two frames.
        await lab.page.locator(EDITOR).nth(1).focus(timeout=120_000)
        await lab.page.keyboard.press("Control+End")
        await lab.page.keyboard.type(word)
        typed += word
        if saves and len(typed) % 40 < 6:
            # Agents change the notebook all the time: it need not be clean afterwards.
            await lab.command("docmanager:save")
    return typed


@pytest.mark.parametrize("collaboration", [False, True], ids=["alone", "collaboration"])
@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(3, id="short"),
        pytest.param(600, id="long", marks=[pytest.mark.soak, pytest.mark.timeout(1200)]),
    ],
)
@pytest.mark.proves("edit:effects-of-the-commit", "fault:concurrent-edit")
async def test_eight_agents_and_a_person_work_in_one_notebook(
    open_lab: OpenLab, collaboration: bool, seconds: int
) -> None:
    seed = random.randrange(10**6)
    _log.info("seed %s", seed)
    lab = await open_lab(None, collaboration=collaboration)
    write_cells(lab.server.root, counts00=COUNTER, mine0000="mine = 1  #")
    await lab.open(NOTEBOOK)
    await shown(lab.page, NOTEBOOK)
    async with httpx2.AsyncClient(headers=lab.server.headers, timeout=120) as http:
        address = f"{lab.server.url}api/tk-ai/tools"
        for tool, arguments in (("use_notebook", {}), ("execute_cell", {"cell": "counts00"})):
            answer = await http.post(f"{address}/{tool}", json={"notebook": NOTEBOOK, **arguments})
            assert answer.status_code == 200, answer.text
        until = time.monotonic() + seconds
        typed, agents = await asyncio.gather(
            typing(lab, until, saves=not collaboration),
            asyncio.gather(*(work(lab, number, seed, until) for number in range(AGENTS))),
        )
        asked = {"notebook": NOTEBOOK, "code": WRITE_COUNTS}
        answer = await http.post(f"{address}/execute_ipython", json=asked)
        assert answer.status_code == 200, answer.text
        ran = json.loads((lab.server.root / "ran.json").read_text())
    await save(lab)
    mine = f"mine = 1  #{typed}"
    owned = {cell: token for agent in agents for cell, token in agent.cells.items()}
    printed = {cell: f"{token}\n" for cell, token in owned.items()}
    began = time.monotonic()
    # What was done last reaches the page, and the room's file, a moment later; if not, it is
    # missed below.
    with contextlib.suppress(PlaywrightError):
        await lab.page.evaluate(SAVED, [NOTEBOOK, mine, printed])
    late = time.monotonic() - began
    sources = await lab.page.evaluate(SOURCES)
    calls = sum(agent.calls for agent in agents)
    _log.warning(
        "%s calls of agents, %s cells, %s characters typed; page and file agreed after %.1f s",
        *(calls, len(sources), len(typed), late),
    )
    cells = {cell.id: cell for cell in lab.notebook(NOTEBOOK).cells}
    for cell, source in zip(cells.values(), sources, strict=True):
        assert cell.source == source
    assert set(cells) == {"counts00", PERSON, *owned}
    assert cells[PERSON].source == mine
    assert {cell: cells[cell].source for cell in owned} == {
        cell: _code(token) for cell, token in owned.items()
    }
    assert printed == {
        cell: "".join(output.get("text", "") for output in cells[cell].outputs) for cell in owned
    }
    assert ran == {token: count for agent in agents for token, count in agent.ran.items()}
    await no_dialog(lab.page)
