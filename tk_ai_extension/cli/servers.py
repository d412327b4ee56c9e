"""Jupyter Servers of this user: requests, the lookup of a notebook's server, and the start of one.

Only fast imports: every command uses this module.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
from contextlib import suppress
from urllib.parse import parse_qs, quote, urlsplit

from jupyter_core.paths import jupyter_runtime_dir

from tk_ai_extension._version import __version__
from tk_ai_extension.cli.project_folder import CommandError, Project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

CONNECT_TIMEOUT = 10.0
"""Seconds in which a server has to accept a connection, and to answer a ``GET``."""

HEADLESS = "tk_ai_extension.server.project_server"
"""Module of a project's server."""

LISTENS = "listens"
"""Output of a project's server that is listening; any other output is the reason why it cannot."""

API = "api/tk-ai"

ADDRESS = "NB_SERVER"
"""Variable with the address of the server that commands use, instead of one that runs on the folder."""


class ToolFailed(Exception):
    """A server answers with a typed error: code, message, hint and, for some codes, details."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error.get("message", ""))
        self.error = error
        self.code = str(error.get("code", ""))


class ServerUnreachable(ToolFailed):
    """No server answers, or it refuses the token."""

    def __init__(self, message: str, hint: str = "Check that the server runs.") -> None:
        super().__init__({"code": "server_unreachable", "message": message, "hint": hint})


class Server:
    """A running Jupyter Server.

    Attributes:
        url: Its address, ending in a slash.
        token: Its token.
        root: The folder of its notebooks, without links; empty if it is on another machine.
        is_headless: Whether `nb` has started it.
        pid: Its process id; 0 if unknown.
    """

    def __init__(
        self, url: str, token: str, root: str = "", *, is_headless: bool = False, pid: int = 0
    ) -> None:
        self.url = url
        self.token = token
        self.root = root
        self.is_headless = is_headless
        self.pid = pid
        self._tools: list[dict[str, Any]] | None = None

    @classmethod
    def at(cls, address: str, token: str = "") -> Server:
        """Parse a server's address as Jupyter prints it, with the token.

        Raises:
            CommandError: it is not an address.
        """
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc:
            raise CommandError(f"{ADDRESS} is not the address of a Jupyter Server.")
        path = parts.path
        for page in ("/lab", "/tree", "/notebooks"):
            path = path.split(page)[0]
        token = parse_qs(parts.query).get("token", [token])[0]
        return cls(f"{parts.scheme}://{parts.netloc}{path.rstrip('/')}/", token)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request and return the JSON of the answer, or its text.

        Args:
            method: The HTTP method.
            path: Below the server's address.
            body: Sent as JSON; None for none.
            headers: Further headers.

        Raises:
            ServerUnreachable: no answer.
            ToolFailed: the server answers with an error.
        """
        response = self.open(method, path, body, headers=headers)
        data = self._read(response)
        is_json = response.headers.get_content_type() == "application/json"
        return json.loads(data) if is_json and data else data.decode(errors="replace")

    def open(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> http.client.HTTPResponse:
        """Send a request by a new connection; return the response, with its body not yet read.

        Raises:
            ServerUnreachable: no answer.
            ToolFailed: the server answers with an error.
        """
        sent = {"User-Agent": f"nb/{__version__}", "Accept": "application/json"}
        sent |= {"Connection": "close", **(headers or {})}
        if self.token:
            sent["Authorization"] = f"token {self.token}"
        if body is not None:
            body = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        parts = urlsplit(self.url)
        is_https = parts.scheme == "https"
        kind = http.client.HTTPSConnection if is_https else http.client.HTTPConnection
        connection = kind(parts.netloc, timeout=CONNECT_TIMEOUT)
        try:
            connection.connect()
            if method != "GET":
                connection.sock.settimeout(None)  # A cell may run for hours.
            connection.request(method, parts.path + path, body, sent)
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            why = "did not answer in time" if isinstance(error, TimeoutError) else str(error)
            raise ServerUnreachable(
                f"{self.url} does not answer: {why or type(error).__name__}."
            ) from None
        if response.status < 300:
            return response
        raise self._error(response, self._read(response))

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ServerUnreachable(f"{self.url} broke off its answer: {error}.") from None

    def _error(self, response: http.client.HTTPResponse, data: bytes) -> ToolFailed:
        try:
            return ToolFailed(json.loads(data)["error"])
        except (ValueError, LookupError, TypeError):
            pass
        if response.status in (401, 403):
            hint = f"Set {ADDRESS} to its address with the token."
            return ServerUnreachable(f"{self.url} does not accept this token.", hint)
        code = "not_found" if response.status == 404 else "internal_error"
        message = f"{self.url} answers {response.status} {response.reason}."
        return ToolFailed({"code": code, "message": message, "hint": "See the server's log."})

    def tools(self) -> list[dict[str, Any]] | None:
        """Return the descriptions of the tools; None if the server does not have the extension.

        Raises:
            ServerUnreachable: no answer.
        """
        if self._tools is None:
            try:
                answer = self.request("GET", f"{API}/tools?for=commands")
            except ToolFailed as error:
                if error.code == "not_found":
                    return None
                raise
            if not isinstance(answer, dict):
                return None
            self._tools = answer["tools"]
        return self._tools

    def call(self, tool: str, arguments: Mapping[str, Any], caller: str | None) -> dict[str, Any]:
        """Call a tool; return ``text``, ``is_error`` and the structured ``result``.

        Args:
            tool: Its name; ``toolset:name`` for one of another toolset.
            arguments: Its arguments.
            caller: The caller's key; None for none.

        Raises:
            ServerUnreachable: no answer.
            ToolFailed: the call failed.
        """
        toolset, _, name = tool.rpartition(":")
        query = f"?toolsets={toolset}&with_text=1" if toolset else "?with_text=1"
        headers = (
            {} if caller is None else {"X-TK-Caller": caller if caller.isascii() else quote(caller)}
        )
        return self.request("POST", f"{API}/tools/{name}{query}", dict(arguments), headers=headers)

    def events(self, path: str, body: Any) -> Iterator[dict[str, Any]]:
        """Send a request and yield the data of the answer's server-sent events."""
        response = self.open("POST", path, body, headers={"Accept": "text/event-stream"})
        for line in response:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    def has_open(self, path: str) -> bool:
        """Whether the server, even one without the extension, has a session for a notebook."""
        sessions = self.request("GET", "api/sessions")
        return any(each.get("path", "").removeprefix("RTC:") == path for each in sessions)


# -- finding one


def running_servers() -> list[Server]:
    """Return the servers of this user in Jupyter's runtime files; some may have crashed since.

    `jupyter_server.serverapp.list_running_servers` reads the same files, but takes half a second to import.
    """
    folder = jupyter_runtime_dir()
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found: list[Server] = []
    for name in names:
        if not (name.startswith("jpserver-") and name.endswith(".json")):
            continue
        path = os.path.join(folder, name)
        # Half-written files are skipped; another user's must not receive a token.
        with suppress(OSError, ValueError, LookupError, TypeError):
            if hasattr(os, "geteuid") and os.stat(path).st_uid != os.geteuid():
                continue
            with open(path, "rb") as file:
                entry = json.load(file)
            if str(entry["url"]).startswith(("http://", "https://")):
                server = Server(
                    entry["url"],
                    str(entry["token"]),
                    os.path.realpath(entry["root_dir"]),
                    is_headless=bool(entry.get("nb")),
                    pid=int(entry["pid"]),
                )
                found.append(server)
    return found


def own_server(project: Project) -> Server | None:
    """Return the project's server, if it listens."""
    root = os.path.realpath(project.root)
    for server in running_servers():
        if server.is_headless and server.root == root:
            with suppress(ServerUnreachable):
                server.tools()
                return server
    return None


def server_of(project: Project, path: str, *, changes: bool = True) -> Server | None:
    """Return the running server that has a notebook; None if none has it.

    This is the one that `ADDRESS` names, else a person's server with a folder that contains the path,
    else one that `nb` has started; of several the one with the deepest folder.

    Args:
        project: The project.
        path: Absolute path of the notebook, or of a folder.
        changes: Whether the notebook is changed or run; reading it is always possible.

    Raises:
        ServerUnreachable: a person's server hangs, or the named one does not answer.
        CommandError: a server without the extension is named or has the notebook open, or the project
            requires a sandbox, which a person's server does not have.
    """
    named = named_server()
    if named is not None:
        if named.tools() is None:
            raise CommandError(f"{named.url} has no tk-ai-extension: install it there.")
        return _confined(project, named, changes=changes)
    place = os.path.realpath(path)
    over = [each for each in running_servers() if is_inside(place, each.root)]
    over.sort(key=lambda each: (each.is_headless, -len(each.root)))
    for server in over:
        try:
            if server.tools() is not None:
                return _confined(project, server, changes=changes)
            is_open = changes and server.has_open(os.path.relpath(place, server.root))
        except ServerUnreachable as error:
            if "refused" in str(error):
                continue  # it has crashed
            if server.is_headless or not changes:
                continue
            raise
        if is_open:
            raise CommandError(
                f"{path} is open in the Jupyter Server at {server.url}, which has no "
                "tk-ai-extension. Install it there, or close the notebook: a write to the file of an "
                "open tab is lost, or overwrites the tab's changes."
            )
    return None


def named_server() -> Server | None:
    """Return the server that `ADDRESS` names; None if it is not set.

    Raises:
        CommandError: it is not an address.
    """
    address = os.environ.get(ADDRESS)
    if not address:
        return None
    server = Server.at(address, os.environ.get("JUPYTER_TOKEN", ""))
    local = (each for each in running_servers() if each.url == server.url)
    return next(local, server)


def _confined(project: Project, server: Server, *, changes: bool) -> Server:
    """Return a server, unless its kernels lack the sandbox that the project requires."""
    if changes and not server.is_headless and project.has_sandbox():
        raise CommandError(
            f"The kernels of the Jupyter Server at {server.url} have no sandbox, but this project "
            "requires one. Use another server, or run `nb open --no-sandbox`."
        )
    return server


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is a folder or below it."""
    return os.path.join(path, "").startswith(os.path.join(folder, ""))


# -- the project's server


def start_server(project: Project) -> Server:
    """Return the project's server, started unless it runs. It outlives the command.

    Raises:
        CommandError: it cannot be started; the message has the reason.
    """
    lock = project.lock()
    try:
        return own_server(project) or _launch(project)
    finally:
        os.close(lock)


def _launch(project: Project) -> Server:
    import subprocess

    with open(project.log, "ab") as log:
        process = subprocess.Popen(
            # -P: a module in the project, such as random.py, must not shadow the server's.
            [sys.executable, "-P", "-m", HEADLESS, project.root],
            cwd=project.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert process.stdout is not None
    with process.stdout as words:
        said = words.readline().decode().strip()
    process.returncode = 0  # It keeps running: do not wait for it.
    server = own_server(project) if said == LISTENS else None
    if server is None:
        raise CommandError(
            said.removeprefix(LISTENS) or f"the server stopped at once; see {project.log}."
        )
    return server


def stop_server(project: Project) -> bool:
    """Stop the project's server with its kernels, and remove their files; return whether it ran.

    Raises:
        ToolFailed: it refuses or hangs.
    """
    if not project.is_open() and own_server(project) is None:
        return False
    lock = project.lock()
    try:
        server = own_server(project)
        if server is not None:
            server.request("DELETE", f"{API}/project/share")
            server.request("POST", "api/shutdown")
            _wait_for_end(server.pid)
        project.clean()
        return server is not None
    finally:
        os.close(lock)


def _wait_for_end(pid: int) -> None:
    import psutil

    with suppress(psutil.NoSuchProcess):
        try:
            psutil.Process(pid).wait(30)
        except psutil.TimeoutExpired:
            hint = f"`kill -KILL {pid}` ends it."
            raise ServerUnreachable(f"The server (process {pid}) does not stop.", hint) from None
