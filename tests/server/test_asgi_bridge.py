"""The ASGI bridge alone: a plain tornado server, ASGI applications of a few lines, raw sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tornado.httpclient import AsyncHTTPClient
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

from tk_ai_extension.server.handlers.mcp import AsgiApp, AsgiExchange, Message, Receive, Send

DEADLINE = 10


class BridgeHandler(RequestHandler):
    def initialize(self, app: AsgiApp) -> None:
        self.app = app
        self.gone = asyncio.Event()

    async def prepare(self) -> None:
        await AsgiExchange(self, self.request.body, self.gone).run(self.app)

    def on_connection_close(self) -> None:
        self.gone.set()


Serve = Callable[[AsgiApp], Awaitable[int]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serves an ASGI application; answers the port."""
    servers: list[HTTPServer] = []

    async def start(app: AsgiApp) -> int:
        socket, port = bind_unused_port()
        server = HTTPServer(Application([(".*", BridgeHandler, {"app": app})]))
        server.add_socket(socket)
        servers.append(server)
        return port

    yield start
    for server in servers:
        server.stop()
        await server.close_all_connections()


async def test_the_application_sees_the_request_as_it_came(serve: Serve) -> None:
    seen: dict[str, object] = {}

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        seen.update(scope)
        seen["message"] = await receive()
        headers = [(b"x-a", b"1")]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body"})

    port = await serve(app)
    response = await AsyncHTTPClient().fetch(
        f"http://127.0.0.1:{port}/a%20b?x=1&y=%C3%A4",
        method="POST",
        body=b"{}",
        headers={"X-Two": "zwei"},
    )

    assert response.code == 202
    assert response.headers.get_list("x-a") == ["1"]
    assert seen["method"] == "POST"
    assert seen["query_string"] == b"x=1&y=%C3%A4"
    assert (b"x-two", b"zwei") in seen["headers"]  # type: ignore[operator]
    assert seen["message"] == {"type": "http.request", "body": b"{}", "more_body": False}


async def test_each_piece_of_a_stream_arrives_before_the_next_is_made(serve: Serve) -> None:
    read = asyncio.Queue[bytes]()

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for expected in (b"", b"one", b"two"):
            assert expected in await read.get()
            following = {b"": b"one", b"one": b"two", b"two": b"end"}[expected]
            await send(
                {"type": "http.response.body", "body": following, "more_body": following != b"end"}
            )

    port = await serve(app)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(DEADLINE):
        headers = await reader.readuntil(b"\r\n\r\n")
        assert b"text/event-stream" in headers
        await read.put(b"")
        for piece in (b"one", b"two", b"end"):
            await read.put(await reader.readuntil(piece))
    writer.close()


async def test_a_client_that_leaves_is_a_disconnect(serve: Serve) -> None:
    started, disconnected = asyncio.Event(), asyncio.Event()

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        started.set()
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.body", "body": b"to nobody", "more_body": True})
        disconnected.set()

    port = await serve(app)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(DEADLINE):
        await started.wait()
        writer.close()
        await disconnected.wait()


async def test_a_client_that_does_not_read_stops_the_application(serve: Serve) -> None:
    piece, pieces = b"x" * 65_536, 1_000
    sent = 0
    done = asyncio.Event()

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(pieces):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            sent += 1
        await send({"type": "http.response.body"})
        done.set()

    port = await serve(app)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(done.wait(), 1)
    assert sent < pieces / 2

    async with asyncio.timeout(DEADLINE):
        received = 0
        while not done.is_set() or received < len(piece) * pieces:
            received += len(await reader.read(1 << 20))
    writer.close()
