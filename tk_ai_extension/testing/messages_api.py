"""A Messages API server on loopback: the wire between the Claude CLI and a model written in Python.

The CLI talks to any server that streams ``POST /v1/messages``; ``ANTHROPIC_BASE_URL`` says which.
A `Model` answers each request with a `Reply`; the server does the rest: the key, the stream of
server-sent events, the count of tokens, the list of models. Whoever goes away in the middle of a
stream is noticed, and what answered him is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, Protocol, cast

from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from tk_ai_extension.testing.messages import Event, MessagesRequest, error_body

HOST: Final = "127.0.0.1"


class Reply(Protocol):
    """What a model answers a request with."""

    async def send(self, to: Exchange) -> None:
        """Send itself; cancelled when the client goes away.

        Returns when there is nothing more to send. Every stream of events that was begun is ended
        afterwards, as a complete HTTP response, unless it was cut.
        """
        ...


class Model(Protocol):
    """Answers requests for messages."""

    @property
    def names(self) -> tuple[str, ...]:
        """The ids that the list of models shows."""
        ...

    def reply(self, request: MessagesRequest) -> Reply:
        """What answers a request. Called once for each, as it arrives; retries are requests too."""
        ...


class Exchange:
    """One request, and the way back to the one who asked."""

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
        """Answer with a JSON body, whole."""
        self._handler.set_status(status)
        for name, value in (headers or {}).items():
            self._handler.set_header(name, value)
        self._handler.set_header("Content-Type", "application/json")
        await self._handler.finish(json.dumps(body))  # pyright: ignore[reportUnknownMemberType]

    async def event(self, event: Event) -> None:
        """Send one server-sent event, at once; the first one begins the stream."""
        if not self._streams:
            self._streams = True
            self._handler.set_header("Content-Type", "text/event-stream; charset=utf-8")
            self._handler.set_header("Cache-Control", "no-cache")
            stream: Any = getattr(self._handler.request.connection, "stream", None)
            if stream is not None:
                # Small pieces go when they are written, not when the last one is acknowledged.
                stream.set_nodelay(True)
        data = json.dumps(event.data)
        self._handler.write(f"event: {event.name}\ndata: {data}\n\n")  # pyright: ignore[reportUnknownMemberType]
        await self._handler.flush()

    def cut(self) -> None:
        """Close the connection where it is, as a network that fails would."""
        stream: Any = getattr(self._handler.request.connection, "stream", None)
        if stream is not None:
            stream.close()


class MessagesServer:
    """Serves a model on a free loopback port, on the running event loop.

    Args:
        model: What answers.
        key: Whoever asks has to send it, as ``x-api-key`` or as a bearer token; any will do if None.
    """

    def __init__(self, model: Model, *, key: str | None = None) -> None:
        application = Application(
            [
                (r"/v1/messages", _Messages, {"model": model, "key": key}),
                (r"/v1/messages/count_tokens", _Counts, {"model": model, "key": key}),
                (r"/v1/models", _Models, {"model": model, "key": key}),
            ],
            # Requests hold what people write: none of it goes into an access log.
            log_function=_log_nothing,
        )
        self._server = HTTPServer(application)
        self._port: int | None = None

    @property
    def url(self) -> str:
        """What `ANTHROPIC_BASE_URL` has to be; known once it is started."""
        if self._port is None:
            raise RuntimeError("The server of the model is not started.")
        return f"http://{HOST}:{self._port}"

    def start(self) -> None:
        """Listens from now on, on the running loop; the port is free and its own."""
        sockets = bind_sockets(0, HOST)
        self._port = sockets[0].getsockname()[1]
        self._server.add_sockets(sockets)

    async def stop(self) -> None:
        """Stop listening and closes every connection; stopping twice changes nothing."""
        self._server.stop()
        await self._server.close_all_connections()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[MessagesServer]:
        """Started inside, stopped after."""
        self.start()
        try:
            yield self
        finally:
            await self.stop()


def _log_nothing(handler: RequestHandler) -> None:
    del handler


class _Route(RequestHandler):
    """What all routes share: the key, and a request that is read."""

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
        """The request, or None where it is none, which was answered then."""
        try:
            body = json.loads(self.request.body)
        except ValueError:
            body = None
        if isinstance(body, dict):
            known = cast("dict[str, Any]", body)
            return MessagesRequest(headers=dict(self.request.headers.items()), body=known)
        await self._refuse(400, "invalid_request_error", "The body is no JSON object.")
        return None

    async def _refuse(self, status: int, kind: str, message: str) -> None:
        self.set_status(status)
        await self._end(error_body(kind, message))

    async def _end(self, body: dict[str, Any] | None = None) -> None:
        await self.finish(body)  # pyright: ignore[reportUnknownMemberType]

    def on_connection_close(self) -> None:
        if self._answering is not None:
            self._answering.cancel()


class _Messages(_Route):
    async def post(self) -> None:
        request = await self._read()
        if request is None:
            return
        exchange = Exchange(request, self)
        reply = self._model.reply(request)
        self._answering = asyncio.ensure_future(reply.send(exchange))
        # The client went away: the reply was cancelled, or failed to write.
        with contextlib.suppress(StreamClosedError, asyncio.CancelledError):
            await self._answering
            if not self._finished:
                await self._end()


class _Counts(_Route):
    async def post(self) -> None:
        request = await self._read()
        if request is not None:
            await self._end({"input_tokens": request.tokens})


class _Models(_Route):
    async def get(self) -> None:
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
