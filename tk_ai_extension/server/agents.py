"""The source of the chats' models and agents; `server.chat_services` starts the agents themselves."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tk_ai_extension.agent.acp.commands import AgentCommands
from tk_ai_extension.agent.claude.models import ClaudeModels
from tk_ai_extension.agent.claude.providers import ProviderSettings
from tk_ai_extension.model.agent_variables import FOR_CHATS

if TYPE_CHECKING:
    from tk_ai_extension.agent.models import ConnectionInfo, ModelsInfo, NewConnection
    from tk_ai_extension.server.settings import ExtensionSettings


named_models: ContextVar[Mapping[str, str]] = ContextVar("models of a command", default={})  # noqa: B039
"""Variables of a command's environment that concern models; they override the server's.

A context variable, since several commands can chat at the same time.
"""


def environment() -> Mapping[str, str]:
    """Return the server's environment with a command's variables for models.

    A command's variables replace all of the server's for models: a key of one must not be sent to an
    address of the other.
    """
    named = named_models.get()
    return {**{n: v for n, v in os.environ.items() if not (named and n in FOR_CHATS)}, **named}


class AgentModels:
    """Claude's models, with the names of further agents after Claude's models.

    Args:
        claude: The source of Claude's models.
        agents: The setting ``acp_agents``.
    """

    def __init__(self, claude: ClaudeModels, agents: Mapping[str, Any]) -> None:
        self.claude = claude
        self._agents = agents

    @cached_property
    def commands(self) -> AgentCommands:
        """The further agents; looks up entry points, so it blocks."""
        return AgentCommands(self._agents)

    def _installed(self) -> dict[str, str]:
        return {agent.name: agent.title for agent in self.commands.installed()}

    async def health(self) -> ModelsInfo:
        """Return what is configured and what is missing, and the installed agents."""
        return await self._with_agents(await self.claude.health())

    async def connection(self) -> ConnectionInfo:
        """Return the state of the connection, without its secret."""
        return await self._connected(await self.claude.connection())

    async def connect(self, new: NewConnection) -> ConnectionInfo:
        """Test a connection with one request, then store it; return the new state."""
        return await self._connected(await self.claude.connect(new))

    async def disconnect(self) -> ConnectionInfo:
        """Delete the stored connection and its secret; return the new state."""
        return await self._connected(await self.claude.disconnect())

    async def _connected(self, info: ConnectionInfo) -> ConnectionInfo:
        return {**info, "models": await self._with_agents(info["models"])}

    async def _with_agents(self, info: ModelsInfo) -> ModelsInfo:
        agents = await asyncio.to_thread(self._installed)
        names = [name for name in agents if name not in info["models"]]
        return {**info, "models": [*info["models"], *names], "agents": agents}


def find_models(app: ExtensionSettings, root: Path) -> AgentModels:
    """Return the source of models, as configured by the app's traits."""
    settings = ProviderSettings(
        provider=cast("Any", app.chat_provider),
        base_url=app.chat_base_url,
        model=app.chat_model,
        models=tuple(app.chat_models),
        small=app.chat_small,
        secrets_file=app.chat_secrets,
        connect=app.chat_connect,
        contact=app.chat_connect_contact,
    )
    return AgentModels(ClaudeModels(settings, environment, root), app.acp_agents)
