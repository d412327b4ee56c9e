"""`nb mcp`: relay between stdio and the MCP of the server that owns the notebooks.

The relay process has no state of its own: kernels and executions belong to the server. If a call belongs
to another server (a person has started one since), it is sent there.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
from contextlib import suppress

from tk_ai_extension.cli import wire
from tk_ai_extension.cli.client import OutputFailed, write
from tk_ai_extension.cli.connecting import MCP, CommandConnection, NoAnswer, find_server, server_at
from tk_ai_extension.cli.project import Project, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHUNK = 1 << 16

OPTIONS = ("--toolsets", "--mode", "--caller")

VERSION = "io.modelcontextprotocol/protocolVersion"
"""Key in the ``_meta`` of requests that have no session."""

ELSEWHERE = "notebook_open_elsewhere"
"""Error code for a notebook that belongs to another server."""
UNKNOWN = ("not_found",)
"""Error codes for ids that another server may know."""

CONNECTION_CLOSED = -32000
"""JSON-RPC error code that the SDKs of MCP use for a connection that has ended."""
INVALID_REQUEST = -32600
"""JSON-RPC error code for a message that is not a valid request."""
INTRODUCTION = 10.0
"""Seconds in which another server has to answer the handshake."""


def relay(project: Project, argv: list[str]) -> int:
    """Relay MCP between stdio and a server until one side closes.

    Args:
        project: The project; its server, or a person's above its folder, is used or started.
        argv: ``--toolsets default,omp``, ``--mode ask``.

    Returns:
        The exit status.

    Raises:
        Refused: invalid options, or no server can be started.
    """
    path = MCP + _query(argv)
    found = find_server(project, os.getcwd(), path, starts=True)
    assert isinstance(found, CommandConnection)
    return _Relay(found.connection, path).run()


def _query(argv: list[str]) -> str:
    """Return the options as a query string."""
    from urllib.parse import quote

    wanted: list[str] = []
    rest = list(argv)
    while rest:
        name, _, value = rest.pop(0).partition("=")
        if name not in OPTIONS:
            raise Refused(f"nb mcp: unknown option {name}; use --toolsets, --mode or --caller.")
        if not value:
            if not rest:
                raise Refused(f"nb mcp: {name} needs a value.")
            value = rest.pop(0)
        wanted.append(f"{name[2:]}={quote(value)}")
    return "?" + "&".join(wanted) if wanted else ""


class _Relay:
    """Relays messages between the client and the servers that its calls belong to.

    Args:
        connection: Connection to the first server, the default for calls.
        path: Path for connections to other servers.
    """

    def __init__(self, connection: socket.socket, path: str) -> None:
        self._first = connection
        self._path = path
        # Further servers by address.
        self._others: dict[str, socket.socket] = {}
        # Incomplete lines, by connection.
        self._unfinished: dict[socket.socket | int, list[bytes]] = {}
        # Pending calls and the servers that were asked, the current one last, by `_key`.
        self._requests: dict[str, tuple[bytes, list[socket.socket]]] = {}
        # Requests of other servers and their ids there, by the id that the client has seen.
        self._questions: dict[str, tuple[socket.socket, Any]] = {}
        self._asked = 0
        self._opening: list[bytes] = []
        # Standard input may be a file, which epoll refuses.
        self._selector = selectors.SelectSelector()

    def run(self) -> int:
        """Relay messages until one side closes; return the exit status."""
        incoming = sys.stdin.fileno()
        ended = False
        self._selector.register(self._first, selectors.EVENT_READ)
        self._selector.register(incoming, selectors.EVENT_READ)
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj == incoming:
                        data = _read(incoming)
                        for line in self._lines(incoming, data):
                            self._from_client(line)
                        if not data:
                            # The client has closed its side; pending responses may still arrive.
                            ended = True
                            self._selector.unregister(incoming)
                            for server in (self._first, *self._others.values()):
                                server.shutdown(socket.SHUT_WR)
                    elif not self._from_server(key.fileobj):  # type: ignore[arg-type]
                        return wire.OK if ended else _broken_off()
        except BrokenPipeError:
            return wire.OK  # the client has ended, as with the end of its input
        finally:
            self._selector.close()
            for server in (self._first, *self._others.values()):
                server.close()

    def _lines(self, source: socket.socket | int, data: bytes) -> list[bytes]:
        """Return the complete lines; at the end of a source, the remainder as well."""
        pieces = self._unfinished.setdefault(source, [])
        if not data:
            left = b"".join(self._unfinished.pop(source))
            return [left + b"\n"] if left else []
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = b"".join((*pieces, whole[0]))
            pieces.clear()
        pieces.append(rest)
        return [line + b"\n" for line in whole]

    # -- from the client

    def _from_client(self, line: bytes) -> None:
        """Forward a message: a request to the first server, a response to the server that asked."""
        if len(self._opening) < 2 and (b'"initialize"' in line or b"/initialized" in line):
            self._opening.append(line)
        is_parsed = bool(self._requests or self._others) or b'"tools/call"' in line
        message = _parsed(line) if is_parsed else {}
        if "method" not in message:
            if self._is_answered(message):
                return
        elif "id" not in message:
            self._notify(line, message)
        elif not self._begin(line, message):
            return
        _send(self._first, line)

    def _begin(self, line: bytes, request: dict[str, Any]) -> bool:
        """Keep a call until it is answered; refuse a request with the id of a pending call.

        The first server does so for its own calls, and does not know those of others.
        """
        key = _key(request["id"])
        if key in self._requests:
            message = f"A request with the id {json.dumps(request['id'])} is already running."
            _write(sys.stdout.fileno(), _error_response(request["id"], INVALID_REQUEST, message))
            return False
        if request["method"] == "tools/call":
            self._requests[key] = (line, [self._first])
        return True

    def _notify(self, line: bytes, notification: dict[str, Any]) -> None:
        """Send a notification to the other servers; a cancelled call is not answered or sent on."""
        match notification:
            case {"method": "notifications/cancelled", "params": {"requestId": cancelled}}:
                self._requests.pop(_key(cancelled), None)
            case _:
                pass
        for server in self._others.values():
            _send(server, line)

    def _is_answered(self, response: dict[str, Any]) -> bool:
        """Send a response to the other server that asked; return whether there is one."""
        name = response.get("id")
        if not isinstance(name, str) or name not in self._questions:
            return False
        server, response["id"] = self._questions.pop(name)
        _send(server, json.dumps(response).encode() + b"\n")
        return True

    # -- from servers

    def _from_server(self, server: socket.socket) -> bool:
        """Forward a server's messages; return False if the first server has closed."""
        try:
            data = server.recv(CHUNK)
        except OSError:
            data = b""
        for line in self._lines(server, data):
            if not self._belongs_elsewhere(line):
                _write(sys.stdout.fileno(), self._for_client(server, line))
        if data:
            return True
        self._selector.unregister(server)
        if server is self._first:
            return False
        self._others = {url: each for url, each in self._others.items() if each is not server}
        self._questions = {
            name: question
            for name, question in self._questions.items()
            if question[0] is not server
        }
        server.close()
        self._answer_for(server)
        return True

    def _answer_for(self, server: socket.socket) -> None:
        """Answer the calls that a server which has ended has not answered."""
        for key, (line, asked) in list(self._requests.items()):
            if asked[-1] is server:
                del self._requests[key]
                message = (
                    "The server that has the notebook ended during the call. Whether the call had an "
                    "effect is unknown: read the notebook before you repeat it."
                )
                answer = _error_response(_parsed(line)["id"], CONNECTION_CLOSED, message)
                _write(sys.stdout.fileno(), answer)

    def _for_client(self, server: socket.socket, line: bytes) -> bytes:
        """Return a message for the client, with a new id for a request of another server.

        Servers number their requests independently, and a response must reach the right one.
        """
        if server is self._first or b'"method"' not in line:
            return line
        message = _parsed(line)
        if "id" not in message or "method" not in message:
            return line
        self._asked += 1
        name = f"nb-{self._asked}"
        self._questions[name] = (server, message["id"])
        return json.dumps({**message, "id": name}).encode() + b"\n"

    def _belongs_elsewhere(self, line: bytes) -> bool:
        """Forward a call to the server that its error names."""
        if not self._requests or b'"id"' not in line:
            return False
        answer = _parsed(line)
        key = _key(answer.get("id"))
        if "method" in answer or key not in self._requests:
            return False
        request, asked = self._requests[key]
        error = _error(answer)
        target = None
        if error.get("code") == ELSEWHERE:
            details = error.get("details", {})
            target = self._server(details.get("server"), request)
            request = _with_arguments(request, details.get("arguments", {}))
        elif error.get("code") in UNKNOWN:
            target = next((each for each in self._others.values() if each not in asked), None)
        if target is None or target in asked:
            del self._requests[key]
            return False
        asked.append(target)
        _send(target, request)
        return True

    def _server(self, url: object, request: bytes) -> socket.socket | None:
        """Connect to the server that an error names; None if that fails.

        A request of a session needs the handshake first. A request that carries its protocol version
        has no session, and a connection that began with a handshake rejects it. A client may have
        sent both: a handshake after a timeout, which the server rejected once it was up.
        """
        if not isinstance(url, str):
            return None
        if url not in self._others:
            server = server_at(url)
            try:
                connection = None if server is None else server.open(self._path)
            except (NoAnswer, Refused):
                return None
            if connection is None:
                return None
            if not _carries_version(request) and not _introduce(connection, self._opening):
                connection.close()
                return None
            self._others[url] = connection
            self._selector.register(connection, selectors.EVENT_READ)
        return self._others[url]


def _introduce(connection: socket.socket, opening: list[bytes]) -> bool:
    """Initialize a session as the client did; return whether the server has answered."""
    connection.settimeout(INTRODUCTION)
    try:
        for line in opening:
            connection.sendall(line)
        while opening and (received := connection.recv(1)) != b"\n":
            if not received:
                return False
    except OSError:
        return False
    connection.settimeout(None)
    return True


def _send(server: socket.socket, data: bytes) -> None:
    """Send to a server; if it has ended, that is read from its connection next."""
    with suppress(OSError):
        server.sendall(data)


def _carries_version(request: bytes) -> bool:
    """Return whether a request has the envelope of protocol 2026-07-28."""
    match _parsed(request):
        case {"params": {"_meta": {**meta}}}:
            return VERSION in meta
        case _:
            return False


def _with_arguments(request: bytes, arguments: dict[str, Any]) -> bytes:
    """Return a call with some arguments replaced."""
    message = _parsed(request)
    params = message["params"]
    params["arguments"] = {**params.get("arguments", {}), **arguments}
    return json.dumps(message).encode() + b"\n"


def _error(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the typed error in a response; empty if there is none."""
    match answer:
        case {"result": {"structuredContent": {"error": {"code": str()} as error}}}:
            return error
        case {"error": {"data": {"error": {"code": str()} as error}}}:
            return error
        case _:
            return {}


def _key(request_id: object) -> str:
    """Return what two ids of one request share: `7` and `"7"` are one id, as for the SDKs of MCP."""
    if isinstance(request_id, str):
        with suppress(ValueError):
            return json.dumps(int(request_id))
    return json.dumps(request_id)


def _error_response(request_id: object, code: int, message: str) -> bytes:
    """Return the response with an error to a request."""
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode() + b"\n"


def _parsed(line: bytes) -> dict[str, Any]:
    """Parse a message; empty if it is invalid."""
    try:
        message: Any = json.loads(line)
    except ValueError:
        return {}
    match message:
        case {**members}:
            return members
        case _:
            return {}


def _broken_off() -> int:
    write(sys.stderr, "nb: the server closed the connection; see .nb/host.log.\n")
    return wire.UNREACHABLE


def _read(file: int) -> bytes:
    """Read from standard input; a client that has ended has closed it."""
    try:
        return os.read(file, CHUNK)
    except OSError:
        return b""


def _write(file: int, data: bytes) -> None:
    """Write to standard output.

    Raises:
        BrokenPipeError: the client has ended.
        OutputFailed: it cannot be written.
    """
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(file, left) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(error.strerror) from None
