"""All that a page listens to at once leaves connections free for what is asked and answered."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Page, Request, expect

from tests.browser.lab import Lab, armed, write_notebook
from tk_ai_extension.testing.scripted_model import Answer, ScriptedModel, ToolUse

NOTEBOOKS = ("one.ipynb", "two.ipynb", "three.ipynb")
INSERT = ToolUse("insert_cell", {"source": "x = 1", "index": 1})


class Lines:
    """What a page listens to: requests that are answered for as long as they last."""

    def __init__(self, page: Page) -> None:
        self.most = 0
        self.heard: set[str] = set()
        self._open: list[Request] = []
        page.on("request", self._begun)
        page.on("requestfailed", self._ended)
        page.on("requestfinished", self._ended)

    def _begun(self, request: Request) -> None:
        if request.method == "GET" and request.headers.get("accept") == "text/event-stream":
            self._open.append(request)
            self.most = max(self.most, len(self._open))
            self.heard.add(_what(request.url))

    def _ended(self, request: Request) -> None:
        if request in self._open:
            self._open.remove(request)


def _what(url: str) -> str:
    """What is listened to: a notebook by its name, else the route."""
    parts = urlsplit(url)
    return parse_qs(parts.query).get("notebook", [parts.path.rpartition("/")[2]])[0]


@pytest.mark.proves("ext:panel", "perm:ask")
async def test_an_answer_gets_through_beside_three_notebooks_and_two_chats_that_wait(
    lab: Lab, model: ScriptedModel
) -> None:
    lines = Lines(lab.page)
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
    await lab.panel.get_by_role("button", name="New chat").click()
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
    # All were heard, on four lines; one that is taken over may be seen to end after the next began.
    assert lines.heard == {*NOTEBOOKS, "events", "permissions"}
    assert lines.most <= 5
