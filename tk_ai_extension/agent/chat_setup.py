"""Setup of a person's chats: the project's instructions, prompts in files, and MCP servers.

Prompts are commands and skills in the format of Claude Code. A prompt is text. It becomes the person's
message when they send ``/name arguments``. Nothing in it is executed: no field of the front matter grants or
runs anything, and lines that begin with ``!`` or name a file by ``@`` stay text.

The MCP servers are in ``mcp.json`` in this package's folder of the user's Jupyter configuration, in the
format that other clients have: ``{"mcpServers": {"name": {"command": …, "args": […], "env": {…}}}}``. No
file of a project is read: it would name programs that run as the user. The agent starts the servers and
asks for each call of their tools.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader
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

from tk_ai_extension.agent.chat_requests import MAX_MESSAGE
from tk_ai_extension.model.errors import FileMissing, LimitReached, ToolError
from tk_ai_extension.model.private_files import PrivateFileError, read_private
from tk_ai_extension.notebooks.notebook_files import open_regular
from tk_ai_extension.workspace.workspace import Workspace

PROJECT_FILES = ("AGENTS.md", "CLAUDE.md")
"""Names of files with a project's instructions; the first one found is used."""

FILE = "mcp.json"

MAX_FILE = 64_000
"""Maximum size of a prompt's file, in bytes; a longer one is not offered."""

Origin = Literal["user", "project"]
"""Where a prompt is stored: in the user's folder, or in the project."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_CALL = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_.:-]{0,300})(?:\s+(.*))?", re.DOTALL)
_FRONT_MATTER = re.compile(r"---[ \t]*\n((?:.*\n)*?)---[ \t]*(?:\n|\Z)")
_FIELD = re.compile(
    r"^([A-Za-z][A-Za-z0-9_-]*):[ \t]*(?:[|>]-?[ \t]*$)?(.*(?:\n[ \t]+.*)*)", re.MULTILINE
)
_PLACEHOLDER = re.compile(r"\$(?:ARGUMENTS|([1-9]))(?![A-Za-z0-9_])")


class PromptInfo(TypedDict):
    """A prompt, for a list of them.

    Attributes:
        name: What a person types after ``/``.
        description: What it is for; may be empty.
        hint: Its arguments; may be empty.
        origin: Where it is stored: in the user's folder, or in the project.
        path: The file, relative to the root or to the home folder.
    """

    name: str
    description: str
    hint: str
    origin: Origin
    path: str


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:(?!\$\{)[^}])*))?\}")


def _filled(text: str, info: ValidationInfo) -> str:
    """Replace the variables in a text by their values from the validation context."""
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


class McpServerConfig(BaseModel):
    """A server's entry in the file. Fields that other clients use are ignored.

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
    def _check(self) -> McpServerConfig:
        if bool(self.command) == bool(self.url):
            raise PydanticCustomError("no_place", "it needs either `command` or `url`")
        try:
            is_address = urlsplit(self.url).scheme in ("", "http", "https")
        except ValueError:
            is_address = False
        if not is_address:
            raise PydanticCustomError("no_address", "its `url` is not an address")
        return self

    @property
    def place(self) -> str:
        """The name of the program, or the host of the address; without arguments, which may be secret."""
        return Path(self.command).name or urlsplit(self.url).hostname or ""


class _File(BaseModel):
    servers: Annotated[dict[str, dict[str, Any]], Field(alias="mcpServers")]


class McpServerInfo(TypedDict):
    """A user's server, without its arguments, variables and headers.

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


class McpServerList(TypedDict):
    """The MCP servers of a user.

    Attributes:
        allowed: Whether chats may use servers here.
        file: The path of the file, for the user who runs the server; else empty.
        problem: Why the file cannot be used; empty if it can.
    """

    allowed: bool
    file: str
    problem: str
    servers: list[McpServerInfo]


async def find_instructions(workspace: Workspace) -> tuple[str | None, str]:
    """Return the name and the text of the file of the project's instructions, if there is one.

    Raises:
        ToolError: It cannot be read.
    """
    for name in PROJECT_FILES:
        with suppress(FileMissing):
            return name, await workspace.files.read_text(name)
    return None, ""


class ChatSetupInfo(TypedDict):
    """Setup of a user's chats.

    Attributes:
        instructions: The file of instructions below the root; None if there is none.
    """

    instructions: str | None
    prompts: list[PromptInfo]
    servers: McpServerList


@dataclass(frozen=True)
class ChatSetup:
    """Setup of a server's chats. Files are read when they are needed.

    Attributes:
        root: The root folder, with prompts in ``.claude``; None if there are no files.
        home: The home folder of the user who runs the server, with that user's prompts.
        folder: The folder of the file of MCP servers; None for no servers.
        owners: The names of that user; others get the project's prompts only, and no servers.
        allowed: Whether the administrator allows servers.
        environment: Variables for ``${NAME}`` in the file of MCP servers.
    """

    root: Path | None = None
    home: Path = field(default_factory=Path.home)
    folder: Path | None = None
    owners: frozenset[str] = frozenset()
    allowed: bool = True
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    async def info(self, workspace: Workspace, user: str) -> ChatSetupInfo:
        """Return the current setup of a user's chats, without secrets."""
        name = None
        with suppress(ToolError):
            name, _ = await find_instructions(workspace)
        return {
            "instructions": name,
            "prompts": await self.prompts(user),
            "servers": await self.servers_info(user),
        }

    async def prompts(self, user: str) -> list[PromptInfo]:
        """Return a user's prompts by name; the user's hide the project's of the same name."""
        return [info for info, _ in await asyncio.to_thread(self._prompts, user)]

    async def expand(self, user: str, text: str) -> str:
        """Return the text of a message: a prompt with its arguments, or the same text if it calls none.

        Raises:
            LimitReached: The message would be too long.
        """
        called = _CALL.fullmatch(text.strip())
        if called is None:
            return text
        prompts = await asyncio.to_thread(self._prompts, user)
        prompt = next((body for info, body in prompts if info["name"] == called[1]), "")
        message = with_arguments(prompt, (called[2] or "").strip()) if prompt else ""
        if len(message) > MAX_MESSAGE:
            raise LimitReached(
                f"With the prompt /{called[1]} the message has more than {MAX_MESSAGE} characters."
            )
        return message or text

    async def servers(self, user: str) -> tuple[McpServerConfig, ...]:
        """Return the MCP servers that a user's chats use."""
        found, _ = await asyncio.to_thread(self._servers, user)
        servers = [each for each in found.values() if isinstance(each, McpServerConfig)]
        return tuple(each for each in servers if not each.disabled)

    async def servers_info(self, user: str) -> McpServerList:
        """Return a user's MCP servers for the screen."""
        found, problem = await asyncio.to_thread(self._servers, user)
        is_owner = self.folder is not None and user in self.owners
        return {
            "allowed": is_owner and self.allowed,
            "file": str(self.folder / FILE) if self.folder is not None and is_owner else "",
            "problem": problem,
            "servers": [_status(name, server) for name, server in found.items()],
        }

    def _prompts(self, user: str) -> list[tuple[PromptInfo, str]]:
        found = _collect(self.root, "project") if self.root is not None else {}
        if user in self.owners:
            found |= _collect(self.home, "user")
        return [found[name] for name in sorted(found)]

    def _servers(self, user: str) -> tuple[dict[str, McpServerConfig | str], str]:
        """Return a user's servers by name, and the problem with the file.

        An entry that cannot be used is replaced by the reason, without its values.
        """
        if self.folder is None or user not in self.owners or not self.allowed:
            return {}, ""
        try:
            text = read_private(self.folder / FILE, refused_bits=0o022)
            entries = {} if text is None else _File.model_validate_json(text).servers
        except PrivateFileError as error:
            return {}, error.message
        except ValidationError:
            return {}, "It is not a JSON object with objects in `mcpServers`."
        return {name: self._server(name, entry) for name, entry in entries.items()}, ""

    def _server(self, name: str, entry: dict[str, Any]) -> McpServerConfig | str:
        try:
            return McpServerConfig.model_validate({**entry, "name": name}, context=self.environment)
        except ValidationError as error:
            problems = [
                ": ".join([*filter(None, [".".join(map(str, each["loc"]))]), each["msg"]])
                for each in error.errors()
            ]
            return "; ".join(problems)


def with_arguments(prompt: str, arguments: str) -> str:
    r"""Return the text of a prompt with its arguments.

    ``$ARGUMENTS`` stands for all arguments, ``$1`` to ``$9`` for one. Arguments without a place
    in the text follow it.

    >>> with_arguments("Compare $1 with $2.", "'a b' $1")
    'Compare a b with $1.'
    >>> with_arguments("Look.", "here")
    'Look.\n\nARGUMENTS: here'
    """
    try:
        words = shlex.split(arguments)
    except ValueError:
        # An apostrophe.
        words = arguments.split()

    def given(found: re.Match[str]) -> str:
        number = found[1]
        return arguments if number is None else "".join(words[int(number) - 1 : int(number)])

    text, places = _PLACEHOLDER.subn(given, prompt)
    if arguments and not places:
        text += f"\n\nARGUMENTS: {arguments}"
    return text.strip()


def _collect(base: Path, origin: Origin) -> dict[str, tuple[PromptInfo, str]]:
    """Return the prompts in the folder ``.claude`` of a folder, with their texts, by name.

    Links must not lead out of a project. The user's folders may be links.
    """
    found: dict[str, tuple[PromptInfo, str]] = {}
    for path, name in _files(base / ".claude"):
        real = Path(os.path.realpath(path))
        if origin == "project" and not real.is_relative_to(os.path.realpath(base)):
            continue
        fields, body = front_matter(_text(real))
        if not body.strip() or fields.get("user-invocable", "").lower() == "false":
            continue
        info: PromptInfo = {
            "name": name,
            "description": fields.get("description", ""),
            "hint": fields.get("argument-hint", ""),
            "origin": origin,
            "path": path.relative_to(base).as_posix(),
        }
        found.setdefault(name, (info, body))
    return found


def _files(base: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files of prompts, with the name of each (``folder:name`` below)."""
    commands, skills = base / "commands", base / "skills"
    for path in sorted(commands.rglob("*.md")):
        names = path.relative_to(commands).with_suffix("").parts
        if all(map(_NAME.fullmatch, names)):
            yield path, ":".join(names)
    for path in sorted(skills.glob("*/SKILL.md")):
        if _NAME.fullmatch(path.parent.name):
            yield path, path.parent.name


def _text(path: Path) -> str:
    """Return the text of a regular file; empty if it is not one, its path has a link, or it is too large."""
    try:
        with BufferedReader(open_regular(path)) as file:
            data = file.read(MAX_FILE + 1)
        return "" if len(data) > MAX_FILE else data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def front_matter(text: str) -> tuple[Mapping[str, str], str]:
    r"""Return the fields of a front matter, and the text after it.

    Only fields with a text are read. It is not parsed as YAML: people write hints such as
    ``[file] [line]``, which are invalid there.

    >>> front_matter("---\ndescription: 'Sums'\nargument-hint: [a] [b]\n---\nAdd $1 and $2.")
    ({'description': 'Sums', 'argument-hint': '[a] [b]'}, 'Add $1 and $2.')
    """
    text = "\n".join(text.splitlines())
    found = _FRONT_MATTER.match(text)
    if found is None:
        return {}, text
    fields = {
        each[1].lower(): " ".join(each[2].split()).strip("'\"")
        for each in _FIELD.finditer(found[1])
    }
    return fields, text[found.end() :]


def _status(name: str, server: McpServerConfig | str) -> McpServerInfo:
    if isinstance(server, str):
        return {"name": name, "place": "", "enabled": False, "problem": server}
    return {"name": name, "place": server.place, "enabled": not server.disabled, "problem": ""}
