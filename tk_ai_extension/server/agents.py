"""The source of the chats' models; `server.chat_services` starts the agent itself."""

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


def find_models(app: TkAIExtensionApp, root: Path) -> ClaudeModels:
    """Return the source of Claude's models, as configured by the app's traits."""
    settings = ProviderSettings(
        provider=cast("Any", app.chat_provider),
        base_url=app.chat_base_url,
        model=app.chat_model,
        models=tuple(app.chat_models),
        small=app.chat_small,
        secrets_file=app.chat_secrets,
        trust_folder=app.chat_trust_folder,
        connect=app.chat_connect,
        contact=app.chat_connect_contact,
    )
    return ClaudeModels(settings, environment, root)
