"""Agents with the Agent Client Protocol as `AgentBackend`: one process per chat.

A process gets the variables that its agent needs and no others of the server's environment. It
works in an empty folder: settings in a project's folder may name programs that it would start.
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path

from tk_ai_extension.agent.acp.commands import AgentCommand, AgentCommands, has_protocol
from tk_ai_extension.agent.acp.process import AgentProcess
from tk_ai_extension.agent.backend import AgentSession, SessionConfig
from tk_ai_extension.agent.environment import redacted, secrets_of
from tk_ai_extension.agent.process import gc_paused, make_work_folder
from tk_ai_extension.model.agent_errors import AgentUnavailable
from tk_ai_extension.model.errors import ToolError

MAX_READ = 1 << 20
"""Size of the buffer of an agent's output, in bytes."""


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
        environment: The environment of the server.
    """

    folder: Path
    project: Path | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)


class AcpBackend:
    """One agent as an `AgentBackend`.

    Args:
        command: How it is started.
        config: Settings of the agents.
    """

    def __init__(self, command: AgentCommand, config: AcpConfig) -> None:
        self.name = command.title
        self._command = command
        self._config = config

    async def provider(self) -> AcpProvider:
        """Return the agent's name as its model."""
        return AcpProvider(self._command.name, (self._command.name,))

    async def start(self, config: SessionConfig) -> AgentSession:
        """Start a process and open its session."""
        program, folder = await asyncio.to_thread(self._prepare)
        # With the package of the protocol, which is optional and takes long to import.
        from tk_ai_extension.agent.acp.session import AcpSession

        environment = self._command.process_environment(self._config.environment)
        redact = partial(redacted, secrets=secrets_of(environment))
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *self._command.command[1:],
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                limit=MAX_READ,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            raise self._command.unavailable(
                f"{self.name} cannot be started: {error.strerror}."
            ) from error
        is_own = self._config.project is None
        running = AgentProcess(process, redact)
        session = AcpSession(running, self._command, config, folder, is_own=is_own)
        try:
            await session.open(environment)
        except BaseException as error:
            await session.close()
            if isinstance(error, ToolError) or not isinstance(error, Exception):
                raise
            # Not chained: an answer of another form than the protocol's may hold secrets.
            what = type(error).__name__
            raise self._command.unavailable(f"{self.name} cannot be started: {what}.") from None
        return session

    async def forget(self, session: str) -> None:
        """Do nothing: the protocol has no request for it that agents support."""

    def _prepare(self) -> tuple[str, Path]:
        """Return the agent's program and its working directory, with the protocol imported.

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
        with gc_paused():
            import_module("tk_ai_extension.agent.acp.session")
        folder = make_work_folder(self._config.folder, self._command.name)
        return program, self._config.project or folder


class AcpAgents:
    """The agents of a server, by their names in the list of models.

    A model of the list is an agent's name, or ``name:model`` with one of the agent's own models.

    Args:
        commands: The agents that may be offered.
        config: Settings of the agents.
    """

    def __init__(self, commands: AgentCommands, config: AcpConfig) -> None:
        self._commands = commands
        self._config = config
        self._backends: dict[str, AcpBackend] = {}

    def get(self, model: str) -> AcpBackend | None:
        """Return the agent of a model."""
        name = model.partition(":")[0]
        command = self._commands.get(name)
        if command is None:
            return None
        return self._backends.setdefault(name, AcpBackend(command, self._config))

    def owner(self, session: str) -> AcpBackend | None:
        """Return the agent that a session belongs to."""
        kind, _, rest = session.partition(":")
        return self.get(rest) if kind == "acp" else None
