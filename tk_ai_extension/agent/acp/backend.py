"""An agent with the Agent Client Protocol as an `AgentBackend`: one process per chat.

The process gets the variables that its agent needs and no others of the server's environment. It
works in an empty folder: settings in a project's folder may name programs that it would start.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tk_ai_extension.agent.acp.commands import AgentCommand, has_protocol
from tk_ai_extension.agent.acp.errors import redacting
from tk_ai_extension.agent.acp.opening import Opening
from tk_ai_extension.agent.acp.paths import AgentFolder
from tk_ai_extension.agent.acp.process import AgentProcess
from tk_ai_extension.agent.acp.session import AcpSession
from tk_ai_extension.agent.backend import SessionConfig
from tk_ai_extension.agent.environment import redacted, secrets_of
from tk_ai_extension.agent.process import gc_paused, make_work_folder
from tk_ai_extension.model.agent_errors import AgentUnavailable

if TYPE_CHECKING:
    from tk_ai_extension.agent.acp.tool_socket import ToolSocket

START = 60.0
"""Timeout for each request at the start, in seconds."""


@dataclass(frozen=True, slots=True)
class AcpProvider:
    """The model of an agent, which the agent chooses and configures by itself.

    Attributes:
        model: The agent's name in the list of models.
        models: The same; a model of the agent's own follows after a colon.
    """

    model: str
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AcpConfig:
    """Settings of the agents of a server.

    Attributes:
        folder: Folder for the agents' working directories; created with mode 0700.
        project: The folder that agents work in instead, with its settings; None for none.
        environment: Returns the current environment of the server, or of the command.
        start: Timeout for each request at the start, in seconds.
    """

    folder: Path
    project: Path | None = None
    environment: Callable[[], Mapping[str, str]] = lambda: os.environ
    start: float = START


class AcpBackend:
    """One agent as an `AgentBackend`.

    Args:
        command: How it is started.
        config: Settings of the agents.
        socket: The socket over which agents call the tools.
    """

    def __init__(self, command: AgentCommand, config: AcpConfig, socket: ToolSocket) -> None:
        self.name = command.title
        self._command = command
        self._config = config
        self._socket = socket
        self._prefix = f"acp:{command.name}:"

    async def provider(self) -> AcpProvider:
        """Return the agent's name as its model."""
        return AcpProvider(self._command.name, (self._command.name,))

    async def start(self, config: SessionConfig) -> AcpSession:
        """Start a process and open its session."""
        environment = self._command.process_environment(self._config.environment())
        if self._config.project is None:
            environment |= self._command.in_own_folder
        redact = partial(redacted, secrets=secrets_of(environment))

        def unforeseen(why: str) -> AgentUnavailable:
            return self._command.unavailable(f"{self.name} cannot be started: {why}.")

        with redacting(redact, unforeseen):
            return await self._opened(config, environment, redact)

    async def _opened(
        self, config: SessionConfig, environment: Mapping[str, str], redact: Callable[[str], str]
    ) -> AcpSession:
        program, folder = await asyncio.to_thread(self._prepare)
        command = [program, *self._command.command[1:]]
        try:
            process = await AgentProcess.start(command, environment, folder, redact)
        except OSError as error:
            raise self._command.unavailable(
                f"{self.name} cannot be started: {error.strerror}."
            ) from error
        async with AsyncExitStack() as started:
            started.push_async_callback(process.close)
            started.push_async_callback(process.end)
            place = AgentFolder(folder, own=self._config.project is None)
            session = _Session(process, config, self.name, redact, place, socket=self._socket)
            started.push_async_callback(session.close)
            opening = Opening(
                session,
                self._command,
                config,
                environment=environment,
                timeout=self._config.start,
            )
            await opening.run(folder, self._prefix, self._socket)
            started.pop_all()
        return session

    async def forget(self, session: str) -> None:
        """Do nothing: the protocol has no request for it that agents support."""

    def check(self) -> str:
        """Return the agent's program.

        Raises:
            AgentUnavailable: The agent, or the package of the protocol, is not installed.
        """
        if not has_protocol():
            raise AgentUnavailable(
                "The package agent-client-protocol is not installed.",
                hint="Install it: pip install 'tk-ai-extension[acp]'.",
            )
        program = self._command.program
        if program is None:
            raise AgentUnavailable(
                f"`{self._command.command[0]}` was not found.", hint=f"Install {self.name}."
            )
        return program

    def _prepare(self) -> tuple[str, Path]:
        """Return the agent's program and its working directory, with the protocol imported."""
        program = self.check()
        with gc_paused():
            import_module("acp.schema")
            import_module("acp.connection")
        return program, self._folder()

    def _folder(self) -> Path:
        folder = make_work_folder(self._config.folder, self._command.name)
        return self._config.project or folder


class _Session(AcpSession):
    """A session that ends its access to the tools with it."""

    def __init__(self, *args: Any, socket: ToolSocket) -> None:
        super().__init__(*args)
        self.socket = socket

    async def close(self) -> None:
        """End the agent with all its processes."""
        await super().close()
        if self.access is not None:
            await self.socket.close(self.access)
