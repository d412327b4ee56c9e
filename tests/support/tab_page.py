"""A headless page of JupyterLab: open notebooks over the real WebSocket and contents API.

It does in Python what the extension's plug-in does in the browser (`src/tabs`), so that tests of open
tabs need no browser: it holds unsaved changes, carries out requests of the server, and saves as
JupyterLab does, with a dialog if the file was changed by others. Unlike the plug-in, it does not merge
others' changes elsewhere in the notebook with unsaved ones.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast
from urllib.parse import quote

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.websocket import (
    WebSocketClientConnection,
    WebSocketClosedError,
    websocket_connect,
)

from tests.support.document_bench import DEADLINE, code
from tests.support.tab_notebook import TabNotebook
from tk_ai_extension.model.json_values import Json

MAX_ANSWER = 4_000_000
"""Approximate maximum of characters of cells in one answer; the rest is requested again."""


class SaveRefused(Exception):
    """A save that JupyterLab shows a dialog for."""

    def __init__(self, code: str, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "status": status}


class TabPage:
    """A page of JupyterLab, connected to a server.

    Args:
        url: The server's address, ending in a slash.
        token: The server's token.

    Attributes:
        notebooks: Open notebooks by path.
        dialogs: Titles of JupyterLab's dialogs.
        asked: Methods that the server requested, in order.
        before: Async hook called with each question before the answer.
    """

    def __init__(self, url: str, token: str) -> None:
        self.client = uuid.uuid4().hex
        self.notebooks: dict[str, TabNotebook] = {}
        self.dialogs: list[str] = []
        self.asked: list[str] = []
        self.before: Callable[[Json], Any] | None = None
        self._url = url
        self._headers = {"Authorization": f"token {token}"}
        self._socket: WebSocketClientConnection | None = None
        self._reading: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._listed: deque[asyncio.Event] = deque()
        self._opening = asyncio.Lock()

    # --- connection

    async def connect(self) -> None:
        """Connect, as at the page's start and after a lost connection."""
        request = HTTPRequest(
            f"ws{self._url.removeprefix('http')}api/tk-ai/tabs?client={self.client}",
            headers=self._headers,
        )
        self._listed.clear()
        self._socket = await websocket_connect(request, max_message_size=1 << 30)
        for notebook in self.notebooks.values():
            notebook.written(None)
        self._reading = asyncio.create_task(self._read(self._socket))
        await self.report_and_wait()
        for notebook in self.notebooks.values():
            await self._refresh(notebook)

    async def _read(self, socket: WebSocketClientConnection) -> None:
        while (text := await socket.read_message()) is not None:
            message = json.loads(text)
            if "listed" in message:
                self._listed.popleft().set()
                continue
            if "heartbeat" in message:
                continue
            task = asyncio.create_task(self._answer(socket, message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        socket.close()

    async def report(self) -> asyncio.Event | None:
        """Report the open notebooks; the returned event is set at the server's reply."""
        if self._socket is not None:
            tabs = [notebook.description() for notebook in self.notebooks.values()]
            listed = asyncio.Event()
            self._listed.append(listed)
            await self._send(self._socket, {"tabs": tabs})
            return listed
        return None

    async def look(
        self, path: str, cell: str, *selected: str, selection: Json | None = None
    ) -> None:
        """Make a cell of an open notebook the active one, and select others or text in it."""
        assert self._socket is not None
        focus = {"focus": self.notebooks[path].name, "focused": True, "cell": cell}
        await self._send(self._socket, {**focus, "selected": selected, "selection": selection})
        await self.report_and_wait()

    async def report_and_wait(self) -> None:
        """Report the open notebooks and wait for the reply: from then on the page owns them."""
        listed = await self.report()
        if listed is not None:
            await asyncio.wait_for(listed.wait(), DEADLINE)

    async def _send(self, socket: WebSocketClientConnection, message: Json) -> None:
        with suppress(WebSocketClosedError):
            await socket.write_message(json.dumps(message))

    async def cut(self) -> None:
        """Lose the connection; the page stays and finishes pending questions."""
        assert self._socket is not None
        self._socket.protocol.stream.close()  # pyrefly: ignore[missing-attribute]
        await self._wait_disconnected()

    async def unload(self) -> None:
        """Close or reload the page: unsaved changes are lost."""
        assert self._socket is not None
        self._socket.close(1001)
        await self._wait_disconnected()
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.notebooks.clear()

    async def _wait_disconnected(self) -> None:
        assert self._reading is not None
        await asyncio.wait_for(self._reading, DEADLINE)
        self._socket = None

    async def close(self) -> None:
        """Close the page in any state."""
        if self._socket is not None:
            await self.unload()

    # --- questions of the server

    async def _answer(self, socket: WebSocketClientConnection, question: Json) -> None:
        self.asked.append(question["method"])
        if self.before is not None:
            await self.before(question)
        found = (each for each in self.notebooks.values() if each.name == question["tab"])
        notebook = next(found, None)
        answer: Json = {"answer": question.get("id")}
        if notebook is None:
            answer["error"] = SaveRefused("not_open", "That notebook is not open.").error
        elif question["method"] == "written":
            notebook.written(question["hash"])
            answer = {"changed": notebook.name, "dirty": notebook.dirty}
        else:
            try:
                answer["result"] = await self._carry_out(notebook, question)
            except SaveRefused as error:
                answer["error"] = error.error
            answer["dirty"] = notebook.dirty
        await self._send(socket, answer)

    async def _carry_out(self, notebook: TabNotebook, question: Json) -> Json:
        match question["method"]:
            case "read":
                return notebook.changes(question["since"], MAX_ANSWER)
            case "apply":
                return notebook.apply(question, MAX_ANSWER)
            case "outputs":
                return notebook.set_outputs(question)
            case "save":
                while notebook.held is not None:
                    await asyncio.wait_for(notebook.held.wait(), DEADLINE)
                left = notebook.offer()
                if left is None:
                    await self.save(notebook.path)
                return {"left": left}
            case "refresh":
                await self._refresh(notebook)
                return {}
            case _:
                raise SaveRefused("bad_request", f"There is no {question['method']}.")

    # --- the contents API

    async def _contents(
        self, method: str, path: str, body: Json | None = None, **query: int | str
    ) -> Json:
        asked = "&".join(f"{key}={value}" for key, value in query.items())
        response = await AsyncHTTPClient().fetch(
            f"{self._url}api/contents/{quote(path)}?{asked}",
            method=method,
            headers={**self._headers, "Content-Type": "application/json"},
            body=None if body is None else json.dumps(body),
            request_timeout=DEADLINE,
        )
        return cast("Json", json.loads(response.body))

    async def open(self, path: str) -> TabNotebook:
        """Open a notebook.

        Raises:
            HTTPClientError: it cannot be opened.
        """
        model = await self._contents("GET", path, type="notebook", content=1, hash=1)
        notebook = TabNotebook(path, model["content"], model["hash"])
        self.notebooks[path] = notebook
        await self.report_and_wait()
        await self._refresh(notebook)
        return notebook

    async def opened(self, path: str) -> TabNotebook:
        """Return an open notebook, opening it if needed; see `open`."""
        async with self._opening:
            return self.notebooks.get(path) or await self.open(path)

    async def close_notebook(self, path: str) -> None:
        """Close one notebook."""
        del self.notebooks[path]
        await self.report_and_wait()

    async def rename(self, path: str, new: str) -> None:
        """Rename a notebook."""
        async with self.notebooks[path].saving:
            await self._contents("PATCH", path, {"path": new})
        notebook = self.notebooks[new] = self.notebooks.pop(path)
        notebook.path = new
        await self.report_and_wait()
        await self._refresh(notebook)

    async def save(self, path: str) -> None:
        """Save; concurrent requests during a save share the next one.

        Raises:
            SaveRefused.
        """
        notebook = self.notebooks[path]
        if notebook.held is not None:
            await asyncio.wait_for(notebook.held.wait(), DEADLINE)
        wanted = notebook.version
        async with notebook.saving:
            if notebook.saved_version >= wanted and not notebook.dirty:
                return
            version = notebook.version
            present = await self._contents("GET", path, content=0, hash=1)
            if present["hash"] != notebook.hash:
                self.dialogs.append(f"File Changed: {path}")
                raise SaveRefused("file_changed", "The file has changed on disk.")
            body = {"type": "notebook", "format": "json", "content": notebook.stored()}
            try:
                await self._contents("PUT", path, body)
            except HTTPClientError as error:
                answer = error.response.body.decode() if error.response else "{}"
                message = str(cast("Json", json.loads(answer)).get("message"))
                raise SaveRefused("save_failed", message, error.code) from error
            saved = await self._contents("GET", path, content=0, hash=1)
            notebook.hash = saved["hash"]
            notebook.is_saved(version)

    async def _refresh(self, notebook: TabNotebook) -> None:
        """Load the file if others have changed it and there are no unsaved changes."""
        async with notebook.saving:
            with suppress(HTTPClientError):
                present = await self._contents("GET", notebook.path, content=0, hash=1)
                if present["hash"] != notebook.hash and not notebook.dirty:
                    model = await self._contents("GET", notebook.path, content=1, hash=1)
                    notebook.load(model["content"], model["hash"])


class TabPerson:
    """A person in a page; see `document_bench.Person`."""

    def __init__(self, page: TabPage) -> None:
        self._page = page

    async def sources(self, path: str) -> list[str]:
        """See `Person.sources`."""
        return [cell["source"] for cell in (await self._page.opened(path)).cells]

    async def type(self, path: str, index: int, text: str) -> None:
        """See `Person.type`."""
        notebook = await self._page.opened(path)
        cell = notebook.cells[index]
        notebook.edit(cell, source=cell["source"] + text)
        await self._page.report_and_wait()

    async def insert(self, path: str, index: int, source: str) -> None:
        """See `Person.insert`."""
        cell = code(source, uuid.uuid4().hex[:8]) | {"source": source}
        (await self._page.opened(path)).insert(index, cell)
        await self._page.report_and_wait()

    async def delete(self, path: str, index: int) -> None:
        """See `Person.delete`."""
        (await self._page.opened(path)).delete(index)
        await self._page.report_and_wait()

    async def move(self, path: str, index: int, to: int) -> None:
        """See `Person.move`."""
        notebook = await self._page.opened(path)
        notebook.insert(to, notebook.delete(index))
        await self._page.report_and_wait()
