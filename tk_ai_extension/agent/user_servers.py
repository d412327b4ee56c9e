"""MCP servers that a user has configured for their chats, in a file of their own.

The file is ``mcp.json`` in this package's folder of the user's Jupyter configuration, in the format that
other clients have: ``{"mcpServers": {"name": {"command": …, "args": […], "env": {…}}}}``. No file of a
project is read: it would name programs that run as the user. The agent starts the servers and asks for
each call of their tools.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from tk_ai_extension.model.errors import InvalidArguments, PermissionDenied, ReadOnly
from tk_ai_extension.model.private_files import (
    PrivateFileError,
    make_private,
    read_private,
    write_private,
)

FILE = "mcp.json"
DISABLED = "mcp_disabled.json"
"""Names of the servers that the user has switched off; the file of servers is never written."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:(?!\$\{)[^}])*))?\}")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """How a server is reached.

    Attributes:
        name: Its name.
        command: The program; empty for a server with an address.
        args: Its arguments.
        env: Variables of its environment.
        url: The address; empty for a program.
        headers: Headers of each request to the address.
        problem: Why it cannot be used; empty if it can.
        disabled: Whether its entry disables it.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    url: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    problem: str = ""
    disabled: bool = False

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
        problem: Why it cannot be used; empty if it can.
    """

    name: str
    place: str
    enabled: bool
    problem: str


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

    async def enabled(self, user: str) -> tuple[ServerConfig, ...]:
        """Return the servers that a user's chats use."""
        if not self.allowed or user not in self.owners or self.folder is None:
            return ()
        try:
            servers, off = await asyncio.to_thread(self._read, self.folder)
        except PrivateFileError:
            return ()
        return tuple(each for each in servers if each.name not in off and not each.problem)

    async def info(self, user: str) -> ServersInfo:
        """Return a user's servers for the screen, without secrets."""
        info: ServersInfo = {"allowed": False, "file": "", "problem": "", "servers": []}
        if self.folder is None or user not in self.owners:
            return info
        info["allowed"], info["file"] = self.allowed, str(self.folder / FILE)
        if not self.allowed:
            return info
        try:
            servers, off = await asyncio.to_thread(self._read, self.folder)
        except PrivateFileError as error:
            info["problem"] = error.message
            return info
        info["servers"] = [
            {
                "name": each.name,
                "place": each.place,
                "enabled": each.name not in off,
                "problem": each.problem,
            }
            for each in servers
        ]
        return info

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

    def _switch(self, folder: Path, name: str, enabled: bool) -> None:
        servers, off = self._read(folder)
        if name not in {each.name for each in servers}:
            raise InvalidArguments(f"There is no MCP server `{name[:80]}`.")
        off -= {each.name for each in servers if each.disabled}
        names = off - {name} if enabled else off | {name}
        file = folder / DISABLED
        try:
            make_private(folder)
            write_private(file, json.dumps(sorted(names), indent=1))
        except OSError as error:
            raise ReadOnly(f"{file} cannot be written: {error.strerror}.") from error

    def _read(self, folder: Path) -> tuple[list[ServerConfig], set[str]]:
        """Return the servers, and the names of those that are switched off.

        Raises:
            PrivateFileError: The file cannot be used.
        """
        text = read_private(folder / FILE, refused_bits=0o022)
        if text is None:
            return [], set()
        try:
            data = TypeAdapter(dict[str, dict[str, object]]).validate_json(text)
            entries = data["mcpServers"]
        except (ValidationError, KeyError):
            # Not chained: that error would hold the file's text.
            raise PrivateFileError("It is no JSON object with an object `mcpServers`.") from None
        servers = [self._config(name, entry) for name, entry in entries.items()]
        off = {each.name for each in servers if each.disabled}
        try:
            disabled = read_private(folder / DISABLED, refused_bits=0o022) or "[]"
            off.update(TypeAdapter(list[str]).validate_json(disabled))
        except (PrivateFileError, ValidationError):
            # What was switched off is not known: use none.
            off.update(each.name for each in servers)
        return servers, off

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

        url = value(entry.url)
        command = value(entry.command)
        args = tuple(map(value, entry.args))
        env = tuple((each, value(text)) for each, text in entry.env.items())
        headers = tuple((each, value(text)) for each, text in entry.headers.items())
        problem = ""
        if not _NAME.fullmatch(name):
            problem = "its name may have letters, digits, - and _, at most 32"
        elif bool(entry.command) == bool(entry.url):
            problem = "it needs either `command` or `url`"
        elif entry.url and _split(url)[0] not in ("http", "https"):
            problem = "its `url` is no address"
        elif missing:
            problem = f"these variables are not set: {', '.join(sorted(missing))}"
        return ServerConfig(
            name[:80], command, args, env, url, headers, problem, disabled=entry.disabled
        )


def _split(url: str) -> tuple[str, str]:
    """Return the scheme and the host of an address; empty texts if it is not valid."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", ""
    return parts.scheme, parts.hostname or ""
