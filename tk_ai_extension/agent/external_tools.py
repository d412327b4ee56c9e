"""Tools of the user's MCP servers in one chat.

The extension calls the servers itself and offers their tools beside its own, so that a call is checked
where it is made, whatever agent makes it, and no agent gets the variables of a server.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import mcp_types as types

from tk_ai_extension.agent.closing import Closing
from tk_ai_extension.agent.server_connection import ServerConnection
from tk_ai_extension.agent.user_servers import ServerConfig, ServerTool, UserServers
from tk_ai_extension.model.agent_errors import ServerFailed
from tk_ai_extension.model.encoding import encodable, encodable_text
from tk_ai_extension.model.errors import PermissionDenied, PermissionRequired, UnknownTool
from tk_ai_extension.model.private_files import make_private
from tk_ai_extension.tools.context import Image, Result, ToolContext
from tk_ai_extension.tools.registry import argument_proposal
from tk_ai_extension.workspace.permission_requests import Effect

RETRY = 60.0
"""Minimum time between two starts of a server that does not start, in one chat, in seconds."""
RETRY_WAIT = 2.0
"""How long a message waits for such servers, in seconds; a later one gets those that take longer."""
MAX_NAME = 50
"""Maximum length of a tool's name: with a prefix, models accept 64 characters."""
MAX_TEXT = 100_000
"""Maximum length of a result, in characters."""
MAX_DESCRIPTION = 8_000
"""Maximum length of a description, in characters."""
MAX_IMAGES = 10
"""Maximum number of images of a result."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class ExternalTool:
    """A tool of a server.

    Attributes:
        name: Its name in the chat: the server's, two underscores, the tool's.
        tool: The server's description of it.
        server: The server.
        effect: READ if the server says that it only reads, else WRITE. Calls of either need approval;
            see `PermissionPolicy.decision`.
    """

    name: str
    tool: types.Tool
    server: ServerConnection
    effect: Effect

    @property
    def reference(self) -> str:
        """What the name stands for: another server or tool may get it when the servers change."""
        exact = json.dumps([astuple(self.server.config), self.tool.name])
        return hashlib.blake2b(exact.encode(), digest_size=16).hexdigest()

    @property
    def described(self) -> types.Tool:
        """The description for the agent."""
        return types.Tool(
            name=self.name,
            description=(self.tool.description or "")[:MAX_DESCRIPTION],
            input_schema=self.tool.input_schema,
            annotations=types.ToolAnnotations(read_only_hint=self.effect == "READ"),
        )


class ExternalResult(Result):
    """The result of a call."""

    text: str
    failed: bool = False

    def as_text(self) -> str:
        """Return the text."""
        return self.text

    @property
    def is_error(self) -> bool:
        """Whether the server says that the call failed."""
        return self.failed


class ExternalTools:
    """The MCP servers of one chat, and the tools of those that have started.

    Args:
        servers: Records how they have started.
        configs: The servers.
        folder: The working directory of their programs, which is empty.
    """

    def __init__(
        self,
        servers: UserServers | None = None,
        configs: Sequence[ServerConfig] = (),
        folder: Path = Path("/nonexistent"),
    ) -> None:
        self.configs = tuple(configs)
        self._servers = servers or UserServers()
        self._folder = folder
        self._connections: dict[ServerConfig, ServerConnection] = {}
        # What those that have started offer, and why others did not start.
        self._offered: dict[ServerConfig, Sequence[types.Tool]] = {}
        self._failed = {each: each.problem for each in configs if each.problem}
        self._retry_at: dict[ServerConfig, float] = {}
        self._tools: dict[str, ExternalTool] = {}
        self._closing = Closing()

    @classmethod
    async def start(
        cls, servers: UserServers, configs: Sequence[ServerConfig], folder: Path
    ) -> ExternalTools:
        """Start servers at once. One that does not start does not keep the others from it."""
        tools = cls(servers, configs, folder)
        try:
            await tools.renew()
        except asyncio.CancelledError:
            await tools.close()
            raise
        return tools

    @property
    def failures(self) -> list[tuple[str, str]]:
        """The name of each server that did not start, and why, without secrets."""
        return [(each.name, why) for each, why in self._failed.items()]

    async def renew(self) -> bool:
        """Start servers that have ended, and after `RETRY` those that did not start.

        The next call goes on with starts that a cancelled one has begun.

        Returns:
            Whether the tools are the same as before.
        """
        ended = [each for each in self._connections.values() if not (each.starting or each.alive)]
        for each in ended:
            del self._connections[each.config]
            self._offered.pop(each.config, None)
        await self._closing.close(*ended)
        if due := [each for each in self.configs if self._is_due(each)]:
            await self._connect(due)
        # Also of starts that a cancelled call has begun.
        before, self._tools = self.described, {}
        for config in filter(self._offered.get, self.configs):
            for tool in self._offered[config]:
                name = _name(config.name, tool.name, self._tools)
                effect: Effect = "READ" if _reads(tool) else "WRITE"
                self._tools[name] = ExternalTool(name, tool, self._connections[config], effect)
        return self.described == before

    @property
    def described(self) -> list[types.Tool]:
        """The descriptions for the agent."""
        return [each.described for each in self._tools.values()]

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def get(self, name: str) -> ExternalTool:
        """Return the tool of that name.

        Raises:
            UnknownTool: There is none.
        """
        try:
            return self._tools[name]
        except KeyError:
            raise UnknownTool(f"Unknown tool `{name}`.") from None

    async def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> Result:
        """Check the permission, asking the person if need be, and call a tool.

        Raises:
            PermissionDenied: The mode forbids it, or the person denied it.
            ServerFailed: The server does not answer.
            UnknownTool: There is no such tool.
        """
        tool = self.get(name)
        given: dict[str, Any] = encodable(dict(arguments))
        await self._permit(tool, given, context)
        return _result(await tool.server.call(tool.tool.name, given))

    async def close(self) -> None:
        """End the servers."""
        await self._closing.close(*self._connections.values())

    def _is_due(self, config: ServerConfig) -> bool:
        """Whether a server does not run and is to be started, or is being started."""
        if config.problem or config in self._offered:
            return False
        if config in self._connections or config not in self._failed:
            return True
        return asyncio.get_running_loop().time() >= self._retry_at[config]

    async def _connect(self, configs: Sequence[ServerConfig]) -> None:
        why = await asyncio.to_thread(_make_folder, self._folder, configs)
        now = asyncio.get_running_loop().time()
        for config in configs:
            if config in self._connections:
                continue
            self._retry_at[config] = now + RETRY
            if why and config.command:
                self._fail(config, why)
            else:
                self._connections[config] = ServerConnection(config, self._folder)
        for config in configs:
            if config not in self._connections:
                continue
            try:
                async with asyncio.timeout_at(now + RETRY_WAIT if config in self._failed else None):
                    tools = await self._connections[config].tools()
            except TimeoutError:
                continue
            except ServerFailed as failed:
                del self._connections[config]
                self._fail(config, str(failed.message))
                continue
            self._failed.pop(config, None)
            self._offered[config] = tools
            shown: list[ServerTool] = [
                {"name": each.name[:80], "reads": _reads(each)} for each in tools
            ]
            self._servers.started(config, "", shown)

    def _fail(self, config: ServerConfig, why: str) -> None:
        self._failed[config] = why
        self._servers.started(config, why, [])

    async def _permit(
        self, tool: ExternalTool, arguments: Mapping[str, Any], context: ToolContext
    ) -> None:
        workspace, caller = context.workspace, context.caller
        title = f"Call {tool.tool.name} of the MCP server {tool.server.config.name}"
        proposal = replace(argument_proposal(title, arguments), reference=tool.reference)
        try:
            await workspace.policy.check(
                caller,
                tool.name,
                tool.effect,
                arguments=arguments,
                proposal=proposal,
                approver=context.approver,
                scope="tool",
            )
        except (PermissionDenied, PermissionRequired) as refusal:
            await workspace.journal.record(
                caller,
                "",
                tool.name,
                f"refused: {refusal.message}",
                kind="refused",
                state="failed",
                note=refusal.code,
            )
            raise
        if tool.effect != "READ":
            await workspace.journal.record(caller, "", tool.name, str(title), kind="run")


def _make_folder(folder: Path, configs: Sequence[ServerConfig]) -> str:
    """Create the working directory of programs, if there are any; return why it cannot be, or nothing."""
    try:
        if any(each.command for each in configs):
            make_private(folder)
    except OSError as error:
        return f"its working directory cannot be created: {error.strerror}"
    return ""


def _reads(tool: types.Tool) -> bool:
    return tool.annotations is not None and tool.annotations.read_only_hint is True


def _name(server: str, tool: str, taken: Container[str] = ()) -> str:
    """Return a name that models accept, different for each tool.

    >>> _name("files", "read.text")
    'files__read_text'
    >>> _name("files", "read_text", taken={"files__read_text"})
    'files__read_text_4a7a8bca'
    >>> len(_name("files", "x" * 100)) == MAX_NAME
    True
    """
    name = _UNSAFE.sub("_", f"{server}__{tool}")
    if len(name) <= MAX_NAME and name not in taken:
        return name
    digest = hashlib.blake2b(tool.encode(), digest_size=4).hexdigest()
    return f"{name[: MAX_NAME - 9]}_{digest}"


def _result(answer: types.CallToolResult) -> ExternalResult:
    texts: list[str] = []
    images: list[Image] = []
    for part in answer.content:
        match part:
            case types.TextContent():
                texts.append(part.text)
            case types.ImageContent(mime_type="image/png" | "image/jpeg") if (
                len(images) < MAX_IMAGES
            ):
                images.append(Image(part.data, part.mime_type))
            case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
                texts.append(f"{resource.uri}:\n{resource.text}")
            case types.ResourceLink():
                texts.append(f"[resource {part.uri}]")
            case _:
                texts.append(f"[{part.type} left out]")
    text = encodable_text("\n".join(texts))
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}\n[… {len(text) - MAX_TEXT:,} characters left out …]"
    result = ExternalResult(text=text, failed=bool(answer.is_error))
    result.with_images(tuple(images))
    return result
