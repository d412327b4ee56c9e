"""What a user's chats are set up with: the project's instructions, prompts and MCP servers."""

from __future__ import annotations

from dataclasses import dataclass, field

from typing_extensions import TypedDict

from tk_ai_extension.agent.context import PROJECT, PROJECT_FILES, find_instructions
from tk_ai_extension.agent.prompts import PromptFolders, PromptInfo
from tk_ai_extension.agent.user_servers import ServersInfo, UserServers
from tk_ai_extension.workspace.workspace import Workspace


class InstructionsInfo(TypedDict):
    """The file of instructions that a chat reads when its agent starts.

    Attributes:
        path: The file below the root.
        characters: Its length.
        limit: The length that is read, in characters; the middle of a longer one is left out.
    """

    path: str
    characters: int
    limit: int


class ChatSetupInfo(TypedDict):
    """What a user's chats are set up with.

    Attributes:
        instructions: The file of instructions; None if there is none.
        names: The names that it may have, the first one first.
    """

    instructions: InstructionsInfo | None
    names: list[str]
    prompts: list[PromptInfo]
    servers: ServersInfo


@dataclass(frozen=True)
class ChatSetup:
    """What the chats of a server are set up with.

    Attributes:
        prompts: Prompts in files.
        servers: The user's MCP servers.
    """

    prompts: PromptFolders = field(default_factory=PromptFolders)
    servers: UserServers = field(default_factory=UserServers)

    async def info(self, workspace: Workspace, user: str) -> ChatSetupInfo:
        """Return what a user's chats are set up with now."""
        found = await find_instructions(workspace)
        instructions: InstructionsInfo | None = None
        if found.name:
            size = len(found.text)
            instructions = {"path": found.name, "characters": size, "limit": PROJECT}
        return {
            "instructions": instructions,
            "names": list(PROJECT_FILES),
            "prompts": await self.prompts.list(user),
            "servers": await self.servers.info(user),
        }
