"""A Messages API server on loopback, between the Claude CLI and a model written in Python.

The CLI connects to any server that streams ``POST /v1/messages``, set by ``ANTHROPIC_BASE_URL``.
A `Model` answers each request with a `Reply`; the server does the rest: the key, the stream of
server-sent events, token counts, the list of models. When a client disconnects during a stream, its
reply is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import socket
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, Protocol, cast

from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from tests.support.messages import Event, MessagesRequest, error_body
from tk_ai_extension.model.json_values import Json

HOST: Final = "127.0.0.1"


class Reply(Protocol):
    """Reply of a model to a request."""

    async def send(self, to: Exchange) -> None:
        """Send the reply; cancelled when the client disconnects.

        Returns when everything is sent. A started stream of events is completed afterwards as an
        HTTP response, unless the connection was dropped.
        """
        ...


class Model(Protocol):
    """Model that replies to requests."""

    @property
    def names(self) -> tuple[str, ...]:
        """Ids in the list of models."""
        ...

    def reply(self, request: MessagesRequest) -> Reply:
        """Return the reply to a request; called once for each, including retries."""
        ...


class Exchange:
    """One request and its response."""

    def __init__(self, request: MessagesRequest, handler: RequestHandler) -> None:
        self.request: Final = request
        self._handler: Final = handler
        self._streams = False

    async def answer(
        self,
        body: Mapping[str, Any],
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Respond with a JSON body."""
        self._handler.set_status(status)
        for name, value in (headers or {}).items():
            self._handler.set_header(name, value)
        self._handler.set_header("Content-Type", "application/json")
        await self._handler.finish(json.dumps(body))

    async def event(self, event: Event) -> None:
        """Send one server-sent event; the first one starts the stream."""
        if not self._streams:
            self._streams = True
            self._handler.set_header("Content-Type", "text/event-stream; charset=utf-8")
            self._handler.set_header("Cache-Control", "no-cache")
            stream: Any = getattr(self._handler.request.connection, "stream", None)
            if stream is not None:
                # TCP_NODELAY: send small chunks at once.
                stream.set_nodelay(True)
        data = json.dumps(event.data)
        self._handler.write(f"event: {event.name}\ndata: {data}\n\n")
        await self._handler.flush()

    def cut(self) -> None:
        """Drop the connection, as a network failure would."""
        stream: Any = getattr(self._handler.request.connection, "stream", None)
        if stream is not None:
            stream.close()


class MessagesServer:
    """Serves a model on a free loopback port, on the running event loop.

    Args:
        model: The model.
        key: Required key, as ``x-api-key`` or bearer token; None accepts any.
    """

    def __init__(self, model: Model, *, key: str | None = None) -> None:
        application = Application(
            [
                (r"/v1/messages", _Messages, {"model": model, "key": key}),
                (r"/v1/messages/count_tokens", _Counts, {"model": model, "key": key}),
                (r"/v1/models", _Models, {"model": model, "key": key}),
            ],
            # Requests hold people's texts: do not log them.
            log_function=_log_nothing,
        )
        self._server = HTTPServer(application)
        self._port: int | None = None

    @property
    def url(self) -> str:
        """Value for `ANTHROPIC_BASE_URL`; known once the server is started."""
        if self._port is None:
            raise RuntimeError("The server of the model is not started.")
        return f"http://{HOST}:{self._port}"

    def start(self, listener: socket.socket | None = None) -> None:
        """Start listening, on the running loop.

        Args:
            listener: The listening socket, which stays open; by default one on a free port.
        """
        sockets = bind_sockets(0, HOST) if listener is None else [listener.dup()]
        self._port = sockets[0].getsockname()[1]
        self._server.add_sockets(sockets)

    async def stop(self) -> None:
        """Stop listening and close every connection; idempotent."""
        self._server.stop()
        await self._server.close_all_connections()

    @contextlib.asynccontextmanager
    async def running(
        self, listener: socket.socket | None = None
    ) -> AsyncGenerator[MessagesServer]:
        """Run in a block; with the argument of `start`."""
        self.start(listener)
        try:
            yield self
        finally:
            await self.stop()


def _log_nothing(handler: RequestHandler) -> None:
    del handler


class _Route(RequestHandler):
    """Base of all routes: checks the key and reads the request."""

    _answering: asyncio.Task[None] | None = None

    def initialize(self, model: Model, key: str | None) -> None:
        self._model = model
        self._key = key

    async def prepare(self) -> None:
        if self._key is None or self._has_key(self._key):
            return
        await self._refuse(401, "authentication_error", "This is not the key of this server.")

    def _has_key(self, key: str) -> bool:
        headers = self.request.headers
        bearer = headers.get("Authorization", "").removeprefix("Bearer ")
        sent = (headers.get("x-api-key", ""), bearer)
        return any(hmac.compare_digest(each.encode(), key.encode()) for each in sent)

    async def _read(self) -> MessagesRequest | None:
        """Read the request; None if it is invalid and was refused."""
        try:
            body = json.loads(self.request.body)
        except ValueError:
            body = None
        if isinstance(body, dict):
            known = cast("Json", body)
            return MessagesRequest(headers=dict(self.request.headers.items()), body=known)
        await self._refuse(400, "invalid_request_error", "The body is no JSON object.")
        return None

    async def _refuse(self, status: int, kind: str, message: str) -> None:
        self.set_status(status)
        await self._end(error_body(kind, message))

    async def _end(self, body: Json | None = None) -> None:
        await self.finish(body)

    def on_connection_close(self) -> None:
        if self._answering is not None:
            self._answering.cancel()


class _Messages(_Route):
    async def post(self) -> None:  # pyrefly: ignore[bad-override-mutable-attribute]
        request = await self._read()
        if request is None:
            return
        exchange = Exchange(request, self)
        reply = self._model.reply(request)
        self._answering = asyncio.ensure_future(reply.send(exchange))
        # The client disconnected: the reply was cancelled, or failed to write.
        with contextlib.suppress(StreamClosedError, asyncio.CancelledError):
            await self._answering
            if not self._finished:
                await self._end()


class _Counts(_Route):
    async def post(self) -> None:  # pyrefly: ignore[bad-override-mutable-attribute]
        request = await self._read()
        if request is not None:
            await self._end({"input_tokens": request.tokens})


class _Models(_Route):
    async def get(self) -> None:  # pyrefly: ignore[bad-override-mutable-attribute]
        models = [
            {
                "type": "model",
                "id": name,
                "display_name": name,
                "created_at": "2026-01-01T00:00:00Z",
            }
            for name in self._model.names
        ]
        await self._end({"data": models, "has_more": False})
