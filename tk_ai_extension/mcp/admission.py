"""Admission of MCP requests before the SDK's session manager: session limit and message checks.

The SDK refuses a new session at its limit, and a stream for a session that has one. Yet clients often
disconnect without a DELETE, reconnect through a proxy that has not noticed the end of the previous
connection, or resume a session in a new process that counts its requests from 0 again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import cast

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import PARSE_ERROR, RequestId
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tk_ai_extension.mcp import GONE
from tk_ai_extension.mcp.messages import InvalidMessage, RunningRequests, read_message
from tk_ai_extension.model.errors import LimitReached
from tk_ai_extension.model.json_values import Json

SESSION_HEADER = b"mcp-session-id"


@dataclass(eq=False)
class OpenSession:
    """An open session.

    Attributes:
        id: Its id in the protocol.
        user: The user who opened it.
        used: When its last request ended, in seconds of the monotonic clock.
        requests: Number of requests with a connected client, including its stream and the one that
            opened it.
        running: Its requests that are being answered.
        stream: Event that ends the session's stream (GET); None without a stream.
        streaming: Lock for replacing a stream.
    """

    id: str
    user: str
    used: float = field(default_factory=time.monotonic)
    requests: int = 0
    running: RunningRequests = field(default_factory=RunningRequests)
    stream: asyncio.Event | None = None
    streaming: asyncio.Lock = field(default_factory=asyncio.Lock)


class Admission:
    """ASGI middleware in front of the SDK's session manager.

    Args:
        app: The SDK's session manager.
        max_sessions: Maximum number of sessions; beyond it, an idle one is ended.
    """

    def __init__(self, app: ASGIApp, max_sessions: int) -> None:
        self._app = app
        self._max_sessions = max_sessions
        self._sessions: dict[str, OpenSession] = {}
        self._opening = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request.

        Raises:
            InvalidArguments: the body is not a message of the protocol, or a request with its id is
                being answered.
            LimitReached: all sessions are in use.
        """
        headers = dict(cast("list[tuple[bytes, bytes]]", scope["headers"]))
        message: Json | None = None
        if scope["method"] == "POST":
            body, message = _read(await _body(receive))
            receive = _again(body, receive)
        version = headers.get(MCP_PROTOCOL_VERSION_HEADER.encode("ascii"))
        if version is not None and version.decode("latin-1") not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._app(scope, receive, send)
            return
        session_id = headers.get(SESSION_HEADER, b"").decode("latin-1")
        session = self._sessions.get(session_id)
        if session_id == "" and scope["method"] == "POST":
            await self._open(scope, receive, send)
        elif session is None or session.user != scope["user"].username:
            await self._app(scope, receive, send)
        else:
            await self._use(session, message, scope, receive, send)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request that opens a session; ends an idle one at the limit."""
        while len(self._sessions) + self._opening >= self._max_sessions:
            idle = self._longest_idle()
            if idle is None:
                raise LimitReached(
                    f"All {self._max_sessions} MCP sessions are in use.",
                    hint="End one (DELETE), or raise TkAIExtensionApp.max_sessions.",
                )
            await self._end(idle, scope)

        answered = ExitStack()

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                opened = dict(message.get("headers", ())).get(SESSION_HEADER, b"")
                session_id = opened.decode("latin-1")
                session = OpenSession(session_id, scope["user"].username, requests=1)
                answered.close()  # it counts as a session from now on
                answered.callback(_used, session)
                self._sessions[session_id] = session
            await send(message)

        self._opening += 1
        with answered:
            answered.callback(self._opened)
            await self._app(scope, receive, watched)

    def _opened(self) -> None:
        self._opening -= 1

    async def _use(
        self, session: OpenSession, message: Json | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Forward a request of a session and track the session's activity.

        A request with an id lasts until it is answered, also after a disconnect: what belongs to it
        must not reach a later request with the same id.
        """
        connected = ExitStack()

        async def until_answered() -> Message:
            received = await receive()
            if received["type"] == "http.disconnect":
                connected.close()
                await asyncio.Event().wait()  # until the SDK has sent the response
            return received

        async def watched(sent: Message) -> None:
            if sent["type"] == "http.response.start" and sent["status"] == 404:
                self._sessions.pop(session.id, None)  # it ended by itself, idle for too long
            await send(sent)

        with ExitStack() as stack:
            request_id = None if message is None else _begin(session, message)
            if request_id is not None:
                stack.callback(session.running.end, request_id)
            session.requests += 1
            connected.callback(_used, session)
            stack.callback(connected.close)
            if scope["method"] == "GET":
                await self._stream(session, scope, receive, watched)
                return
            if scope["method"] == "DELETE":
                self._sessions.pop(session.id, None)
            await self._app(scope, receive if request_id is None else until_answered, watched)

    async def _stream(
        self, session: OpenSession, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Open a session's stream and end the previous one: the client has reconnected."""
        if session.stream is not None:
            session.stream.set()
        ends: asyncio.Event = scope[GONE]
        session.stream = ends
        async with session.streaming:
            if ends.is_set():
                return  # yet another one has come meanwhile
            try:
                await self._app(scope, receive, send)
            finally:
                if session.stream is ends:
                    session.stream = None

    def _longest_idle(self) -> OpenSession | None:
        """Return the session to evict: the longest idle one of the user with the most sessions."""
        counts = Counter(session.user for session in self._sessions.values())
        idle = [session for session in self._sessions.values() if not session.requests]
        return min(idle, key=lambda each: (-counts[each.user], each.used), default=None)

    async def _end(self, session: OpenSession, scope: Scope) -> None:
        """End a session as its client's DELETE would."""
        del self._sessions[session.id]
        named = [(SESSION_HEADER, session.id.encode("latin-1"))]
        delete = {**scope, "method": "DELETE", "headers": named, "user": user_of(session.user)}

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(_message: Message) -> None:
            """Discard the response; the session's client gets a 404 later."""

        await self._app(delete, receive, send)


def user_of(name: str) -> AuthenticatedUser:
    """Return the SDK's authenticated user for a name."""
    return AuthenticatedUser(AccessToken(token="", client_id=name, scopes=[]))


def _used(session: OpenSession) -> None:
    session.requests -= 1
    session.used = time.monotonic()


async def _body(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    while True:
        message = await receive()
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that replays the body, then continues with the original."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again


def _read(body: bytes) -> tuple[bytes, Json | None]:
    """Return a body for the SDK, and its message; None if it is not JSON, which the SDK reports itself.

    Raises:
        InvalidArguments: it is JSON, but not a message.
    """
    try:
        return read_message(body)
    except InvalidMessage as error:
        if error.code == PARSE_ERROR:
            return body, None
        raise error.typed() from None


def _begin(session: OpenSession, message: Json) -> RequestId | None:
    """Add a message to the running requests; return its id if it expects a response.

    Raises:
        InvalidArguments: a request with its id is being answered.
    """
    try:
        return session.running.begin(message)
    except InvalidMessage as error:
        raise error.typed() from None
