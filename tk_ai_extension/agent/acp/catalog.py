"""The agents of a server that speak the Agent Client Protocol, by their names in the list of models."""

from __future__ import annotations

from tk_ai_extension.agent.acp.backend import AcpBackend, AcpConfig
from tk_ai_extension.agent.acp.commands import AgentCommands
from tk_ai_extension.agent.acp.tool_socket import ToolSocket


class AcpAgents:
    """Implementation of `chat.AgentCatalog`.

    A model of the list is an agent's name, or ``name:model`` with one of the agent's own models.

    Args:
        commands: The agents that may be offered.
        config: Settings of the agents.
    """

    def __init__(self, commands: AgentCommands, config: AcpConfig) -> None:
        self._commands = commands
        self._config = config
        self._socket = ToolSocket()
        self._backends: dict[str, AcpBackend] = {}

    def get(self, model: str) -> AcpBackend | None:
        """Return the agent of a model."""
        name = model.partition(":")[0]
        command = self._commands.get(name)
        if command is None:
            return None
        if name not in self._backends:
            self._backends[name] = AcpBackend(command, self._config, self._socket)
        return self._backends[name]

    def owner(self, session: str) -> AcpBackend | None:
        """Return the agent that a session belongs to."""
        kind, _, rest = session.partition(":")
        return self.get(rest) if kind == "acp" else None
