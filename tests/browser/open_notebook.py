"""A notebook that is open in pages of JupyterLab: requests, a person's actions, and the network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import nbformat
import pytest
from playwright.async_api import Page, WebSocket
from tornado.httpclient import AsyncHTTPClient

from tests.browser.lab import DEADLINE, LAUNCHED, Lab, new_page

BOTH = pytest.mark.parametrize("collaboration", [False, True], ids=["alone", "collaboration"])
"""Stories that are the same without jupyter-collaboration and with it."""

SOURCES = """
() => {
  const panel = window.jupyterapp.shell.currentWidget;
  return panel.content.model.sharedModel.cells.map(cell => cell.getSource());
}
"""
CELLS = """
() => {
  const { content, context } = window.jupyterapp?.shell.currentWidget ?? {};
  if (!content?.model?.sharedModel?.cells) {
    return document.body.innerText.slice(0, 1000);
  }
  const { model, widgets } = content;
  const kernel = context.sessionContext.session?.kernel?.connectionStatus ?? 'no kernel';
  const cells = model.sharedModel.cells.map((cell, index) => {
    const shown = widgets[index]?.node.querySelector('.jp-OutputArea')?.textContent ?? null;
    return JSON.stringify({ ...cell.toJSON(), shown }).slice(0, 1000);
  });
  return [kernel, ...cells];
}
"""
FOCUSED = "() => window.jupyterapp.shell.currentWidget.content.activeCell.editor.hasFocus()"
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
# JupyterLab asks before it closes unsaved work, such as an output that has just arrived. With
# collaboration the room saves it in a moment.
CLOSE = """
() => {
  const panel = window.jupyterapp.shell.currentWidget;
  const model = panel?.content?.model;
  if (model && !model.dirty) {
    panel.close();
  }
  return document.querySelector('.jp-Notebook') === null;
}
"""
SHOWS = """
([cell, text]) => {
  const panel = window.jupyterapp?.shell.currentWidget;
  const shown = panel?.content?.widgets?.[cell]?.node.querySelector('.jp-OutputArea-output pre');
  return shown?.textContent === text;
}
"""
BEGINS = SHOWS.replace("shown?.textContent === text", "shown?.textContent.startsWith(text)")


async def call(lab: Lab, tool: str, status: int = 200, **arguments: Any) -> Any:
    """Calls a tool as a program does."""
    code, answer = await answered(lab, tool, **arguments)
    assert code == status, answer
    return answer


async def answered(lab: Lab, tool: str, **arguments: Any) -> tuple[int, Any]:
    """The status and the answer of a tool."""
    response = await AsyncHTTPClient().fetch(
        f"{lab.server.url}api/tk-ai/tools/{tool}?caller=agent",
        method="POST",
        headers={**lab.server.headers, "Content-Type": "application/json"},
        body=json.dumps(arguments),
        raise_error=False,
        request_timeout=120,
    )
    return response.code, json.loads(response.body)


async def changed_twice(lab: Lab, path: str) -> None:
    """Waits until reading is refused since two tabs have changes: a tab reports its own a moment later."""
    async with asyncio.timeout(DEADLINE / 1000):
        while (answer := await answered(lab, "read_notebook", notebook=path))[0] == 200:
            pass
    assert (answer[0], answer[1]["error"]["code"]) == (409, "open_twice")


async def reads(lab: Lab, path: str, text: str) -> None:
    """An agent reads until the notebook that it sees has this text."""
    async with asyncio.timeout(DEADLINE / 1000):
        while text not in (await call(lab, "read_notebook", notebook=path))["text"]:
            pass


async def save(lab: Lab) -> None:
    """A person saves; with collaboration the room does so itself."""
    script = "() => window.jupyterapp.shell.currentWidget.content.model.collaborative"
    if not await lab.page.evaluate(script):
        await lab.command("docmanager:save")
        await lab.page.wait_for_function(CLEAN)


async def saved(lab: Lab, path: str, sources: list[str]) -> None:
    """Waits until the cells are in the file, once its person has saved."""
    await save(lab)
    await on_disk(lab, path, sources)


async def on_disk(lab: Lab, path: str, sources: list[str]) -> None:
    """Waits until the file has these cells."""
    await in_file(lab, path, lambda cells: [cell.source for cell in cells] == sources)


async def has_run(lab: Lab, path: str, index: int, text: str, count: int) -> None:
    """Waits until the file has the outputs of a cell that ran."""

    def check(cells: list[Any]) -> bool:
        cell = cells[index]
        shown = "".join(output.get("text", "") for output in cell.outputs)
        return cell.execution_count == count and shown == text

    await in_file(lab, path, check)


async def in_file(lab: Lab, path: str, check: Callable[[list[Any]], bool]) -> None:
    """Waits until the cells of a file pass a check.

    Jupyter is not asked: where it reads a notebook that it saves at that moment, it puts the one before back.
    """
    cells: list[Any] = []
    try:
        async with asyncio.timeout(DEADLINE / 1000):
            while not (cells and check(cells)):
                await asyncio.sleep(0.05)
                with suppress(nbformat.reader.NotJSONError):  # It is being saved.
                    cells = lab.notebook(path).cells
    except TimeoutError:
        raise AssertionError(f"{path} has {cells}") from None


@dataclass
class Network:
    """The network between a browser and a server, which can fail."""

    host: str
    port: int
    url: str = ""
    _is_down: bool = False
    _open: dict[asyncio.Task[Any], asyncio.StreamWriter] = field(
        default_factory=dict[asyncio.Task[Any], asyncio.StreamWriter]
    )

    @classmethod
    @asynccontextmanager
    async def to(cls, url: str) -> AsyncGenerator[Network]:
        """A network to a server."""
        address = urlsplit(url)
        network = cls(address.hostname or "", address.port or 0)
        server = await asyncio.start_server(network._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        network.url = urlunsplit(address._replace(netloc=f"127.0.0.1:{port}"))
        try:
            yield network
        finally:
            server.close()
            await network.fails()
            # What was accepted last is refused, and closed, in a few rounds of the loop.
            for _ in range(10):
                await asyncio.sleep(0)

    async def fails(self) -> None:
        """Drop every connection and refuse new ones; return once the server has noticed."""
        self._is_down = True
        for writer in self._open.values():
            writer.transport.abort()
        async with asyncio.timeout(DEADLINE / 1000):
            await asyncio.gather(*self._open, return_exceptions=True)

    def works(self) -> None:
        """Lets connections through again."""
        self._is_down = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_down:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        there, back = await asyncio.open_connection(self.host, self.port)
        await asyncio.gather(_pipe(reader, back), _pipe(there, writer))
        with suppress(ConnectionError):
            # The server closes its end as well, once it has noticed.
            while await there.read(1 << 16):
                pass
        writer.close()
        back.close()
        del self._open[task]


class Frames:
    """The messages between a page and the server about notebooks."""

    def __init__(self) -> None:
        self._frames: list[str] = []
        self._new = asyncio.Event()

    def follow(self, socket: WebSocket) -> None:
        """Listens, if it is that connection."""
        if "api/tk-ai/tabs" in socket.url:
            socket.on("framesent", self._on_frame)
            socket.on("framereceived", self._on_frame)

    def _on_frame(self, frame: str | bytes) -> None:
        self._frames.append(str(frame).replace(" ", ""))
        self._new.set()

    async def next(
        self, check: Callable[[str], bool], doing: Coroutine[Any, Any, Any] | None = None
    ) -> str:
        """The first such frame among those to come, while something is done."""
        seen = len(self._frames)
        if doing is not None:
            await doing
        async with asyncio.timeout(DEADLINE / 1000):
            while (found := next(filter(check, self._frames[seen:]), None)) is None:
                self._new.clear()
                await self._new.wait()
        return found


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.write_eof()


async def types(page: Page, cell: int, text: str) -> None:
    """A person types at the end of a cell."""
    await page.locator(".jp-Notebook .jp-Cell .jp-InputArea .cm-content").nth(cell).click()
    await page.keyboard.press("Control+End")
    await page.keyboard.type(text)


async def opened(lab: Lab, path: str, page: Page | None = None) -> Page:
    """A page that shows a notebook, with its kernel, which the server knows of."""
    if page is None:
        await lab.open(path)
        return await shown(lab.page, path)
    await page.goto(f"{lab.server.url}lab/tree/{path}?token={lab.server.token}")
    return await shown(page, path)


async def reopened(lab: Lab, path: str) -> None:
    """Closes the notebook that is shown, and opens it again in the same page."""
    await lab.page.wait_for_function(CLOSE)
    await lab.command("docmanager:open", path=path)
    await shown(lab.page, path)


async def close(page: Page) -> None:
    """A person closes the only open notebook; the launcher comes in its place a moment later."""
    await page.wait_for_function(CLOSE)
    await page.wait_for_function(LAUNCHED)


async def another(lab: Lab, path: str) -> Page:
    """The same notebook in another browser."""
    browser = lab.page.context.browser
    assert browser is not None
    return await opened(lab, path, await new_page(browser))


async def shown(page: Page, path: str) -> Page:
    """The page once it shows a notebook with its kernel."""
    await page.wait_for_function(SHOWN, arg=path)
    return page
