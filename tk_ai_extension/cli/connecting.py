"""Discovery of a command's server, and line-based connections to it.

A connection begins as a request to the server's extension and carries lines in both directions from
then on: over the socket of a project's own server (``Upgrade: tk-ai-ndjson``), or over the port of a
person's, in a WebSocket (``Upgrade: websocket``), which proxies forward. It uses the standard library's
sockets: importing `http.client` takes longer than the rest of a command.
"""

from __future__ import annotations

import json
import os
import socket
from binascii import b2a_base64

from tk_ai_extension.cli.project import Project, Refused

PROTOCOL = "tk-ai-ndjson"
"""Name of the protocol that a connection is upgraded to: newline-delimited JSON."""
COMMANDS = "api/tk-ai/commands"
"""Path for commands; see `wire`."""
MCP = "api/tk-ai/mcp/stdio"
"""Path for MCP, one message per line as over stdio."""
ANSWER_TIMEOUT = 10.0
"""Timeout for the response head of a person's server, in seconds; a command itself may take longer."""
IMPORT_TIMEOUT = 60.0
"""The same for a project's own server, which may still be importing modules."""
TOKEN_HEADER = "x-tk-token"  # noqa: S105 - a name
"""Header with the token of the server of a redirect."""
REFUSALS = (400, 401, 403, 503)
"""Statuses of refusals with an error of the extension in the body."""
STARTS = 3
"""Times to start a server that stops before the command has connected."""
MAX_HEAD = 1 << 16
"""Maximum size of a response head, in bytes."""


def answer_timeout() -> float:
    """Return ``NB_ANSWER_TIMEOUT``, else `ANSWER_TIMEOUT`."""
    try:
        seconds = float(os.environ.get("NB_ANSWER_TIMEOUT", ""))
    except ValueError:
        return ANSWER_TIMEOUT
    return seconds if seconds > 0 else ANSWER_TIMEOUT


class NoAnswer(Exception):
    """A server is not running, has no extension, or does not answer; the message says which.

    Attributes:
        timed_out: Whether the timeout expired.
    """

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class ServerEndpoint:
    """A Jupyter Server that may have the extension.

    Attributes:
        url: Its address, ending in a slash.
        token: Its token.
        project: The project whose socket it listens on; None for one that listens on a port.
    """

    def __init__(self, url: str, token: str, project: Project | None = None) -> None:
        self.url = url
        self.token = token
        self.project = project

    def open(self, path: str) -> socket.socket:
        """Open a line-based connection.

        Args:
            path: `COMMANDS` or `MCP`, perhaps with a query.

        Raises:
            NoAnswer: no server listens, or it has no extension.
            Refused: the server refuses the request.
        """
        netloc, _, base = self.url.partition("://")[2].partition("/")
        timeout = answer_timeout() if self.project is None else IMPORT_TIMEOUT
        try:
            connection = self.connect()
        except TimeoutError:
            raise self._no_answer(timeout) from None
        if connection is None:
            raise NoAnswer(f"{self.url} does not answer: no server is listening.")
        upgrade = PROTOCOL if self.project is not None else _websocket()
        head = (
            f"GET /{base}{path} HTTP/1.1\r\nHost: {netloc}\r\nConnection: Upgrade\r\n"
            f"Upgrade: {upgrade}\r\nAuthorization: token {self.token}\r\n\r\n"
        )
        try:
            connection.settimeout(timeout)
            connection.sendall(head.encode("latin-1", "replace"))
            status, said, headers = _head(connection)
            if status == 101:  # the server sends no line before the client does
                connection.settimeout(None)
                if self.project is not None:
                    return connection
                from tk_ai_extension.cli.websocket import stream_of

                return stream_of(connection, said)
            if status == 307 and self.project is not None:
                # Only trust a redirect of the project's own server, over its socket: it includes the token.
                connection.close()
                return ServerEndpoint(headers["location"], headers[TOKEN_HEADER]).open(path)
            refused = _message(connection, said, headers) if status in REFUSALS else ""
        except (OSError, KeyError) as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise self._no_answer(timeout) from None
            raise NoAnswer(f"{self.url} does not answer as a Jupyter Server does.") from None
        connection.close()
        if refused:
            raise Refused(refused)
        raise NoAnswer(f"{self.url} does not answer as a Jupyter Server with tk-ai-extension does.")

    def _no_answer(self, timeout: float) -> NoAnswer:
        return NoAnswer(f"{self.url} does not answer within {timeout:.0f} s.", timed_out=True)

    def connect(self) -> socket.socket | None:
        """Open a socket; None if no server listens.

        Raises:
            TimeoutError: the server does not answer.
        """
        if self.project is not None and hasattr(socket, "AF_UNIX"):
            return self.project.connect()
        scheme, _, rest = self.url.partition("://")
        netloc = rest.partition("/")[0]
        host, colon, port = netloc.rpartition(":")
        if not colon or netloc.endswith("]"):
            host, port = netloc, "443" if scheme == "https" else "80"
        host = host.strip("[]")
        try:
            connection = socket.create_connection((host, int(port)), answer_timeout())
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if scheme == "https":
                import ssl

                return ssl.create_default_context().wrap_socket(connection, server_hostname=host)
        except TimeoutError:
            raise
        except (OSError, ValueError):
            return None
        return connection


def _websocket() -> str:
    """Return the header `Upgrade` of a WebSocket, and what belongs to it."""
    # The server's answer to the key is not checked: it names the protocol, which only the extension knows.
    key = b2a_base64(os.urandom(16), newline=False).decode()
    return (
        f"websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
        f"Sec-WebSocket-Protocol: {PROTOCOL}"
    )


def _number(text: str) -> int | None:
    """Return the number that a text of up to nine ASCII digits is; None for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _head(connection: socket.socket) -> tuple[int, bytes, dict[str, str]]:
    """Read a response head: status, bytes of the body received so far, headers.

    Raises:
        OSError: it is not HTTP.
    """
    data = b""
    while (end := data.find(b"\r\n\r\n")) < 0:
        piece = connection.recv(MAX_HEAD)
        if not piece or len(data) > MAX_HEAD:
            raise OSError("not an HTTP response")
        data += piece
    first, *rest = data[:end].decode("latin-1").split("\r\n")
    words = first.split(maxsplit=2)
    status = _number(words[1]) if len(words) > 1 and words[0].startswith("HTTP/") else None
    if status is None:
        raise OSError("not an HTTP response")
    pairs = (line.partition(":") for line in rest)
    return status, data[end + 4 :], {name.lower(): value.strip() for name, _, value in pairs}


def _message(connection: socket.socket, body: bytes, headers: dict[str, str]) -> str:
    """Read the reason of a refusal; empty if it is not an error of the extension.

    The server may keep the connection open after its response: read only the response.
    """
    length = min(_number(headers.get("content-length", "")) or 0, MAX_HEAD)
    while len(body) < length:
        piece = connection.recv(MAX_HEAD)
        if not piece:
            break
        body += piece
    try:
        error = json.loads(body)["error"]
        return f"{error['message']} {error['hint']}"
    except (ValueError, LookupError, TypeError):
        return ""


class CommandConnection:
    """A connection to the server that a command is for.

    Attributes:
        connection: The connection.
        own: Whether it is the project's own server.
    """

    def __init__(self, connection: socket.socket, *, own: bool) -> None:
        self.connection = connection
        self.own = own


class NoServer:
    """There is no server for a command.

    Attributes:
        silent: The addresses of those that were asked and did not answer in time: they need not be
            waited for again.
    """

    def __init__(self, silent: tuple[str, ...] = ()) -> None:
        self.silent = silent


def find_server(
    project: Project, folder: str, path: str, *, starts: bool, own: bool = False
) -> CommandConnection | NoServer:
    """Open a connection to the server of a command.

    This is the project's own server if it runs, else a person's server whose folder
    contains this one, else the project's own, started if the command needs a server.

    Args:
        project: The project.
        folder: The working directory of the command.
        path: See `ServerEndpoint.open`.
        starts: Whether to start a server if there is none.
        own: Whether only the project's own server will do.

    Returns:
        The connection; `NoServer` where the command is to run in this process.

    Raises:
        Refused: the project's server refuses the request or cannot be started.
    """
    server = own_server(project)
    if server is not None:
        try:
            return CommandConnection(server.open(path), own=True)
        except NoAnswer:
            pass  # it was killed
    silent: list[str] = []
    if not own and not project.has_sandbox():
        for server in servers_over(folder):
            try:
                return CommandConnection(server.open(path), own=False)
            except NoAnswer as error:
                # It is gone, hangs or has no extension: what it has open is left alone.
                silent += [server.url] * error.timed_out
            except Refused:
                continue
    if not starts:
        return NoServer(tuple(silent))
    return start_server(project, path)


def start_server(project: Project, path: str) -> CommandConnection:
    """Start the project's server, unless another command has just done so, and connect to it.

    Raises:
        Refused: it cannot be started, or does not answer.
    """
    from tk_ai_extension.cli.launch import launch

    problem = ""
    # The end of another command may stop it before this one has connected.
    for _ in range(STARTS):
        launch(project)
        server = own_server(project)
        if server is None:
            problem = "stopped at once"
            continue
        try:
            return CommandConnection(server.open(path), own=True)
        except NoAnswer as error:
            problem = "does not answer"
            if error.timed_out:
                break
    raise Refused(f"the server {problem}; see {project.log}.")


def own_server(project: Project) -> ServerEndpoint | None:
    """Return the project's own server; None if none has run, or it was shut down.

    Without Unix sockets, only servers in Jupyter's runtime files are considered: a file in the project
    may have been downloaded with it.
    """
    known = project.server() if project.is_open() else None
    if known is None:
        return None
    if hasattr(socket, "AF_UNIX"):
        return ServerEndpoint("http://localhost/", str(known["token"]), project)
    running = (each for each in running_servers() if each.token == known["token"])
    return next((ServerEndpoint(each.url, each.token, project) for each in running), None)


def server_at(url: str) -> ServerEndpoint | None:
    """Return this user's running server at an address; None if Jupyter's files name none."""
    named = (each for each in running_servers() if each.url == url)
    return next((ServerEndpoint(each.url, each.token) for each in named), None)


def servers_over(folder: str) -> list[ServerEndpoint]:
    """Return this user's servers whose root contains a folder, the deepest first.

    They may include crashed servers, which do not answer.
    """
    place = os.path.join(os.path.realpath(folder), "")
    over = [each for each in running_servers() if place.startswith(os.path.join(each.root, ""))]
    over.sort(key=lambda each: len(each.root), reverse=True)
    return [ServerEndpoint(each.url, each.token) for each in over]


class RunningServer:
    """A server in Jupyter's runtime files; it may have crashed since.

    Attributes:
        root: The folder of its notebooks, without links.
        url: Its address.
        token: Its token.
        pid: Its process id; 0 if unknown.
        started: Time of its runtime file, in ns.
    """

    def __init__(self, root: str, url: str, token: str, pid: int, started: int) -> None:
        self.root = root
        self.url = url
        self.token = token
        self.pid = pid
        self.started = started


def running_servers(runtime: str | None = None) -> list[RunningServer]:
    """Return the servers of this user that runtime files name.

    Args:
        runtime: The folder of the files; by default Jupyter's.
    """
    runtime = runtime or runtime_folder()
    try:
        names = os.listdir(runtime)
    except OSError:
        return []
    found: list[RunningServer] = []
    for name in names:
        if not (name.startswith("jpserver-") and name.endswith(".json")):
            continue
        path = os.path.join(runtime, name)
        try:
            status = os.stat(path)
            if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
                continue  # the file's owner must not receive a token
            with open(path, "rb") as file:
                entry = json.load(file)
            root, url, token = entry["root_dir"], str(entry["url"]), str(entry["token"])
            pid = name[len("jpserver-") : -len(".json")]
            if url.startswith(("http://", "https://")):
                place = os.path.realpath(root)
                found.append(
                    RunningServer(place, url, token, _number(pid) or 0, status.st_mtime_ns)
                )
        except (OSError, ValueError, LookupError, TypeError):
            continue  # it is being written
    return found


def runtime_folder() -> str:
    """Return Jupyter's runtime folder, as `jupyter_core.paths.jupyter_runtime_dir` does."""
    named = os.environ.get("JUPYTER_RUNTIME_DIR")
    if named:
        return named
    data = os.environ.get("JUPYTER_DATA_DIR")
    if not data:
        import sys

        home = os.path.expanduser("~")
        if sys.platform == "darwin":
            data = os.path.join(home, "Library", "Jupyter")
        elif sys.platform == "win32":
            data = os.path.join(os.environ.get("APPDATA") or home, "jupyter")
        else:
            share = os.environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
            data = os.path.join(share, "jupyter")
    return os.path.join(data, "runtime")
