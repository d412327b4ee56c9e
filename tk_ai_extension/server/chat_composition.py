"""Construction of the chats in a Jupyter Server; imported at the first request for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tk_ai_extension.agent.acp.backend import AcpBackend
from tk_ai_extension.agent.chat_setup import ChatSetup
from tk_ai_extension.agent.chat_store import ChatStore
from tk_ai_extension.agent.chats import Chats
from tk_ai_extension.agent.claude.backend import ClaudeBackend
from tk_ai_extension.agent.claude.user_connection import user_folder
from tk_ai_extension.agent.live_chat import ChatLimits, ChatServices
from tk_ai_extension.server.composition import root_of, state_of
from tk_ai_extension.server.handlers.base_handler import owner_name
from tk_ai_extension.server.services import CHATS, JupyterManagers, ServerComponents
from tk_ai_extension.tools.registry import Registry

if TYPE_CHECKING:
    from tk_ai_extension.server.settings import ExtensionSettings


def build_chats(
    app: ExtensionSettings,
    managers: JupyterManagers,
    components: ServerComponents,
    registry: Registry,
    owner: str,
) -> Chats:
    """Build the chats, as configured by the app's traits."""
    root, models = root_of(managers.contents), components.models
    state = state_of(app.data_dir, root)
    owners = frozenset({owner_name(managers.server.identity_provider, owner)})
    services = ChatServices(
        workspace=components.workspace,
        registry=registry,
        store=ChatStore(state / CHATS),
        backend=ClaudeBackend(state / "claude", models.claude.provider, app.chat_cli),
        settings=ChatLimits(silence=app.chat_silence, idle=app.chat_idle, max_live=app.max_chats),
        agents={
            name: AcpBackend(command, state / "acp") for name, command in models.commands.items()
        },
        setup=ChatSetup(root, folder=user_folder(), owners=owners, allowed=app.chat_mcp_servers),
    )
    return Chats(services)
