"""What the SDK's session manager leaves to its host: whose session gives way, which message is one.

The SDK refuses a new session at its bound, takes a request's id for a notification's where it is no
id, lets a second request with an id of one under way take the first one's stream, and refuses a
stream for a session that has one. Clients that go away without a DELETE, and those that reconnect
through a proxy which has not seen the end of the connection before, are ordinary.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, cast

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic_core import from_json
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tk_ai_extension.mcp import GONE
from tk_ai_extension.model.errors import InvalidArguments, LimitReached

SESSION_HEADER = b"mcp-session-id"


@dataclass(eq=False)
class OpenSession:
    """A session as its requests show it.

    Attributes:
        id: Its name in the protocol.
        user: Who opened it.
        used: When its last request ended, in seconds of the monotonic clock.
        requests: How many requests are being answered, its stream among them.
        ids: The JSON-RPC ids of the calls being answered, as text: the SDK compares them so.
        stream: Sets the end of the session's own stream (GET); None where it has none.
        streaming: Held while a stream takes the place of the one before it.
    """

    id: str
    user: str
    used: float = field(default_factory=time.monotonic)
    requests: int = 0
    ids: set[str] = field(default_factory=set[str])
    stream: asyncio.Event | None = None
    streaming: asyncio.Lock = field(default_factory=asyncio.Lock)


class Admission:
    """An ASGI application before the SDK's own.

    Args:
        app: The SDK's session manager.
        max_sessions: How many sessions there may be; beyond, one that nobody uses is ended.
    """

    def __init__(self, app: ASGIApp, max_sessions: int) -> None:
        self._app = app
        self._max_sessions = max_sessions
        self._sessions: dict[str, OpenSession] = {}
        self._opening = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request.

        Raises:
            InvalidArguments: it is no message of the protocol.
            LimitReached: every session is in use.
        """
        headers = dict(cast("list[tuple[bytes, bytes]]", scope["headers"]))
        message: Any = None
        if scope["method"] == "POST":
            body = await _body(receive)
            receive = _again(body, receive)
            message = _checked(body)
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
        """Let a request open a session; where there are too many, one that nobody uses ends."""
        while len(self._sessions) + self._opening >= self._max_sessions:
            idle = self._longest_idle()
            if idle is None:
                raise LimitReached(
                    f"All {self._max_sessions} MCP sessions are in use.",
                    hint="End one (DELETE), or raise TkAIExtensionApp.max_sessions.",
                )
            await self._end(idle, scope)

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                opened = dict(message.get("headers", ())).get(SESSION_HEADER, b"")
                session_id = opened.decode("latin-1")
                self._sessions[session_id] = OpenSession(session_id, scope["user"].username)
            await send(message)

        self._opening += 1
        try:
            await self._app(scope, receive, watched)
        finally:
            self._opening -= 1

    async def _use(
        self, session: OpenSession, message: Any, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Pass a request of a session on, and knows what the session is doing."""

        async def watched(sent: Message) -> None:
            if sent["type"] == "http.response.start" and sent["status"] == 404:
                self._sessions.pop(session.id, None)  # it ended by itself, idle for too long
            await send(sent)

        with ExitStack() as stack:
            request_id = _request_id(message)
            if request_id is not None:
                if request_id in session.ids:
                    raise InvalidArguments(
                        f"A request with the id {request_id} is being answered.",
                        hint="Give each request of a session an id of its own.",
                    )
                session.ids.add(request_id)
                stack.callback(session.ids.discard, request_id)
            session.requests += 1
            stack.callback(_used, session)
            if scope["method"] == "GET":
                await self._stream(session, scope, receive, watched)
                return
            if scope["method"] == "DELETE":
                self._sessions.pop(session.id, None)
            await self._app(scope, receive, watched)

    async def _stream(
        self, session: OpenSession, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Give a session its stream; one that it had before ends, as its client has reconnected."""
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
        """The session that gives way: of the user who has the most, the one not used for longest."""
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
            """The session's client is answered by 404 when it comes back."""

        await self._app(delete, receive, send)


def user_of(name: str) -> AuthenticatedUser:
    """A user as the SDK has sessions belong to one."""
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
    """The same body once more, then what comes after it."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again


def _checked(body: bytes) -> Any:
    """A body as a message; None where it is no JSON, which the SDK says in its own way.

    Raises:
        InvalidArguments: it is JSON, and no message.
    """
    try:
        message = from_json(body)
    except ValueError:
        return None
    if not isinstance(message, Mapping):
        raise InvalidArguments("A message is a JSON object.", hint="Send one message at a time.")
    found = cast("Mapping[str, Any]", message)
    _require(found.get("jsonrpc") == "2.0", '`jsonrpc` has to be "2.0".')
    is_answer = "result" in found or "error" in found
    _require(is_answer or isinstance(found.get("method"), str), "`method` has to be a string.")
    _require(isinstance(found.get("params", {}), Mapping), "`params` has to be an object.")
    if "id" in found:
        identifier = found["id"]
        is_id = isinstance(identifier, str | int) and not isinstance(identifier, bool)
        nobody = is_answer and identifier is None
        _require(is_id or nobody, "`id` has to be a string or a whole number.")
    return found


def _require(holds: bool, said: str) -> None:
    if not holds:
        raise InvalidArguments(said, hint="See the JSON-RPC 2.0 specification.")


def _request_id(message: Any) -> str | None:
    """The id of a request that waits for an answer, as text."""
    if not isinstance(message, Mapping):
        return None
    found = cast("Mapping[str, Any]", message)
    return str(found["id"]) if "method" in found and "id" in found else None
