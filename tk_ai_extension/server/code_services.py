"""Construction of the code assistant in a Jupyter Server; imported at the first request for code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tk_ai_extension.agent.claude.direct import DirectModels
from tk_ai_extension.agent.code_assistant import CodeAssistant
from tk_ai_extension.agent.variable_names import VariableNames

if TYPE_CHECKING:
    from tk_ai_extension.server.components import ServerComponents


def build_code_assistant(components: ServerComponents, user: str) -> CodeAssistant:
    """Build the code assistant.

    Args:
        components: The server's components.
        user: The user who runs the server.
    """
    from tk_ai_extension.server.agents import AgentModels

    models = components.models
    if not isinstance(models, AgentModels):
        raise TypeError("Expected the models of Claude.")
    direct = DirectModels(models.claude.provider)
    return CodeAssistant(direct, VariableNames(components.workspace, user))
