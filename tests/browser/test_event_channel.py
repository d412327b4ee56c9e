"""All events of a page come over one connection: none is lost or doubled when it is lost."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.async_api import Page, Request, WebSocket, expect

from tests.browser.conftest import OpenLab
from tests.browser.lab import DEADLINE, Lab, armed, waits, write_notebook
from tests.browser.open_notebook import Network
from tests.support.scripted_model import Answer, Held, ScriptedModel, ToolUse

NOTEBOOKS = ("one.ipynb", "two.ipynb", "three.ipynb")
INSERT = ToolUse("insert_cell", {"source": "x = 1", "index": 1})


WORDS = " ".join(f"word{number}" for number in range(60))


class Connections:
    """What a page follows: its WebSockets to the extension, and streams of server-sent events."""

    def __init__(self, page: Page) -> None:
        self.sockets = 0
        self.streams: list[str] = []
        self.topics: set[str] = set()
        self.events: list[int] = []
        page.on("websocket", self._opened)
        page.on("request", self._requested)

    def _opened(self, socket: WebSocket) -> None:
        if "api/tk-ai/tabs" in socket.url:
            self.sockets += 1
            socket.on("framesent", self._sent)
            socket.on("framereceived", self._received)

    def _requested(self, request: Request) -> None:
        if request.method == "GET" and request.headers.get("accept") == "text/event-stream":
            self.streams.append(request.url)

    def _sent(self, frame: str | bytes) -> None:
        message: Any = json.loads(frame)
        if "subscribe" in message:
            self.topics.add(message.get("changes") or ("chat" if "chat" in message else "others"))

    def _received(self, frame: str | bytes) -> None:
        message: Any = json.loads(frame)
        if "number" in message.get("event", {}):
            self.events.append(message["id"])


@pytest.mark.proves("ext:panel", "perm:modes")
async def test_an_answer_gets_through_beside_three_notebooks_and_two_chats_that_wait(
    open_lab: OpenLab, model: ScriptedModel
) -> None:
    lab = await open_lab(model, fresh=True)
    connections = Connections(lab.page)
    for name in NOTEBOOKS:
        write_notebook(lab.server.root / name, "1")
    model.add(Answer.of(INSERT), Answer.of(INSERT))
    model.add(Answer.of("The second one is there."), Answer.of("The first one is there."))
    await lab.open(NOTEBOOKS[0])
    for name in NOTEBOOKS[1:]:
        await lab.command("docmanager:open", path=name, options={"mode": "split-right"})
    await expect(lab.page.locator(".jp-NotebookPanel:visible")).to_have_count(3)
    await lab.show_panel()
    question = lab.panel.get_by_role("group", name=re.compile("^Change "))

    await lab.say("The first one.")
    await expect(question).to_be_visible()
    await lab.panel.get_by_title("New chat", exact=True).click()
    await expect(question).to_have_count(0)
    await lab.say("The second one.")
    await expect(question).to_be_visible()

    await armed(question)
    await question.focus()
    await lab.page.keyboard.press("Enter")
    await expect(lab.log.get_by_text("The second one is there.")).to_be_visible()
    await lab.panel.get_by_role("button", name="History").click()
    history = lab.panel.get_by_role("region", name="History")
    await (
        history.get_by_role("listitem")
        .filter(has_text="The first one.")
        .locator(".tk-Entry-open")
        .click()
    )
    await armed(question)
    await question.focus()
    await lab.page.keyboard.press("Enter")
    await expect(lab.log.get_by_text("The first one is there.")).to_be_visible()
    assert connections.topics == {*NOTEBOOKS, "chat", "others"}
    assert (connections.sockets, connections.streams) == (1, [])


@pytest.mark.proves("ext:chat", "ext:panel")
async def test_two_pages_have_each_event_once_through_a_reload_and_a_lost_network(
    open_lab: OpenLab, model: ScriptedModel
) -> None:
    lab = await open_lab(model, fresh=True)
    async with Network.to(lab.server.url) as network:
        first = Connections(lab.page)
        held = [Held(Answer.of(WORDS), after=count) for count in (10, 20)]
        model.add(held[0])
        await lab.page.goto(f"{network.url}lab?token={lab.server.token}")
        await lab.ready()
        await lab.show_panel()
        await lab.say("Count.")
        await expect(lab.log.get_by_text("word3", exact=False)).to_be_visible()

        # Another page opens the same chat in the middle of the turn.
        other = Lab(await lab.page.context.new_page(), lab.server)
        other.page.set_default_timeout(DEADLINE)
        await waits(other.page)
        second = Connections(other.page)
        await other.page.goto(f"{network.url}lab/workspaces/other?token={lab.server.token}")
        await other.ready()
        await other.command("tk-ai:show-panel")
        await other.panel.get_by_role("button", name="History").click()
        await other.panel.locator(".tk-Entry-open").first.click()
        await expect(other.log.get_by_text("word3", exact=False)).to_be_visible()

        await network.fails()
        await expect(lab.log.get_by_role("button", name="Reconnect")).to_be_visible()
        held[0].go_on.set()
        network.works()
        for page in (lab, other):
            await expect(page.log.get_by_text("word59", exact=False)).to_be_visible()
            await expect(page.log.get_by_role("button", name="Reconnect")).to_have_count(0)

        # A page that is reloaded reads what it had, and follows the rest.
        model.add(held[1])
        await lab.say("Again.")
        await held[1].held.wait()
        await lab.page.reload()
        await lab.ready()
        await lab.command("tk-ai:show-panel")
        held[1].go_on.set()
        await expect(lab.log.get_by_text("word59", exact=False)).to_have_count(2)

        for connections in (first, second):
            assert connections.sockets > 1
            assert connections.events != []
            assert len(connections.events) == len(set(connections.events))
            assert connections.streams == []
        for page in (lab, other):
            answer = await page.log.locator(".tk-Answer").first.inner_text()
            assert re.findall(r"word\d+", answer) == WORDS.split()
