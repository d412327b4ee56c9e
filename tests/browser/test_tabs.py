"""A notebook open in JupyterLab, without collaboration: what a person and an agent do to it at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from playwright.async_api import Page
from tornado.httpclient import AsyncHTTPClient

from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab, write_notebook

SOURCES = """
() => {
  const panel = window.jupyterapp.shell.currentWidget;
  return panel.content.model.sharedModel.cells.map(cell => cell.getSource());
}
"""
STATE = """
() => {
  const { content } = window.jupyterapp.shell.currentWidget;
  return {
    active: content.activeCellIndex,
    editing: content.mode === 'edit',
    focused: content.activeCell.editor.hasFocus(),
    scrolled: content.node.querySelector('.jp-WindowedPanel-outer').scrollTop,
    cursor: content.activeCell.editor.getCursorPosition(),
    dirty: content.model.dirty
  };
}
"""
SHOWN = """
path => {
  const context = window.jupyterapp?.shell.currentWidget?.context;
  return context?.path === path && context.isReady
    && context.sessionContext.session?.kernel?.connectionStatus === 'connected'
    && document.querySelector('.jp-Notebook .jp-Cell .cm-content') !== null;
}
"""
CLEAN = "() => !window.jupyterapp.shell.currentWidget.content.model.dirty"
DIALOG = ".jp-Dialog"


async def call(lab: Lab, tool: str, status: int = 200, **arguments: Any) -> Any:
    """Calls a tool as a program does."""
    response = await AsyncHTTPClient().fetch(
        f"{lab.server.url}api/tk-ai/tools/{tool}?caller=agent",
        method="POST",
        headers={**lab.server.headers, "Content-Type": "application/json"},
        body=json.dumps(arguments),
        raise_error=False,
        request_timeout=60,
    )
    answer = json.loads(response.body)
    assert response.code == status, answer
    return answer


async def opened(lab: Lab, path: str, page: Page | None = None) -> Page:
    """A page that shows a notebook, with its kernel, which the server knows of."""
    page = page or lab.page
    await page.goto(f"{lab.server.url}lab/tree/{path}?token={lab.server.token}")
    return await shown(page, path)


async def shown(page: Page, path: str) -> Page:
    """The page once it shows a notebook with its kernel."""
    await page.wait_for_function(SHOWN, arg=path)
    return page


@pytest.mark.proves("ext:rtc", "fault:concurrent-edit")
async def test_a_person_types_on_unsaved_while_an_agent_inserts_edits_and_runs(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab()
    write_notebook(lab.server.root / "n.ipynb", "a = 1", "print('old')", "c = 3")
    page = await opened(lab, "n.ipynb")
    await page.locator(".jp-Notebook .jp-Cell .cm-content").nth(0).click()
    await page.keyboard.press("End")
    await page.keyboard.type("  # typed")
    before = await page.evaluate(STATE)
    assert before["dirty"]

    async def types() -> None:
        for letter in " and typed on":
            await page.keyboard.type(letter)

    async def works() -> None:
        read = await call(lab, "read_notebook", notebook="n.ipynb")
        assert "# typed" in read["text"]
        await call(lab, "insert_cell", notebook="n.ipynb", source="first = 0", index=0)
        await call(lab, "edit_cell", notebook="n.ipynb", cell=2, old="old", new="new")
        ran = await call(lab, "execute_cell", notebook="n.ipynb", cell=2)
        assert ran["status"] == "ok"

    await asyncio.gather(types(), works())
    expected = ["first = 0", "a = 1  # typed and typed on", "print('new')", "c = 3"]
    assert await page.evaluate(SOURCES) == expected
    await page.wait_for_function(
        "() => document.querySelector('.jp-OutputArea-output pre')?.textContent === 'new\\n'"
    )
    state = await page.evaluate(STATE)
    assert state["focused"]
    assert state["editing"]
    assert state["active"] == before["active"] + 1
    await lab.command("docmanager:save")
    await page.wait_for_function(CLEAN)
    stored = lab.notebook("n.ipynb")
    assert [cell.source for cell in stored.cells] == expected
    assert stored.cells[2].outputs[0].text == "new\n"
    assert await page.locator(DIALOG).count() == 0
    # Each takes back their own.
    await page.keyboard.press("Control+z")
    mine = (await page.evaluate(SOURCES))[1]
    assert mine != expected[1]
    assert expected[1].startswith(mine)
    await call(lab, "undo", notebook="n.ipynb", steps=2)
    assert await page.evaluate(SOURCES) == [mine, "print('old')", "c = 3"]
