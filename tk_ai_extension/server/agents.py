"""The source of the chats' models and agents; `server.chat_services` starts the agents themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tk_ai_extension.agent.acp.commands import AgentCommands
from tk_ai_extension.agent.claude.models import ClaudeModels
from tk_ai_extension.agent.claude.providers import ProviderSettings

if TYPE_CHECKING:
    from tk_ai_extension.agent.models import ConnectionInfo, ModelsInfo
    from tk_ai_extension.server.settings import ExtensionSettings


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

    async def described(self, info: ConnectionInfo) -> ConnectionInfo:
        """Return the state of Claude's connection with the installed agents."""
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
    return AgentModels(ClaudeModels(settings, root), app.acp_agents)
