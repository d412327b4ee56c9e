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

from tk_ai_extension.agent.acp.commands import AgentCommand, has_protocol
from tk_ai_extension.agent.backend import AgentSession, SessionConfig
from tk_ai_extension.agent.models import ModelProvider
from tk_ai_extension.agent.process import gc_paused, make_work_folder, redacted, secrets_of
from tk_ai_extension.model.agent_errors import AgentUnavailable
from tk_ai_extension.model.errors import ToolError

MAX_READ = 1 << 20
"""Size of the buffer of an agent's output, in bytes."""


@dataclass(frozen=True, eq=False)
class AcpBackend:
    """One agent as an `AgentBackend`.

    Attributes:
        command: How it is started.
        folder: Folder for the agents' working directories; created with mode 0700.
        project: The folder that it works in instead, with its settings; None for none.
        environment: The environment of the server.
    """

    command: AgentCommand
    folder: Path
    project: Path | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    @property
    def name(self) -> str:
        """Display name."""
        return self.command.title

    async def provider(self) -> ModelProvider:
        """Return the agent's name as its model: it chooses and configures models by itself."""
        return ModelProvider(self.command.name, (self.command.name,))

    async def start(self, config: SessionConfig) -> AgentSession:
        """Start a process and open its session."""
        program, folder = await asyncio.to_thread(self._prepare)
        # With the package of the protocol, which is optional and takes long to import.
        from tk_ai_extension.agent.acp.process import AgentProcess
        from tk_ai_extension.agent.acp.session import AcpSession

        environment = self.command.process_environment(self.environment)
        redact = partial(redacted, secrets=secrets_of(environment))
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *self.command.command[1:],
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                limit=MAX_READ,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            raise self.command.unavailable(
                f"{self.name} cannot be started: {error.strerror}."
            ) from error
        running = AgentProcess(process, redact)
        session = AcpSession(running, self.command, config, folder, is_own=self.project is None)
        try:
            await session.open(environment)
        except BaseException as error:
            await session.close()
            if isinstance(error, ToolError) or not isinstance(error, Exception):
                raise
            # Not chained: an answer of another form than the protocol's may hold secrets.
            what = type(error).__name__
            raise self.command.unavailable(f"{self.name} cannot be started: {what}.") from None
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
        program = self.command.program
        if program is None:
            raise AgentUnavailable(
                f"`{self.command.command[0]}` was not found.", hint=f"Install {self.name}."
            )
        with gc_paused():
            import_module("tk_ai_extension.agent.acp.session")
        folder = make_work_folder(self.folder, self.command.name)
        return program, self.project or folder
