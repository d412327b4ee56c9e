"""How the chats are put together in a Jupyter Server; imported when the first one is asked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tk_ai_extension.agent.chats import Chats
from tk_ai_extension.agent.claude import Surroundings
from tk_ai_extension.agent.providers import ProviderSettings
from tk_ai_extension.agent.provision import Provision
from tk_ai_extension.agent.session import ChatSettings, Office
from tk_ai_extension.agent.transcripts import Transcripts
from tk_ai_extension.server.parts import Managers
from tk_ai_extension.server.wiring import root_of, state_of
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.workspace import Workspace


class Traits(Protocol):
    """What of the app's traits the chats go by; the app says what each is for."""

    data_dir: Any
    chat_provider: Any
    chat_base_url: Any
    chat_model: Any
    chat_models: Any
    chat_small: Any
    chat_secrets: Any
    chat_trust_folder: Any
    chat_cli: Any
    chat_retries: Any
    chat_request_timeout: Any
    chat_silence: Any
    chat_idle: Any
    max_chats: Any


@dataclass(frozen=True, slots=True)
class Chatting:
    """The chats of a server, and what says which model answers in them."""

    chats: Chats
    provision: Provision

    async def close(self) -> None:
        """Ends all chats, then what answered them."""
        await self.chats.close()
        await self.provision.close()


def wire_chats(
    app: Traits, managers: Managers, workspace: Workspace, registry: Registry
) -> Chatting:
    """Puts the chats together, as the app's traits say."""
    root = root_of(managers.contents)
    state = state_of(app.data_dir, root)
    provision = Provision(
        ProviderSettings(
            provider=app.chat_provider,
            base_url=app.chat_base_url,
            model=app.chat_model,
            models=tuple(app.chat_models),
            small=app.chat_small,
            secrets_file=app.chat_secrets,
            trust_folder=app.chat_trust_folder,
        ),
        lambda: os.environ,
        root or Path(),
    )
    office = Office(
        workspace=workspace,
        registry=registry,
        transcripts=Transcripts(state / "chats.sqlite"),
        surroundings=Surroundings(
            state / "claude",
            cli=app.chat_cli,
            retries=app.chat_retries,
            request_timeout=app.chat_request_timeout,
        ),
        provider=provision.provider,
        settings=ChatSettings(silence=app.chat_silence, idle=app.chat_idle, max_live=app.max_chats),
    )
    return Chatting(Chats(office), provision)
