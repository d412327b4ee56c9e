"""JupyterLab's end of a room, over a real WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from jupyter_server.serverapp import ServerApp
from jupyter_ydoc import YNotebook
from pycrdt import Awareness, YMessageType, create_awareness_message, read_message
from tornado.httpclient import AsyncHTTPClient
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.websocket import (
    WebSocketClientConnection,
    WebSocketClosedError,
    websocket_connect,
)

from tests.support.document_bench import DEADLINE


class Browser:
    """JupyterLab's end of a room: a copy of the document, kept in step over a WebSocket."""

    def __init__(self, socket: WebSocketClientConnection, room_id: str) -> None:
        self.path = room_id
        self.notebook = YNotebook()
        self.awareness = Awareness(self.notebook.ydoc)
        self._socket = socket

    async def send(self, message: bytes) -> None:
        with suppress(WebSocketClosedError):
            await self._socket.write_message(message, binary=True)

    async def recv(self) -> bytes:
        message = await self._socket.read_message()
        if message is None:
            raise StopAsyncIteration
        assert isinstance(message, bytes)
        if message[0] == YMessageType.AWARENESS:
            self.awareness.apply_awareness_update(read_message(message[1:]), self)
        return message

    def __aiter__(self) -> Browser:
        return self

    async def __anext__(self) -> bytes:
        return await self.recv()

    async def join(self, **state: Any) -> None:
        """Publishes who is there."""
        self.awareness.set_local_state(state)
        update = self.awareness.encode_awareness_update([self.awareness.client_id])
        await self.send(create_awareness_message(update))

    def others(self) -> list[dict[str, Any]]:
        """The states of the others who have published who they are."""
        own = self.awareness.client_id
        states = self.awareness.states.items()
        return [state for client, state in states if client != own and state.get("user")]

    async def meets(self, who: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Waits until it holds for the states of the others; these."""
        changed = asyncio.Event()
        subscription = self.awareness.observe(lambda *_: changed.set())
        async with asyncio.timeout(DEADLINE):
            while not who(self.others()):
                changed.clear()
                await changed.wait()
        self.awareness.unobserve(subscription)
        return self.others()

    async def sees(self, what: Any) -> None:
        """Waits until ``what`` holds for the document."""
        changed = asyncio.Event()
        subscription = self.notebook.ycells.observe_deep(lambda _: changed.set())
        async with asyncio.timeout(DEADLINE):
            while not what(self.notebook):
                changed.clear()
                await changed.wait()
        self.notebook.ycells.unobserve(subscription)


@asynccontextmanager
async def listening(app: ServerApp) -> AsyncGenerator[str]:
    """The server's HTTP side; its host and port."""
    socket, port = bind_unused_port()
    server = HTTPServer(app.web_app)
    server.add_sockets([socket])
    yield f"127.0.0.1:{port}"
    server.stop()
    await server.close_all_connections()


async def browse(app: ServerApp, address: str, path: str) -> tuple[Browser, Any]:
    """Opens a notebook as JupyterLab does."""
    token = app.identity_provider.token
    response = await AsyncHTTPClient().fetch(
        f"http://{address}/api/collaboration/session/{path}",
        method="PUT",
        headers={"Authorization": f"token {token}"},
        body=json.dumps({"format": "json", "type": "notebook"}),
    )
    session = json.loads(response.body)
    room_id = f"json:notebook:{session['fileId']}"
    socket = await websocket_connect(
        f"ws://{address}/api/collaboration/room/{room_id}"
        f"?sessionId={session['sessionId']}&token={token}"
    )
    return Browser(socket, room_id), socket
