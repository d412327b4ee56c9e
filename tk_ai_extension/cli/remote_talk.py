"""Talking to Claude in a Jupyter Server, by the chat's routes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest, HTTPResponse
from tornado.iostream import IOStream
from tornado.tcpclient import TCPClient

from tk_ai_extension.cli.remote import RemoteError
from tk_ai_extension.cli.servers import PATIENCE, Server, ServerUnreachable
from tk_ai_extension.cli.talk import Json

API = "api/tk-ai/"


class _Connecting(TCPClient):
    """Connects, and disconnects: tornado's HTTP client cannot end a request."""

    _stream: IOStream | None = None
    _is_over = False

    async def connect(self, *args: Any, **kwargs: Any) -> IOStream:
        """See `TCPClient.connect`."""
        self._stream = await super().connect(*args, **kwargs)
        if self._is_over:
            self._stream.close()
        return self._stream

    def disconnect(self) -> None:
        """Closes the connection that was made, or is being made."""
        self._is_over = True
        if self._stream is not None:
            self._stream.close()


class RemoteTalk:
    """The chats of a server: a `Talk`.

    Args:
        server: Which.
    """

    def __init__(self, server: Server) -> None:
        self._server = server

    def send(self, message: Json) -> AsyncIterator[Json]:
        """Sends a message, and gives what happens."""
        return self._stream("mcp/chat", message)

    def approve(self, chat: str, answer: Json) -> AsyncIterator[Json]:
        """Answers a plan, and gives what happens."""
        return self._stream(f"chats/{chat}/plan", answer)

    async def answer(self, permission: str, answer: str, message: str = "") -> None:
        """Answers a question of a turn."""
        body = {"answer": answer, **({"message": message} if message else {})}
        await self._ask("POST", f"permissions/{permission}", body)

    async def stop(self, chat: str) -> None:
        """Stops what goes on in a chat."""
        await self._ask("POST", f"chats/{chat}/stop", {})

    async def list(self) -> list[Json]:
        """The chats."""
        return json.loads(await self._ask("GET", "chats"))["chats"]

    async def read(self, chat: str) -> Json:
        """A chat and its events."""
        found = json.loads(await self._ask("GET", f"chats/{chat}"))
        # A server of a former version answers with all of it at once.
        while (after := found.pop("next", None)) is not None:
            page = json.loads(await self._ask("GET", f"chats/{chat}?after={after}"))
            found |= {"events": found["events"] + page["events"], "next": page.get("next")}
        return found

    async def export(self, chat: str) -> str:
        """A chat as Markdown."""
        return (await self._ask("GET", f"chats/{chat}/export")).decode()

    async def trust(self) -> None:
        """Uses the key of the file in the server's folder from now on."""
        await self._ask("POST", "trust", {"trusted": True})

    async def _ask(self, method: str, path: str, body: Json | None = None) -> bytes:
        """Asks, and gives the answer.

        Raises:
            RemoteError, ServerUnreachable.
        """
        try:
            answer = await AsyncHTTPClient().fetch(
                self._request(method, path, body, request_timeout=60.0)
            )
        except HTTPClientError as error:
            said = error.response.body if error.response is not None else b""
            raise self._refused(error, said) from error
        except OSError as error:
            raise self._gone(error) from error
        return answer.body

    async def _stream(self, path: str, body: Json) -> AsyncIterator[Json]:
        """Asks, and gives the events of the answer.

        Raises:
            RemoteError, ServerUnreachable: also where the line breaks; the turn goes on then.
        """
        pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        request = self._request(
            "POST",
            path,
            body,
            # A turn takes as long as it takes.
            request_timeout=0,
            streaming_callback=pieces.put_nowait,
            headers={"Accept": "text/event-stream"},
        )
        # Of its own: the shared client has ten connections, and ends none before its answer does.
        client: Any = AsyncHTTPClient(force_instance=True)
        client.tcp_client = connecting = _Connecting()
        fetching: asyncio.Future[HTTPResponse] = asyncio.ensure_future(client.fetch(request))
        fetching.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            async for event in self._events(pieces, fetching):
                yield event
        finally:
            # Where nobody reads on, the server notices it by the end of the connection.
            connecting.disconnect()
            await asyncio.wait((fetching,))
            if not fetching.cancelled():
                fetching.exception()
            client.close()

    async def _events(
        self, pieces: asyncio.Queue[bytes | None], fetching: asyncio.Future[HTTPResponse]
    ) -> AsyncIterator[Json]:
        received, ended = b"", False
        while (piece := await pieces.get()) is not None:
            received += piece
            *frames, received = received.split(b"\n\n")
            for frame in frames:
                if (event := _event(frame)) is not None:
                    ended = event["kind"] == "done"
                    yield event
        try:
            await fetching
        except HTTPClientError as error:
            raise self._refused(error, received) from error
        except OSError as error:
            raise self._gone(error) from error
        if not ended:
            raise ServerUnreachable(f"{self._server.url} broke off; the turn goes on there.")

    def _request(
        self,
        method: str,
        path: str,
        body: Json | None,
        *,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> HTTPRequest:
        named = {"Content-Type": "application/json", **(headers or {})}
        if self._server.token:
            named["Authorization"] = f"token {self._server.token}"
        return HTTPRequest(
            f"{self._server.url}{API}{path}",
            method=method,
            headers=named,
            body=None if body is None else json.dumps(body),
            connect_timeout=PATIENCE,
            follow_redirects=False,
            **more,
        )

    def _refused(self, error: HTTPClientError, said: bytes) -> RemoteError | ServerUnreachable:
        """The error that a server answered with."""
        try:
            return RemoteError(json.loads(said)["error"])
        except (ValueError, KeyError, TypeError):
            return ServerUnreachable(f"{self._server.url} answers {error.code} {error.message}.")

    def _gone(self, error: OSError) -> ServerUnreachable:
        return ServerUnreachable(f"{self._server.url} does not answer: {error}")


def _event(frame: bytes) -> Json | None:
    """The event of a frame; None of a comment, which only says that the line is alive."""
    data = [
        line.removeprefix(b"data: ") for line in frame.split(b"\n") if line.startswith(b"data: ")
    ]
    return json.loads(b"\n".join(data)) if data else None
