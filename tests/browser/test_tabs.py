"""A notebook open in JupyterLab, without collaboration: what a person and an agent do to it at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from playwright.async_api import Page, WebSocket
from tornado.httpclient import AsyncHTTPClient

from tests.browser.conftest import OpenLab
from tests.browser.lab import DEADLINE, Lab, write_notebook

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
# Under a dialog of JupyterLab's about its connection nobody can type.
WRITE = """
([cell, text]) => {
  const { cells } = window.jupyterapp.shell.currentWidget.content.model.sharedModel;
  const end = cells[cell].getSource().length;
  cells[cell].updateSource(end, end, text);
}
"""
HAS = """
sources => {
  const { cells } = window.jupyterapp.shell.currentWidget.content.model.sharedModel;
  return JSON.stringify(cells.map(cell => cell.getSource())) === JSON.stringify(sources);
}
"""
CLOSE = """
() => {
  const panel = window.jupyterapp.shell.currentWidget;
  panel?.close();
  return document.querySelector('.jp-Notebook') === null;
}
"""
SLOW = "import time\nfor i in range(8):\n    print(i, flush=True)\n    time.sleep(0.5)"
ALL = "".join(f"{i}\n" for i in range(8))
SHOWS = """
([cell, text]) => {
  const panel = window.jupyterapp?.shell.currentWidget;
  const shown = panel?.content?.widgets?.[cell]?.node.querySelector('.jp-OutputArea-output pre');
  return shown?.textContent === text;
}
"""
BEGINS = SHOWS.replace("shown?.textContent === text", "shown?.textContent.startsWith(text)")
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


@dataclass
class Network:
    """What is between a browser and a server, and can fail."""

    host: str
    port: int
    url: str = ""
    _is_down: bool = False
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @classmethod
    @asynccontextmanager
    async def to(cls, url: str) -> AsyncIterator[Network]:
        """A network to a server."""
        address = urlsplit(url)
        network = cls(address.hostname or "", address.port or 0)
        server = await asyncio.start_server(network._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        network.url = urlunsplit(address._replace(netloc=f"127.0.0.1:{port}"))
        try:
            yield network
        finally:
            network.fails()
            server.close()

    def fails(self) -> None:
        """Cuts every connection, and lets none through."""
        self._is_down = True
        for writer in self._open:
            writer.transport.abort()

    def works(self) -> None:
        """Lets connections through again."""
        self._is_down = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_down:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(self.host, self.port)
        ends = {writer, back}
        self._open |= ends
        await asyncio.gather(_pipe(reader, back), _pipe(there, writer))
        self._open -= ends


class Frames:
    """What a page and the server say to each other about notebooks."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._new = asyncio.Event()

    def follow(self, socket: WebSocket) -> None:
        """Listens, if it is that line."""
        if "api/tk-ai/tabs" in socket.url:
            socket.on("framesent", self._hear)
            socket.on("framereceived", self._hear)

    def _hear(self, frame: str | bytes) -> None:
        self._said.append(str(frame).replace(" ", ""))
        self._new.set()

    async def next(
        self, check: Callable[[str], bool], doing: Coroutine[Any, Any, Any] | None = None
    ) -> str:
        """The first such frame among those to come, while something is done."""
        seen = len(self._said)
        if doing is not None:
            await doing
        async with asyncio.timeout(DEADLINE / 1000):
            while (found := next(filter(check, self._said[seen:]), None)) is None:
                self._new.clear()
                await self._new.wait()
        return found

    async def heard(self, listing: str) -> None:
        """Waits until the server has heard what is open, as a frame lists it."""
        answer = f'"listed":{json.loads(listing)["list"]}}}'
        async with asyncio.timeout(DEADLINE / 1000):
            while not any(answer in frame for frame in self._said):
                self._new.clear()
                await self._new.wait()

    def all(self) -> list[str]:
        """All of them so far."""
        return self._said


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


async def types(page: Page, cell: int, text: str) -> None:
    """A person types at the end of a cell."""
    await page.locator(".jp-Notebook .jp-Cell .jp-InputArea .cm-content").nth(cell).click()
    await page.keyboard.press("Control+End")
    await page.keyboard.type(text)


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


@pytest.mark.proves("ext:rtc", "fault:tab-lost")
async def test_a_page_that_is_reloaded_in_the_middle_of_a_cell_shows_all_of_its_output(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab()
    write_notebook(lab.server.root / "n.ipynb", SLOW, "b = 2")
    page = await opened(lab, "n.ipynb")
    running = asyncio.create_task(call(lab, "execute_cell", notebook="n.ipynb", cell=0))
    await page.wait_for_function(BEGINS, arg=[0, "0\n1\n"])
    # The browser may ask whether to leave.
    page.on("dialog", lambda dialog: dialog.accept())
    await page.reload()
    await shown(page, "n.ipynb")
    assert (await running)["status"] == "ok"
    await page.wait_for_function(SHOWS, arg=[0, ALL])
    await lab.command("docmanager:save")
    await page.wait_for_function(CLEAN)
    stored = lab.notebook("n.ipynb").cells[0]
    assert (stored.outputs[0].text, stored.execution_count) == (ALL, 1)
    assert await page.locator(DIALOG).count() == 0


@pytest.mark.proves("ext:rtc", "fault:tab-lost")
async def test_a_notebook_that_is_closed_and_opened_again_in_the_middle_of_a_cell_is_complete(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab()
    write_notebook(lab.server.root / "n.ipynb", SLOW, "b = 2")
    page = await opened(lab, "n.ipynb")
    running = asyncio.create_task(call(lab, "execute_cell", notebook="n.ipynb", cell=0))
    await page.wait_for_function(BEGINS, arg=[0, "0\n1\n"])
    await lab.command("docmanager:save")
    await page.wait_for_function(CLOSE)
    ran = await running
    assert ran["status"] == "ok"
    await lab.command("docmanager:open", path="n.ipynb")
    await shown(page, "n.ipynb")
    await page.wait_for_function(SHOWS, arg=[0, ALL])
    assert lab.notebook("n.ipynb").cells[0].outputs[0].text == ALL
    await call(lab, "insert_cell", notebook="n.ipynb", source="c = 3")
    assert await page.evaluate(SOURCES) == [SLOW, "b = 2", "c = 3"]
    assert await page.locator(DIALOG).count() == 0


@pytest.mark.proves("ext:rtc", "fault:concurrent-edit")
async def test_two_tabs_with_one_notebook_show_the_same_or_the_agent_is_told(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab()
    write_notebook(lab.server.root / "n.ipynb", "a = 1", "b = 2")
    first = await opened(lab, "n.ipynb")
    second = await opened(lab, "n.ipynb", await first.context.new_page())
    await first.bring_to_front()
    await types(first, 0, "  # typed")
    await call(lab, "read_notebook", notebook="n.ipynb")
    await call(lab, "overwrite_cell", notebook="n.ipynb", cell=1, source="b = 3")
    both = ["a = 1  # typed", "b = 3"]
    assert await first.evaluate(SOURCES) == both
    await second.wait_for_function(HAS, arg=both)
    await types(first, 0, "!")
    await types(second, 1, "?")
    await second.wait_for_function(f"() => !({CLEAN})()")
    refused = await call(lab, "read_notebook", status=409, notebook="n.ipynb")
    assert refused["error"]["code"] == "open_twice"
    for page in (first, second):
        assert await page.locator(DIALOG).count() == 0


@pytest.mark.proves("ext:rtc", "fault:tab-lost")
async def test_a_browser_that_is_offline_for_a_while_loses_nothing(open_lab: OpenLab) -> None:
    lab = await open_lab()
    write_notebook(lab.server.root / "n.ipynb", SLOW, "b = 2")
    async with Network.to(lab.server.url) as network:
        page, frames = lab.page, Frames()
        page.on("websocket", frames.follow)
        await page.goto(f"{network.url}lab/tree/n.ipynb?token={lab.server.token}")
        await shown(page, "n.ipynb")
        running = asyncio.create_task(call(lab, "execute_cell", notebook="n.ipynb", cell=0))
        await page.wait_for_function(BEGINS, arg=[0, "0\n"])
        network.fails()
        await running
        network.works()
        await page.wait_for_function(SHOWS, arg=[0, ALL])
        await lab.command("docmanager:save")
        await page.wait_for_function(CLEAN)

        is_dirty = await frames.next(
            lambda frame: '"tabs"' in frame and '"dirty":true' in frame,
            page.evaluate(WRITE, [1, "  # typed"]),
        )
        await frames.heard(is_dirty)
        network.fails()
        await page.evaluate(WRITE, [1, " offline"])
        refused = await call(lab, "insert_cell", status=503, notebook="n.ipynb", source="c")
        assert refused["error"]["code"] == "tab_offline"
        network.works()
        await frames.next(lambda frame: '"listed"' in frame)
        await call(lab, "insert_cell", notebook="n.ipynb", source="c = 3")
        expected = [SLOW, "b = 2  # typed offline", "c = 3"]
        assert await page.evaluate(SOURCES) == expected
        stored = lab.notebook("n.ipynb").cells
        assert [cell.source for cell in stored] == expected
        assert stored[0].outputs[0].text == ALL
        assert await page.get_by_text("File Changed").count() == 0


@pytest.mark.proves("ext:rtc")
async def test_with_collaboration_the_room_is_used_and_the_page_is_asked_nothing(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab(collaboration=True)
    write_notebook(lab.server.root / "n.ipynb", "a = 1", "b = 2")
    frames = Frames()
    lab.page.on("websocket", frames.follow)
    page = await opened(lab, "n.ipynb")
    await types(page, 0, "  # typed")
    await call(lab, "insert_and_execute_cell", notebook="n.ipynb", source="print(6 * 7)", index=2)
    expected = ["a = 1  # typed", "b = 2", "print(6 * 7)"]
    await page.wait_for_function(HAS, arg=expected)
    await page.wait_for_function(SHOWS, arg=[2, "42\n"])
    assert all('"tabs":[]' in frame or '"listed"' in frame for frame in frames.all())
    assert await page.locator(DIALOG).count() == 0
