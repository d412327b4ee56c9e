"""Permission requests of agents outside of the panel show in it, and a person answers there."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from playwright.async_api import Locator, Page, expect

from tests.browser.axe import panel_violations
from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab, answer, armed, pick, write_notebook
from tests.browser.pictures import picture
from tests.browser.test_hostile_content import CORPUS, NAME, Watch

NOTEBOOK = "sales.ipynb"
CODE = "by_month = {'Jan': 31, 'Feb': 28, 'Mar': 3}\nmin(by_month, key=by_month.get)"
INSERT = {"notebook": NOTEBOOK, "source": CODE, "index": 1}


class Agent:
    """An MCP client as agents are: the official one, in a session, which cannot show a form."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, tool: str, **arguments: Any) -> str:
        """Calls a tool; `ok`, or the code of the error."""
        result = await self._client.call_tool(tool, arguments)
        answer = result.structured_content or {}
        return answer["error"]["code"] if result.is_error else "ok"


@asynccontextmanager
async def connected(lab: Lab, name: str = "claude-code", **options: Any) -> AsyncGenerator[Agent]:
    """An agent at the lab's server; options are the client's."""
    async with httpx2.AsyncClient(headers=lab.server.headers, timeout=60) as http:
        transport = streamable_http_client(f"{lab.server.url}api/tk-ai/mcp", http_client=http)
        info = types.Implementation(name=name, version="2.1")
        async with Client(transport, mode="legacy", client_info=info, **options) as client:
            yield Agent(client)


def asked(page: Page) -> Locator:
    """The questions of other agents."""
    questions = page.locator(".tk-Chat:visible").get_by_role("region", name="Approvals")
    return questions.get_by_role("group", name="claude-code 2.1 · MCP: ")


async def always(question: Locator, item: str) -> None:
    """Choose a standing answer of a question."""
    await armed(question)
    await pick(question.get_by_role("button", name="More answers"), item)


async def widen(lab: Lab) -> None:
    """Makes room for the panel, as a person does by its edge."""
    await lab.command("application:toggle-left-area")
    mouse, panel = lab.page.mouse, await lab.panel.bounding_box()
    assert panel is not None
    await mouse.move(panel["x"] - 2, 400)
    await mouse.down()
    await mouse.move(840, 400)
    await mouse.up()


def sources(lab: Lab) -> list[str]:
    return [cell.source for cell in lab.notebook(NOTEBOOK).cells]


@pytest.mark.proves("mcp:permission-required", "perm:approvals", "ext:panel", "threat:html")
async def test_what_an_agent_outside_asks_for_is_shown_and_answered(open_lab: OpenLab) -> None:
    lab = await open_lab(config="c.TkAIExtensionApp.mode_cap = 'ask'\n")
    write_notebook(lab.server.root / NOTEBOOK, "prices = [3, 4, 5]")
    await lab.open(NOTEBOOK)
    await lab.show_panel()
    # An approval is for the kernel that there was when it was asked for.
    await expect(lab.page.get_by_role("button", name="| Idle")).to_be_visible()
    await widen(lab)
    for scene in (allowed_by_keyboard, notified, several, hostile, in_every_page, denied_or_always):
        await scene(lab)
        # When an agent disconnects, its requests are removed.
        await expect(lab.panel.get_by_role("region", name="Approvals")).to_have_count(0)


async def allowed_by_keyboard(lab: Lab) -> None:
    """A person allows by the keyboard what an agent asks for."""
    status = lab.panel.get_by_role("status").first
    async with connected(lab) as agent:
        await lab.message_box.press_sequentially("Half a sen")
        assert await agent("insert_and_execute_cell", **INSERT) == "permission_required"
        question = asked(lab.page)
        await expect(question).to_contain_text("Run this in sales.ipynb?")
        await expect(question).to_contain_text("min(by_month, key=by_month.get)")
        await expect(status).to_have_text("claude-code 2.1 needs your approval.")
        # A person's typing continues, and is no answer.
        await expect(lab.message_box).to_be_focused()
        await lab.message_box.press_sequentially("tence")
        await expect(lab.message_box).to_have_value("Half a sentence")
        await expect(question).to_be_visible()
        await armed(question)
        await picture(lab.page, "outside-question", question=question)

        await lab.message_box.fill("")
        await lab.message_box.press("ArrowUp")
        await expect(question).to_be_focused()
        await lab.page.keyboard.press("ArrowDown")
        await expect(lab.message_box).to_be_focused()
        await lab.page.keyboard.press("ArrowUp")
        await lab.page.keyboard.press("Enter")
        await expect(question).to_have_count(0)
        await expect(lab.message_box).to_be_focused()

        assert await agent("insert_and_execute_cell", **INSERT) == "ok"
        # It was for this call only.
        assert await agent("insert_and_execute_cell", **INSERT) == "permission_required"
    assert sources(lab) == ["prices = [3, 4, 5]", CODE]


async def denied_or_always(lab: Lab) -> None:
    """A denied call is refused, and an approved kind of call is not asked for again."""
    question, before = asked(lab.page), sources(lab)
    async with connected(lab) as agent, connected(lab) as other:
        assert await agent("insert_cell", **INSERT) == "permission_required"
        await expect(question).to_contain_text("Change sales.ipynb?")
        await question.focus()
        await armed(question)
        await lab.page.keyboard.press("Escape")
        await expect(question).to_have_count(0)
        assert await agent("insert_cell", **INSERT) == "permission_denied"
        assert sources(lab) == before

        assert await agent("insert_cell", **INSERT) == "permission_required"
        # An answer that does not reach the server is none, and can be given again.
        await lab.page.route("**/api/tk-ai/permissions/*", lambda route: route.abort())
        await always(question, "Always allow this agent")
        await expect(question.get_by_role("alert")).to_have_text("The server cannot be reached.")
        await lab.page.unroute("**/api/tk-ai/permissions/*")
        await always(question, "Always allow this agent")
        await expect(question).to_have_count(0)
        assert await agent("insert_cell", **INSERT) == "ok"
        assert await agent("insert_cell", **INSERT) == "ok"
        # It is for changes of this agent: not for running, and not for another one.
        assert await agent("execute_cell", notebook=NOTEBOOK, cell=0) == "permission_required"
        await expect(question).to_have_count(1)
        assert await other("insert_cell", **INSERT) == "permission_required"
        await expect(question).to_have_count(2)
        await always(question.nth(1), "Always allow in this notebook")
        await expect(question).to_have_count(1)
        assert await other("insert_cell", **INSERT) == "ok"


async def in_every_page(lab: Lab) -> None:
    """Every page shows it, also one that is loaded later, and an answer in one removes it from all."""
    other = Lab(await lab.page.context.new_page(), lab.server)
    pages = [lab.page, other.page]
    async with connected(lab) as agent:
        assert await agent("insert_cell", **INSERT) == "permission_required"
        # Each has its own workspace: a page with a used one moves to another by itself.
        await other.page.goto(f"{lab.server.url}lab/workspaces/second?token={lab.server.token}")
        await other.ready()
        await other.command("tk-ai:show-panel")
        for page in pages:
            await expect(asked(page)).to_be_visible()
        await answer(asked(other.page), "Approve")
        for page in pages:
            await expect(asked(page)).to_have_count(0)
        assert await agent("insert_cell", **INSERT) == "ok"
        # So it is when both are there before the question.
        assert await agent("insert_cell", **INSERT) == "permission_required"
        for page in pages:
            await expect(asked(page)).to_be_visible()
        await answer(asked(other.page), "Deny")
        await expect(asked(lab.page)).to_have_count(0)
        assert await agent("insert_cell", **INSERT) == "permission_denied"
    await other.page.close()


async def notified(lab: Lab) -> None:
    """A notification shows it where no panel does."""
    notification = lab.page.get_by_role("alert").filter(has_text="needs your approval")
    async with connected(lab) as agent:
        await agent("insert_cell", **INSERT)
        await expect(asked(lab.page)).to_be_visible()
        await expect(notification).to_have_count(0)
        await lab.page.get_by_role("tab", name="Claude").click()
        await expect(lab.message_box).to_be_hidden()
        await agent("execute_cell", notebook=NOTEBOOK, cell=0)
        await expect(notification).to_have_text("claude-code 2.1 needs your approval.Show")
        await notification.get_by_role("button", name="Show").click()
        await expect(asked(lab.page)).to_have_count(2)


async def several(lab: Lab) -> None:
    """Axe finds no fault in several."""
    async with AsyncExitStack() as stack:
        for number in range(5):
            agent = await stack.enter_async_context(connected(lab))
            await agent("insert_cell", **{**INSERT, "source": f"number = {number}"})
        await expect(lab.panel.get_by_text("5 approvals pending")).to_be_visible()
        assert await panel_violations(lab) == []


async def hostile(lab: Lab) -> None:
    """Nothing hostile in a name, a path or code is more than text."""
    write_notebook(lab.server.root / NAME, "1")
    watch = Watch(lab.page, lab.server.url)
    lab.page.on("request", watch.request)
    lab.page.on("dialog", watch.dialog)
    whole = "\n".join(CORPUS)
    async with connected(lab, "<img src=x onerror='window.pwned = 1'>\n\u202eClaude") as agent:
        await agent("insert_cell", notebook=NAME, source=f"# \u202e}} \u2066if admin\n{whole}")
        question = lab.panel.get_by_role("region", name="Approvals")
        await expect(question).to_contain_text(f"Change {NAME}?")
        who = "<img src=x onerror='window.pwned = 1'>⟨U+000A⟩⟨U+202E⟩Claud…"
        await expect(question.locator(".tk-Question-who")).to_have_text(f"{who} · MCP")
        for line in whole.splitlines()[:10]:
            await expect(question).to_contain_text(line)
        await expect(question).to_contain_text("# ⟨U+202E⟩} ⟨U+2066⟩if admin")
        assert (
            await question.locator("img, script, iframe, a, style, svg:not(button svg)").count()
            == 0
        )
        await lab.page.get_by_role("tab", name="Claude").click()
        await agent("insert_cell", notebook=NAME, source=whole)
        notification = lab.page.get_by_role("alert").filter(has_text="needs your approval")
        await expect(notification).to_contain_text(who[:40])
        await watch.nothing()
        await lab.show_panel()
