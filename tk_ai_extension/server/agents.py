"""Where the chats' agent finds its model; the agent itself is started by `server.chat_services`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tk_ai_extension.agent.claude.models import ClaudeModels
from tk_ai_extension.agent.claude.providers import ProviderSettings
from tk_ai_extension.model.agent_variables import FOR_CHATS

if TYPE_CHECKING:
    from typing import Any

    from tk_ai_extension.server.app import TkAIExtensionApp


named_models: ContextVar[Mapping[str, str]] = ContextVar("models of a command", default={})  # noqa: B039
"""What the environment of the command that chats says of models: it counts before the server's own.

Commands chat at the same time: each message is sent in the context of its own.
"""


def environment() -> Mapping[str, str]:
    """Return the server's environment, with what a command's says of models.

    The command's takes the place of all that the server's says: a key of one does not go to an address
    of the other.
    """
    named = named_models.get()
    return {**{n: v for n, v in os.environ.items() if not (named and n in FOR_CHATS)}, **named}


def find_models(app: TkAIExtensionApp, root: Path) -> ClaudeModels:
    """Return what finds Claude's model, as the app's traits say."""
    settings = ProviderSettings(
        provider=cast("Any", app.chat_provider),
        base_url=app.chat_base_url,
        model=app.chat_model,
        models=tuple(app.chat_models),
        small=app.chat_small,
        secrets_file=app.chat_secrets,
        trust_folder=app.chat_trust_folder,
    )
    return ClaudeModels(settings, environment, root)
