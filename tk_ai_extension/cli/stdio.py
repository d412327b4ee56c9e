"""`nb mcp`: MCP over stdio, handed on line by line to the server that has the notebooks, which speaks it.

The process that a client starts and ends holds nothing: kernels and what runs in them are the server's.
Where a call belongs to another server (a person has started one meanwhile), it is sent there.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys

from tk_ai_extension.cli import wire
from tk_ai_extension.cli.connecting import MCP, Connected, NoAnswer, find_server, server_at
from tk_ai_extension.cli.project import Project, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHUNK = 1 << 16

OPTIONS = ("--toolsets", "--mode", "--caller")

ELSEWHERE = "notebook_open_elsewhere"
"""The code of the error with which a server says that another one has the notebook."""
UNKNOWN = ("execution_not_found", "artifact_not_found")
"""The codes of errors about what another server may know."""


def relay(project: Project, argv: list[str]) -> int:
    """Connects standard input and output to the MCP of a server until one side ends.

    Args:
        project: Whose server, or a person's over its folder; it is started where there is none.
        argv: ``--toolsets default,omp``, ``--mode ask``.

    Returns:
        The exit status.

    Raises:
        Refused: a wrong call, or no server can be started.
    """
    path = MCP + _query(argv)
    found = find_server(project, os.getcwd(), path, starts=True)
    assert isinstance(found, Connected)
    return _Relay(found.connection, path).run()


def _query(argv: list[str]) -> str:
    """What was typed, as a query."""
    from urllib.parse import quote

    wanted: list[str] = []
    rest = list(argv)
    while rest:
        name, _, value = rest.pop(0).partition("=")
        if name not in OPTIONS:
            raise Refused(f"nb mcp does not know {name}; it takes --toolsets, --mode and --caller.")
        if not value:
            if not rest:
                raise Refused(f"nb mcp: {name} needs a value.")
            value = rest.pop(0)
        wanted.append(f"{name[2:]}={quote(value)}")
    return "?" + "&".join(wanted) if wanted else ""


class _Relay:
    """Carries lines between the client and the servers that its calls belong to.

    Args:
        connection: To the first server, which gets all that belongs nowhere else.
        path: What a connection to another one is opened for.
    """

    def __init__(self, connection: socket.socket, path: str) -> None:
        self._first = connection
        self._path = path
        # By address, those that calls were sent to besides.
        self._others: dict[str, socket.socket] = {}
        # The pieces of a line that is not whole yet, by where they come from.
        self._unfinished: dict[socket.socket | int, list[bytes]] = {}
        # By id as JSON, the requests that are not answered yet, and where each was sent.
        self._requests: dict[str, tuple[bytes, set[socket.socket]]] = {}
        # By the id that the client has seen, the questions of the other servers, and their ids there.
        self._questions: dict[str, tuple[socket.socket, Any]] = {}
        self._asked = 0
        self._opening: list[bytes] = []
        self._selector = selectors.DefaultSelector()

    def run(self) -> int:
        """Carries lines until one side ends; the exit status."""
        incoming = sys.stdin.fileno()
        ended = False
        self._selector.register(self._first, selectors.EVENT_READ)
        self._selector.register(incoming, selectors.EVENT_READ)
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj == incoming:
                        data = os.read(incoming, CHUNK)
                        for line in self._lines(incoming, data):
                            self._from_client(line)
                        if not data:
                            # The client is gone, or has said all: what it still waits for may come.
                            ended = True
                            self._selector.unregister(incoming)
                            for server in (self._first, *self._others.values()):
                                server.shutdown(socket.SHUT_WR)
                    elif not self._from_server(key.fileobj):  # type: ignore[arg-type]
                        return wire.OK if ended else _broken_off()
        finally:
            self._selector.close()
            for server in (self._first, *self._others.values()):
                server.close()

    def _lines(self, source: socket.socket | int, data: bytes) -> list[bytes]:
        """The lines that are whole now; at the end of a source, what is left counts as one."""
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
        """Hands on a message: a request to the first server, an answer to the one that asked."""
        if len(self._opening) < 2 and (b'"initialize"' in line or b"/initialized" in line):
            self._opening.append(line)
        if b'"tools/call"' in line:
            request = _parsed(line)
            if "id" in request:
                self._requests[json.dumps(request["id"])] = (line, {self._first})
        elif self._others:
            message = _parsed(line)
            name = message.get("id")
            if "method" not in message and isinstance(name, str) and name in self._questions:
                server, message["id"] = self._questions.pop(name)
                server.sendall(json.dumps(message).encode() + b"\n")
                return
            if "method" in message and "id" not in message:
                # The end of a call, say: whichever server it means knows.
                for server in self._others.values():
                    server.sendall(line)
        self._first.sendall(line)

    # -- from servers

    def _from_server(self, server: socket.socket) -> bool:
        """Carries what a server says; False where the first one has ended."""
        try:
            data = server.recv(CHUNK)
        except ConnectionError:
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
        server.close()
        return True

    def _for_client(self, server: socket.socket, line: bytes) -> bytes:
        """A message as the client gets it: a question of another server under an id of its own.

        Servers count their questions independently, and an answer must not reach another one's.
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
        """Sends a call on where its answer says that another server has what it is about."""
        if not self._requests or b'"id"' not in line:
            return False
        answer = _parsed(line)
        key = json.dumps(answer.get("id"))
        if "method" in answer or key not in self._requests:
            return False
        request, asked = self._requests[key]
        error = _error(answer)
        target = None
        if error.get("code") == ELSEWHERE:
            details = error.get("details", {})
            target = self._server(details.get("server"))
            request = _with_arguments(request, details.get("arguments", {}))
        elif error.get("code") in UNKNOWN:
            target = next((each for each in self._others.values() if each not in asked), None)
        if target is None or target in asked:
            del self._requests[key]
            return False
        asked.add(target)
        target.sendall(request)
        return True

    def _server(self, url: object) -> socket.socket | None:
        """A connection to the server that an error names; None where there is none to be had."""
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
            _introduce(connection, self._opening)
            self._others[url] = connection
            self._selector.register(connection, selectors.EVENT_READ)
        return self._others[url]


def _introduce(connection: socket.socket, opening: list[bytes]) -> None:
    """Opens a session as the client opened its first one; its answer is nobody's."""
    for line in opening:
        connection.sendall(line)
    if opening:
        while connection.recv(1) not in (b"\n", b""):
            pass


def _with_arguments(request: bytes, arguments: dict[str, Any]) -> bytes:
    """A call with some of its arguments replaced."""
    message = _parsed(request)
    params = message["params"]
    params["arguments"] = {**params.get("arguments", {}), **arguments}
    return json.dumps(message).encode() + b"\n"


def _error(answer: dict[str, Any]) -> dict[str, Any]:
    """The typed error in the answer to a call; empty where there is none."""
    match answer:
        case {"result": {"structuredContent": {"error": {"code": str()} as error}}}:
            return error
        case {"error": {"data": {"error": {"code": str()} as error}}}:
            return error
        case _:
            return {}


def _parsed(line: bytes) -> dict[str, Any]:
    """A message; empty where it is none."""
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
    sys.stderr.write("nb: the server ended the connection; see .nb/host.log.\n")
    return wire.UNREACHABLE


def _write(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
