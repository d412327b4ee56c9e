"""Agents of the Agent Client Protocol: the known and configured ones, and an `AgentBackend` for each.

There is one process per chat. It gets the variables that its agent needs and no others of the server's
environment. It works in an empty folder: settings in a project's folder may name programs that it starts.
"""

from __future__ import annotations

import asyncio
import os
import tomllib
from asyncio.subprocess import PIPE
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tk_ai_extension.agent.launch_settings import (
    AgentSpec,
    ModelProvider,
    gc_paused,
    make_work_folder,
    redacted,
    secrets_of,
)
from tk_ai_extension.model.agent_errors import AgentUnavailable
from tk_ai_extension.model.errors import InvalidArguments, ToolError

if TYPE_CHECKING:
    from tk_ai_extension.agent.backend import AgentSession, SessionConfig

KNOWN = Path(__file__).with_name("agents.toml")
"""The agents that are found without configuration."""

MAX_READ = 1 << 20
"""Size of the buffer of an agent's output, in bytes."""


def configured(agents: Mapping[str, Any]) -> dict[str, AgentSpec | None]:
    """Return the agents of the setting ``acp_agents``.

    Args:
        agents: By name, a command (a list of words), an object with ``command`` and optionally
            the other attributes of `AgentSpec`, or None to hide a known agent.

    Raises:
        InvalidArguments: An entry is malformed.
    """
    # Imported late: the start of a server does not need it.
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(AgentSpec)
    found: dict[str, AgentSpec | None] = {}
    for name, said in agents.items():
        given = said if isinstance(said, Mapping) else {"command": said}
        try:
            entry = {"title": name, **given, "name": name}
            found[name] = None if said is None else adapter.validate_python(entry)
        except ValidationError:
            raise InvalidArguments(
                f"Invalid entry `{name}` of TkAIExtensionApp.acp_agents.",
                hint="Give a list of words, or an object with command, title, variables, environment, "
                "logins; a name has no colon.",
            ) from None
    return found


def known_agents(agents: Mapping[str, Any]) -> dict[str, AgentSpec]:
    """Return the agents that may be offered, by name: the known ones and the configured ones.

    Args:
        agents: The setting ``acp_agents``; see `configured`.

    Raises:
        InvalidArguments: The setting is invalid.
    """
    known = tomllib.loads(KNOWN.read_text(encoding="utf-8"))
    found = configured(known) | configured(agents)
    return {name: agent for name, agent in found.items() if agent is not None}


def installed(agents: Iterable[AgentSpec]) -> dict[str, str]:
    """Return the display names of those agents that are installed, by name. Searches PATH, so it blocks."""
    if not has_protocol():
        return {}
    return {agent.name: agent.title for agent in agents if agent.program is not None}


def has_protocol() -> bool:
    """Whether the package of the protocol (the extra ``acp``) is installed."""
    return find_spec("acp") is not None


@dataclass(frozen=True, eq=False)
class AcpBackend:
    """One agent as an `AgentBackend`.

    Attributes:
        command: How the agent is started.
        folder: Folder for the agents' working directories; created with mode 0700.
        environment: The environment of the server.
    """

    command: AgentSpec
    folder: Path
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
        # Imported late: the protocol's package is optional and slow to import.
        from tk_ai_extension.agent.acp.session import AcpSession, AgentProcess

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
        session = AcpSession(running, self.command, config, folder)
        try:
            await session.open(environment)
        except BaseException as error:
            await session.close()
            if isinstance(error, ToolError) or not isinstance(error, Exception):
                raise
            # Not chained: a malformed answer may hold secrets.
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
        return program, make_work_folder(self.folder, self.command.name)
