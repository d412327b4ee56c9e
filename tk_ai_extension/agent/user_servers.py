"""MCP servers that a user has configured for their chats, in a file of their own.

The file is ``mcp.json`` in this package's folder of the user's Jupyter configuration, in the format that
other clients have: ``{"mcpServers": {"name": {"command": …, "args": […], "env": {…}}}}``. No file of a
project is read: it would name programs that run as the user.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from tk_ai_extension.agent.environment import secrets_of
from tk_ai_extension.model.errors import InvalidArguments, PermissionDenied, ReadOnly
from tk_ai_extension.model.private_files import make_private, write_private
from tk_ai_extension.model.single_writer import single_writer

FILE = "mcp.json"
DISABLED = "mcp_disabled.json"
"""Names of the servers that the user has switched off; the file of servers is never written."""
MAX_FILE = 256_000
"""Maximum size of a file, in bytes."""
MAX_SERVERS = 20
"""Maximum number of MCP servers of a user."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
_BEFORE_PATH = re.compile(r"^\w+://[^/?#]*")
_BEFORE_VALUE = re.compile(r"[?&#;]+(?:[\w.-]+=)?")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:(?!\$\{)[^}])*))?\}")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """How a server is reached. Equal ones can share a connection.

    Attributes:
        name: Its name.
        command: The program; empty for a server with an address.
        args: Its arguments.
        env: Variables of its environment, besides a few such as PATH and HOME.
        url: The address; empty for a program.
        headers: Headers of each request to the address.
        problem: Why it cannot be used; empty if it can.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    url: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    problem: str = ""

    def redact(self, text: str) -> str:
        """Return a text without the values of variables, headers and arguments, and the address's parts.

        >>> ServerConfig("s", url="https://HOST/mcp?token=s3cret").redact("https://host/mcp?token=s3cret")
        'https://host…?token=…'
        """
        values = [*dict(self.env).values(), *dict(self.headers).values(), *self.args, self.url]
        found = {part for value in values for part in secrets_of({"KEY": value})}
        found |= {arg.partition("=")[2] for arg in self.args}
        # A client writes an address in a form of its own.
        found.update(_BEFORE_VALUE.split(_BEFORE_PATH.sub("", self.url)))
        # The longest first: one may be a part of another.
        for value in sorted((each for each in found if len(each) > 3), key=len, reverse=True):
            text = text.replace(value, "…")
        return text

    @property
    def place(self) -> str:
        """The name of the program, or the host of the address; without arguments, which may be secret."""
        return Path(self.command).name or _split(self.url)[1]


class _Entry(BaseModel):
    """An entry of the file. Fields of other clients are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True)

    type: Literal["stdio", "http", "streamable-http"] | None = None
    command: Annotated[str, Field(max_length=4_096)] = ""
    args: Annotated[list[str], Field(max_length=200)] = []
    env: dict[str, str] = {}
    url: Annotated[str, Field(max_length=4_096)] = ""
    headers: dict[str, str] = {}
    disabled: bool = False


class ServerStatus(TypedDict):
    """A server of the user's, without its arguments, variables and headers.

    Attributes:
        name: Its name.
        place: The program, or the host of the address.
        enabled: Whether chats use it.
        state: ``unused`` until a chat has started it.
        problem: Why it cannot be used, or did not start; empty if it can.
        tools: The names of its tools, once it has started, and whether each only reads.
    """

    name: str
    place: str
    enabled: bool
    state: Literal["unused", "ready", "failed"]
    problem: str
    tools: list[ServerTool]


class ServerTool(TypedDict):
    """A tool of a server."""

    name: str
    reads: bool


class ServersInfo(TypedDict):
    """The MCP servers of a user.

    Attributes:
        allowed: Whether chats may use servers here.
        file: The path of the file, for the user who runs the server; else empty.
        problem: Why the file cannot be used; empty if it can.
    """

    allowed: bool
    file: str
    problem: str
    servers: list[ServerStatus]


@dataclass(frozen=True, slots=True)
class _Read:
    servers: tuple[ServerConfig, ...] = ()
    switched_off: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    """Names of servers whose own entries disable them."""
    problem: str = ""

    @property
    def disabled(self) -> frozenset[str]:
        return self.switched_off | self.own


@dataclass
class UserServers:
    """The servers of the user who runs the server. The files are read when they are needed.

    Attributes:
        folder: The folder of the files; None for no servers.
        owners: The names of that user; others have no servers.
        allowed: Whether the administrator allows servers.
        environment: Variables for ``${NAME}`` in the file.
    """

    folder: Path | None = None
    owners: frozenset[str] = frozenset()
    allowed: bool = True
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    # What is known of a server since it was last started.
    _known: dict[ServerConfig, tuple[str, list[ServerTool]]] = field(
        default_factory=dict["ServerConfig", "tuple[str, list[ServerTool]]"], repr=False
    )

    async def enabled(self, user: str) -> tuple[ServerConfig, ...]:
        """Return the servers that a user's chats use."""
        if not self.allowed or user not in self.owners or self.folder is None:
            return ()
        read = await asyncio.to_thread(self._read, self.folder)
        return tuple(each for each in read.servers if each.name not in read.disabled)

    async def info(self, user: str) -> ServersInfo:
        """Return a user's servers for the screen, without secrets."""
        if self.folder is None or user not in self.owners:
            return {"allowed": False, "file": "", "problem": "", "servers": []}
        if not self.allowed:
            return {"allowed": False, "file": str(self.folder / FILE), "problem": "", "servers": []}
        read = await asyncio.to_thread(self._read, self.folder)
        return {
            "allowed": True,
            "file": str(self.folder / FILE),
            "problem": read.problem,
            "servers": [self._status(each, read.disabled) for each in read.servers],
        }

    async def switch(self, user: str, name: str, *, enabled: bool) -> None:
        """Switch a server on or off for all chats of a user.

        Raises:
            PermissionDenied: The administrator does not allow servers, or it is another user.
            InvalidArguments: There is no such server.
            ReadOnly: The decision cannot be saved.
        """
        if not self.allowed or self.folder is None or user not in self.owners:
            raise PermissionDenied(
                "MCP servers of your own are switched off here.", hint="Ask your administrator."
            )
        await asyncio.to_thread(self._switch, self.folder, name, enabled)

    def started(self, server: ServerConfig, problem: str, tools: list[ServerTool]) -> None:
        """Record how a server has started.

        Args:
            server: The server.
            problem: Why it did not start, without secrets; empty if it did.
            tools: Its tools.
        """
        if len(self._known) >= 2 * MAX_SERVERS:
            self._known.clear()
        self._known[server] = (problem, tools)

    def _status(self, server: ServerConfig, disabled: frozenset[str]) -> ServerStatus:
        problem, tools = self._known.get(server, (server.problem, []))
        return {
            "name": server.name,
            "place": server.place,
            "enabled": server.name not in disabled,
            "state": "failed" if problem else "ready" if server in self._known else "unused",
            "problem": problem,
            "tools": tools,
        }

    def _switch(self, folder: Path, name: str, enabled: bool) -> None:
        file = folder / DISABLED
        with single_writer(file):
            read = self._read(folder)
            if name not in {each.name for each in read.servers}:
                raise InvalidArguments(f"There is no MCP server `{name[:80]}`.")
            names = read.switched_off - {name} if enabled else read.switched_off | {name}
            try:
                make_private(folder)
                write_private(file, json.dumps(sorted(names), indent=1))
            except OSError as error:
                raise ReadOnly(f"{file} cannot be written: {error.strerror}.") from error

    def _read(self, folder: Path) -> _Read:
        try:
            text = _own_text(folder / FILE)
            if text is None:
                return _Read()
            entries = _entries(text)
        except (OSError, ValueError) as error:
            # Without the content: it may be secret.
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            return _Read(problem=why)
        off: set[str] = set()
        try:
            names = TypeAdapter(list[str]).validate_json(_own_text(folder / DISABLED) or "[]")
            off.update(names)
        except (OSError, ValueError):
            # What was switched off is not known: use none.
            off.update(entries)
        servers = [self._config(name, entry) for name, entry in [*entries.items()][:MAX_SERVERS]]
        own = {name for name, entry in entries.items() if _is_disabled(entry)}
        return _Read(tuple(servers), frozenset(off), frozenset(own))

    def _config(self, name: str, given: object) -> ServerConfig:
        try:
            entry = _Entry.model_validate(given)
        except ValidationError as error:
            fields = {".".join(map(str, each["loc"])) or "entry" for each in error.errors()}
            return ServerConfig(name[:80], problem=f"invalid: {', '.join(sorted(fields))}")
        missing: set[str] = set()

        def value(text: str) -> str:
            def of(found: re.Match[str]) -> str:
                default: str | None = found[2]
                known = self.environment.get(found[1], default)
                if known is None:
                    missing.add(found[1])
                return known or ""

            return _VARIABLE.sub(of, text)

        problem = ""
        if not _NAME.fullmatch(name):
            problem = "its name may have letters, digits, - and _, at most 32"
        elif bool(entry.command) == bool(entry.url):
            problem = "it needs either `command` or `url`"
        elif entry.url and _split(value(entry.url))[0] not in ("http", "https"):
            problem = "its `url` is no address"
        config = ServerConfig(
            name[:80],
            value(entry.command),
            tuple(map(value, entry.args)),
            tuple(sorted((each, value(text)) for each, text in entry.env.items())),
            value(entry.url),
            tuple(sorted((each, value(text)) for each, text in entry.headers.items())),
        )
        if missing and not problem:
            problem = f"these variables are not set: {', '.join(sorted(missing))}"
        return config if not problem else ServerConfig(config.name, problem=problem)


def _split(url: str) -> tuple[str, str]:
    """Return the scheme and the host of an address; empty texts if it is not valid."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", ""
    return parts.scheme, parts.hostname or ""


def _is_disabled(entry: object) -> bool:
    return isinstance(entry, dict) and entry.get("disabled") is True


def _entries(text: str) -> dict[str, object]:
    """Return the entries by name.

    Raises:
        ValueError: It is no such file.
    """
    try:
        data = json.loads(text, object_pairs_hook=_unique)
    except (json.JSONDecodeError, RecursionError) as error:
        where = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"it is no valid JSON{where}") from None
    try:
        return TypeAdapter(dict[str, dict[str, object]]).validate_python(data)["mcpServers"]
    except (ValidationError, KeyError):
        raise ValueError("it has no object `mcpServers`") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it has a key twice")
    return found


def _own_text(file: Path) -> str | None:
    """Return the text of a file that only its user can write; None if there is none.

    Raises:
        OSError: It cannot be read.
        ValueError: Others could have written it, or it is too large.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as opened:
        found = os.fstat(opened.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is not a regular file")
        if os.name != "nt" and (found.st_uid != os.geteuid() or found.st_mode & 0o022):
            raise ValueError("others can write it: make it yours alone (chmod 600)")
        data = opened.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise ValueError("it is too large")
    return data.decode("utf-8-sig")
