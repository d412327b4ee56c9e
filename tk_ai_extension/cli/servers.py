"""This user's running Jupyter Servers, and which of them a notebook belongs to."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psutil

from tk_ai_extension.cli.connecting import answer_timeout, running_servers, runtime_folder
from tk_ai_extension.model.errors import OpenElsewhere, ToolError
from tk_ai_extension.model.masking import masked
from tk_ai_extension.workspace.permissions import Effect

NOT_ASKED = 30.0
"""Seconds before a server that did not answer, or has no extension, is asked again."""

LOCAL = ("localhost", "127.0.0.1", "::1")
"""Names of this machine."""


class ServerUnreachable(ToolError):
    """A Jupyter Server does not answer, or refuses us."""

    code = "server_unreachable"
    status = 502
    retryable = True
    default_hint = "Check that the server runs, and give its address with the token."


class ServerGone(ServerUnreachable):
    """A Jupyter Server has stopped: nothing listens at its address."""


class ServerSilent(ServerUnreachable):
    """A Jupyter Server accepts a request and does not answer."""

    default_hint = "The server is hung or overloaded: check or restart it."


class ServerRefused(ServerUnreachable):
    """A Jupyter Server does not accept our token."""

    retryable = False
    default_hint = "Give the server's address with its token: `jupyter server list` shows it."


STRANGER = (
    "Install tk-ai-extension where that server runs and restart it, or close the notebook there: what is "
    "written underneath an open tab is lost, or takes its work away."
)
"""Hint for a notebook that is open in a server without the extension."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running Jupyter Server.

    Attributes:
        url: Its address with the base URL, ending in a slash.
        token: Its token.
        root: The folder of its notebooks; None if it is not on this machine.
        started: Time of its runtime file, in ns; identifies it among servers at that address.
    """

    url: str
    token: str = field(repr=False)
    root: Path | None = None
    started: int = 0

    @classmethod
    def at(cls, address: str, token: str = "") -> Server:
        """Parse a server's address as Jupyter prints it, with the token.

        Args:
            address: The address.
            token: The token, if the address has none.

        Raises:
            ServerUnreachable: the address is invalid.
        """
        try:
            parts = urlsplit(address)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc:
            raise ServerUnreachable(f"`{masked(address)}` is not an address of a Jupyter Server.")
        path = parts.path
        for page in ("/lab", "/tree", "/notebooks"):
            path = path.split(page)[0] if page in path else path
        token = parse_qs(parts.query).get("token", [""])[0] or token
        return cls(f"{parts.scheme}://{parts.netloc}{path.rstrip('/')}/", token)

    async def get(self, path: str) -> Any:
        """Send a GET request; return the JSON, or None for 404.

        Raises:
            ServerGone: nothing listens there.
            ServerSilent: it does not answer in time.
            ServerUnreachable: it does not answer, or refuses us.
        """
        from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
        from tornado.simple_httpclient import HTTPTimeoutError

        timeout = answer_timeout() / 2
        request = HTTPRequest(
            self.url + path,
            headers={"Authorization": f"token {self.token}"} if self.token else {},
            request_timeout=timeout,
            connect_timeout=timeout,
            follow_redirects=False,
        )
        try:
            return json.loads((await AsyncHTTPClient().fetch(request)).body)
        except HTTPTimeoutError as error:
            raise ServerSilent(f"{self.url} did not answer within {timeout:.0f} s.") from error
        except HTTPClientError as error:
            if error.code == 404:
                return None
            if error.code in (401, 403):
                raise ServerRefused(f"{self.url} does not accept this token.") from error
            raise ServerUnreachable(f"{self.url} answers {error.code} {error.message}.") from error
        except ConnectionRefusedError as error:
            raise ServerGone(f"{self.url} does not answer: {error}") from error
        except (OSError, ValueError) as error:
            raise ServerUnreachable(f"{self.url} does not answer: {error}") from error


class Servers:
    """Finds the server that a path belongs to, from Jupyter's runtime files.

    Args:
        runtime: The folder of runtime files; by default Jupyter's.
        clock: Returns seconds; measures the time since a server was asked.
    """

    def __init__(
        self, runtime: Path | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._runtime = str(runtime or runtime_folder())
        self._clock = clock
        # A project's own server is not among the others, even with a runtime file.
        self._process = os.getpid() if runtime is None else 0
        # Whether a server has the extension, and when that was asked.
        self._extended: dict[Server, tuple[bool, float]] = {}
        # When a server did not answer: each further request would take the whole timeout.
        self._silent: dict[Server, float] = {}

    async def owner_of(self, path: Path, effect: Effect = "READ") -> Server | None:
        """Return the server with the extension whose root contains a path; None if there is none.

        The one with the deepest folder wins.

        Args:
            path: A notebook.
            effect: The effect of the call: reading is always possible.

        Raises:
            OpenElsewhere: it would be changed or run, and a server without the extension has a
                session for it, or a server does not say whether it has.
        """
        path = await asyncio.to_thread(path.resolve)
        found = [
            server
            for server in self.running()
            if server.root is not None and path.is_relative_to(server.root)
        ]
        found.sort(key=lambda server: len(str(server.root)), reverse=True)
        strangers: list[tuple[Server, ServerUnreachable | None]] = []
        # All at once: each that hangs takes as long as it may.
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._ask(server)) for server in found]
            for server, asking in zip(found, asked, strict=True):
                answer = await asking
                if answer is True:
                    for other in asked:
                        other.cancel()
                    return server
                if not isinstance(answer, ServerGone):
                    strangers.append((server, answer or None))
        if effect != "READ":
            for server, error in strangers:
                await self._refuse_if_open(server, path, error)
        return None

    def unresponsive_over(self, path: Path) -> list[Server]:
        """Return the servers whose root contains a notebook and which recently did not answer."""
        if not self._silent:
            return []
        path = path.resolve()
        return [
            server
            for server in self.running()
            if server.root is not None
            and path.is_relative_to(server.root)
            and self._unresponsive_for(server) is not None
        ]

    def mark_unresponsive(self, server: Server) -> None:
        """Record that a server does not answer: it is not asked again for a while."""
        self._silent[server] = self._clock()

    def did_not_answer(self, urls: Collection[str]) -> None:
        """The servers of these addresses did not answer just now: they are not asked for a while."""
        for server in self.running():
            if server.url in urls:
                self.mark_unresponsive(server)

    def check(self, server: Server) -> None:
        """Check that a server has not recently failed to answer.

        Raises:
            ServerSilent.
        """
        ago = self._unresponsive_for(server)
        if ago is not None:
            raise ServerSilent(
                f"{server.url} did not answer {ago:.0f} s ago; it is asked again in "
                f"{NOT_ASKED - ago:.0f} s."
            )

    def _unresponsive_for(self, server: Server) -> float | None:
        since = self._silent.get(server)
        if since is None:
            return None
        ago = self._clock() - since
        if ago < NOT_ASKED:
            return ago
        del self._silent[server]
        return None

    def at(self, address: str, token: str = "") -> Server:
        """Return the server at an address, as `Server.at`, with the token of one that runs here."""
        named = Server.at(address, token)
        if not named.token:
            for server in self.running():
                if _place(server.url) == _place(named.url):
                    return replace(server, root=None, started=0)
        return named

    def running(self) -> list[Server]:
        """Return this user's servers that run on this machine."""
        return [
            Server(each.url, each.token, Path(each.root), each.started)
            for each in running_servers(self._runtime)
            if each.pid != self._process and psutil.pid_exists(each.pid)
        ]

    async def has_extension(self, server: Server) -> bool:
        """Whether a server has the extension; False if it does not answer."""
        try:
            return await self.is_extended(server)
        except ServerUnreachable:
            return False

    async def is_extended(self, server: Server) -> bool:
        """Whether a server has the extension.

        Raises:
            ServerUnreachable: the server does not answer, or refuses the token.
        """
        extended, since = self._extended.get(server, (False, -NOT_ASKED))
        # A server without the extension may get it later; one with it keeps it until its restart.
        if not extended and self._clock() - since >= NOT_ASKED:
            answer = await self._get(server, "api/tk-ai/health")
            extended = isinstance(answer, dict) and "version" in answer
            self._extended[server] = (extended, self._clock())
        return extended

    async def _ask(self, server: Server) -> bool | ServerUnreachable:
        """Whether this extension answers there, or why nobody can say."""
        try:
            return await self.is_extended(server)
        except ServerUnreachable as error:
            return error

    async def _get(self, server: Server, path: str) -> Any:
        """Send a request, as `Server.get`; fail at once if the server recently did not answer."""
        self.check(server)
        try:
            return await server.get(path)
        except ServerSilent:
            self.mark_unresponsive(server)
            raise

    async def _refuse_if_open(
        self, server: Server, path: Path, problem: ServerUnreachable | None
    ) -> None:
        """Refuse a change if a server without the extension has the notebook open, or does not say.

        Raises:
            OpenElsewhere.
        """
        try:
            if problem is not None:
                raise problem
            if not await self._is_open(server, path):
                return
        except ServerGone:
            return
        except ServerUnreachable as error:
            raise OpenElsewhere(
                f"{path.name} may be open in a Jupyter Server that does not answer: {error}",
                hint="Give its address with a token, `nb open NOTEBOOK --server URL`, or stop that "
                "server: a change of the file under an open tab loses the change or the tab's edits.",
            ) from error
        raise OpenElsewhere(
            f"{path.name} is open in the Jupyter Server at {server.url}.", hint=STRANGER
        )

    async def _is_open(self, server: Server, path: Path) -> bool:
        assert server.root is not None
        sessions: list[dict[str, Any]] = await self._get(server, "api/sessions") or []
        wanted = path.relative_to(server.root).as_posix()
        return any(
            str(session.get("path", "")).removeprefix("RTC:") == wanted for session in sessions
        )


def _place(url: str) -> tuple[str, str, int | None, str]:
    """Normalize an address for comparison: this machine has several names."""
    parts = urlsplit(url)
    host = "localhost" if parts.hostname in LOCAL else str(parts.hostname)
    return parts.scheme, host, parts.port, parts.path
