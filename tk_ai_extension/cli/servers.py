"""The Jupyter Servers of this user: which of them a notebook belongs to while it runs."""

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
"""Seconds in which a server is not asked again that did not answer, or has no extension."""

LOCAL = ("localhost", "127.0.0.1", "::1")
"""This machine's names for itself."""


class ServerUnreachable(ToolError):
    """A Jupyter Server does not answer, or not to us."""

    code = "server_unreachable"
    status = 502
    retryable = True
    default_hint = "See that the server runs, and give its address with the token in it."


class ServerGone(ServerUnreachable):
    """Nobody listens where a Jupyter Server was."""


class ServerSilent(ServerUnreachable):
    """A Jupyter Server takes a request and does not answer it."""

    default_hint = "It hangs, or works hard: see what it does, or stop it."


class ServerRefused(ServerUnreachable):
    """A Jupyter Server does not accept our token."""

    retryable = False
    default_hint = "Give the server's address with its token: `jupyter server list` shows it."


STRANGER = (
    "Install tk-ai-extension where that server runs and restart it, or close the notebook there: what is "
    "written underneath an open tab is lost, or takes its work away."
)
"""What to do about a server without the extension that has a notebook open."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running Jupyter Server.

    Attributes:
        url: Its address with the base URL, ending in a slash.
        token: What it lets in.
        root: The folder of its notebooks; None where that is not on this machine.
        started: When it wrote that it runs, in ns; tells it from the one before at that address.
    """

    url: str
    token: str = field(repr=False)
    root: Path | None = None
    started: int = 0

    @classmethod
    def at(cls, address: str, token: str = "") -> Server:
        """The server at an address as Jupyter prints it, token and all.

        Args:
            address: It.
            token: What lets in where the address has none.

        Raises:
            ServerUnreachable: it is no such address.
        """
        try:
            parts = urlsplit(address)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc:
            raise ServerUnreachable(f"`{masked(address)}` is no address of a Jupyter Server.")
        path = parts.path
        for page in ("/lab", "/tree", "/notebooks"):
            path = path.split(page)[0] if page in path else path
        token = parse_qs(parts.query).get("token", [""])[0] or token
        return cls(f"{parts.scheme}://{parts.netloc}{path.rstrip('/')}/", token)

    async def get(self, path: str) -> Any:
        """What the server answers there, as JSON; None where there is nothing.

        Raises:
            ServerGone: nobody listens there.
            ServerSilent: it does not answer in time.
            ServerUnreachable: it does not answer, or not to us.
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
            raise ServerSilent(f"{self.url} does not answer within {timeout:.0f} s.") from error
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
    """Finds the server that a path belongs to, by the files in Jupyter's runtime folder.

    Args:
        runtime: That folder, where it is another one.
        clock: Seconds, for how long ago a server was asked.
    """

    def __init__(
        self, runtime: Path | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._runtime = str(runtime or runtime_folder())
        self._clock = clock
        # A project's own server, once people can find it, is none of the others.
        self._process = os.getpid() if runtime is None else 0
        # Whether a server has the extension, and when it said so.
        self._extended: dict[Server, tuple[bool, float]] = {}
        # When a server did not answer: each further question would take as long again.
        self._silent: dict[Server, float] = {}

    async def owner_of(self, path: Path, effect: Effect = "READ") -> Server | None:
        """The server that has the extension and in whose folder a path is; None where there is none.

        The one with the deepest folder wins.

        Args:
            path: A notebook.
            effect: What is to be done with it: a mere look disturbs nobody.

        Raises:
            OpenElsewhere: it is to be changed or run, and a server without the extension has a
                session for it, or a server cannot be asked whether it has.
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
                await self._leave_alone(server, path, error)
        return None

    def silent_over(self, path: Path) -> list[Server]:
        """The servers in whose folder a notebook is, and which did not answer just now."""
        if not self._silent:
            return []
        path = path.resolve()
        return [
            server
            for server in self.running()
            if server.root is not None
            and path.is_relative_to(server.root)
            and self._silent_for(server) is not None
        ]

    def fell_silent(self, server: Server) -> None:
        """A server does not answer: for a while it is not asked again."""
        self._silent[server] = self._clock()

    def did_not_answer(self, urls: Collection[str]) -> None:
        """The servers of these addresses did not answer just now: they are not asked for a while."""
        for server in self.running():
            if server.url in urls:
                self.fell_silent(server)

    def check(self, server: Server) -> None:
        """Returns unless a server did not answer just now.

        Raises:
            ServerSilent.
        """
        ago = self._silent_for(server)
        if ago is not None:
            raise ServerSilent(
                f"{server.url} did not answer {ago:.0f} s ago; it is asked again in "
                f"{NOT_ASKED - ago:.0f} s."
            )

    def _silent_for(self, server: Server) -> float | None:
        since = self._silent.get(server)
        if since is None:
            return None
        ago = self._clock() - since
        if ago < NOT_ASKED:
            return ago
        del self._silent[server]
        return None

    def at(self, address: str, token: str = "") -> Server:
        """The server at an address, as `Server.at`; of one that runs here the token is known."""
        named = Server.at(address, token)
        if not named.token:
            for server in self.running():
                if _place(server.url) == _place(named.url):
                    return replace(server, root=None, started=0)
        return named

    def running(self) -> list[Server]:
        """The servers of this user that run on this machine."""
        return [
            Server(each.url, each.token, Path(each.root), each.started)
            for each in running_servers(self._runtime)
            if each.pid != self._process and psutil.pid_exists(each.pid)
        ]

    async def has_extension(self, server: Server) -> bool:
        """Whether this extension answers there; False, too, where the server does not answer."""
        try:
            return await self.is_extended(server)
        except ServerUnreachable:
            return False

    async def is_extended(self, server: Server) -> bool:
        """Whether this extension answers there.

        Raises:
            ServerUnreachable: the server does not answer, or not to this token.
        """
        extended, since = self._extended.get(server, (False, -NOT_ASKED))
        # What has none may get it; what has it keeps it until it is started anew.
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
        """What a server answers, as `Server.get`; at once where it did not answer just now."""
        self.check(server)
        try:
            return await server.get(path)
        except ServerSilent:
            self.fell_silent(server)
            raise

    async def _leave_alone(
        self, server: Server, path: Path, unheard: ServerUnreachable | None
    ) -> None:
        """Refuses where a server without the extension has a notebook open, or does not say.

        Raises:
            OpenElsewhere.
        """
        try:
            if unheard is not None:
                raise unheard
            if not await self._is_open(server, path):
                return
        except ServerGone:
            return
        except ServerUnreachable as error:
            raise OpenElsewhere(
                f"{path.name} may be open in a Jupyter Server that cannot be asked: {error}",
                hint="Give its address with a token, `nb open NOTEBOOK --server URL`, or stop that "
                "server: what is written underneath an open tab is lost, or takes its work away.",
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
    """An address for comparison: this machine has several names for itself."""
    parts = urlsplit(url)
    host = "localhost" if parts.hostname in LOCAL else str(parts.hostname)
    return parts.scheme, host, parts.port, parts.path
