"""MCP servers that a user has configured for their chats, in a file of their own.

The file is ``mcp.json`` in this package's folder of the user's Jupyter configuration, in the format that
other clients have: ``{"mcpServers": {"name": {"command": …, "args": […], "env": {…}}}}``. No file of a
project is read: it would name programs that run as the user. The agent starts the servers and asks for
each call of their tools.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from tk_ai_extension.model.private_files import PrivateFileError, read_private

FILE = "mcp.json"

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:(?!\$\{)[^}])*))?\}")


def _filled(text: str, info: ValidationInfo) -> str:
    """Return a text with the values of the variables in it; the context has them."""
    values = cast("Mapping[str, str]", info.context)

    def value(found: re.Match[str]) -> str:
        default: str | None = found[2]
        known = values.get(found[1], default)
        if known is None:
            raise PydanticCustomError(
                "no_variable", "the variable {name} is not set", {"name": found[1]}
            )
        return known

    return _VARIABLE.sub(value, text)


_Text = Annotated[str, AfterValidator(_filled)]


class ServerConfig(BaseModel):
    """A server, as its entry in the file says how it is reached. Fields of other clients are ignored.

    Attributes:
        name: Its name.
        command: The program; empty for a server with an address.
        args: Its arguments.
        env: Variables of its environment.
        url: The address; empty for a program.
        headers: Headers of each request to the address.
        disabled: Whether chats do not use it.
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    name: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,32}$")]
    type: Literal["stdio", "http", "streamable-http"] | None = None
    command: _Text = ""
    args: Annotated[list[_Text], Field(repr=False)] = []
    env: Annotated[dict[str, _Text], Field(repr=False)] = {}
    url: Annotated[_Text, Field(repr=False)] = ""
    headers: Annotated[dict[str, _Text], Field(repr=False)] = {}
    disabled: bool = False

    @model_validator(mode="after")
    def _check(self) -> ServerConfig:
        if bool(self.command) == bool(self.url):
            raise PydanticCustomError("no_place", "it needs either `command` or `url`")
        try:
            is_address = urlsplit(self.url).scheme in ("", "http", "https")
        except ValueError:
            is_address = False
        if not is_address:
            raise PydanticCustomError("no_address", "its `url` is no address")
        return self

    @property
    def place(self) -> str:
        """The name of the program, or the host of the address; without arguments, which may be secret."""
        return Path(self.command).name or urlsplit(self.url).hostname or ""


class _File(BaseModel):
    servers: Annotated[dict[str, dict[str, Any]], Field(alias="mcpServers")]


class ServerStatus(TypedDict):
    """A server of the user's, without its arguments, variables and headers.

    Attributes:
        name: Its name.
        place: The program, or the host of the address; empty for an entry with a problem.
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
    """The servers of the user who runs the server. The file is read when it is needed.

    Attributes:
        folder: The folder of the file; None for no servers.
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
        found, _ = await asyncio.to_thread(self._read, user)
        servers = [each for each in found.values() if isinstance(each, ServerConfig)]
        return tuple(each for each in servers if not each.disabled)

    async def info(self, user: str) -> ServersInfo:
        """Return a user's servers for the screen, without secrets."""
        found, problem = await asyncio.to_thread(self._read, user)
        is_owner = self.folder is not None and user in self.owners
        return {
            "allowed": is_owner and self.allowed,
            "file": str(self.folder / FILE) if self.folder is not None and is_owner else "",
            "problem": problem,
            "servers": [_status(name, server) for name, server in found.items()],
        }

    def _read(self, user: str) -> tuple[dict[str, ServerConfig | str], str]:
        """Return a user's servers by name, and what is wrong with the file.

        Of an entry that cannot be used, it returns why, without its values.
        """
        if self.folder is None or user not in self.owners or not self.allowed:
            return {}, ""
        try:
            text = read_private(self.folder / FILE, refused_bits=0o022)
            entries = {} if text is None else _File.model_validate_json(text).servers
        except PrivateFileError as error:
            return {}, error.message
        except ValidationError:
            return {}, "It is no JSON object with objects in `mcpServers`."
        return {name: self._server(name, entry) for name, entry in entries.items()}, ""

    def _server(self, name: str, entry: dict[str, Any]) -> ServerConfig | str:
        try:
            return ServerConfig.model_validate({**entry, "name": name}, context=self.environment)
        except ValidationError as error:
            problems = [
                ": ".join([*filter(None, [".".join(map(str, each["loc"]))]), each["msg"]])
                for each in error.errors()
            ]
            return "; ".join(problems)


def _status(name: str, server: ServerConfig | str) -> ServerStatus:
    if isinstance(server, str):
        return {"name": name, "place": "", "enabled": False, "problem": server}
    return {"name": name, "place": server.place, "enabled": not server.disabled, "problem": ""}
