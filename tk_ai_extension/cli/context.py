"""Context of commands: the workspace and the tools of their server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tk_ai_extension.cli.command_state import CommandState
from tk_ai_extension.cli.ownership import belongs_to
from tk_ai_extension.cli.project_services import ProjectServices
from tk_ai_extension.cli.servers import Server
from tk_ai_extension.model.agent_errors import AgentUnavailable
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import NotFound
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.permissions import Effect
from tk_ai_extension.workspace.workspace import Workspace

if TYPE_CHECKING:
    from tk_ai_extension.cli.chat_client import ChatClient

MEMORY = "nb.json"
"""Name of the file with the state that commands share, beside the journal."""


async def no_chats(_user: str, _models: Mapping[str, str]) -> ChatClient:
    """Refuse chats, as no server runs.

    Raises:
        AgentUnavailable.
    """
    raise AgentUnavailable("No server runs in this project.", hint="`nb open NOTEBOOK` starts it.")


@dataclass
class CommandContext:
    """Context of commands.

    Attributes:
        root: The folder that paths of notebooks are relative to.
        user: The name of the user.
        workspace: The notebooks and kernels.
        registry: The default tools.
        memory: State that commands share.
        project: Services of a project's own server; None in a person's.
        host: Process id of the project's server; None in a person's, and without a server.
        url: Address of a person's server; empty in a project's own.
        chats: Returns a user's chats, with the models of the command's environment.
    """

    root: str
    user: str
    workspace: Workspace
    registry: Registry
    memory: CommandState
    project: ProjectServices | None = None
    host: int | None = None
    url: str = ""
    chats: Callable[[str, Mapping[str, str]], Awaitable[ChatClient]] = no_chats

    def caller(self, key: str | None = None) -> Caller:
        """Return the caller of commands; ``NB_CALLER`` names another one."""
        return Caller(user=self.user, key=key or "nb", interface="nb", name="nb")

    def for_user(self, user: str) -> CommandContext:
        """Return the context for another user of the server."""
        return self if user == self.user else replace(self, user=user)

    @property
    def attached(self) -> Server | None:
        """The server that the project is attached to; None if there is none."""
        return None if self.project is None else self.project.ownership.attached

    async def owner_of(self, path: str, effect: Effect = "READ") -> Server | None:
        """Return the Jupyter Server that a notebook belongs to; None if it belongs here.

        Raises:
            OpenElsewhere: it would be changed or run while a server without the extension has it open.
        """
        if self.project is None or self.workspace.executions.active(
            notebook=self.workspace.by_path.at(path)
        ):
            # A notebook stays here while a run that began here is active.
            return None
        return await self.project.ownership.owner_of(path, effect)

    async def check_owner(self, path: str, effect: Effect = "READ") -> None:
        """Check that a notebook belongs here.

        Raises:
            OpenElsewhere: it belongs to another server.
        """
        server = await self.owner_of(path, effect)
        if server is not None:
            raise belongs_to(server, path)

    def last_run(self, caller: Caller) -> str:
        """Return a caller's running execution, else their newest.

        Raises:
            NotFound: they have started none since this process began.
        """
        latest = self.workspace.executions.latest(caller)
        if latest is not None:
            return latest.id
        others = [
            f"{run.id} ({run.caller.author}{f', {run.path}' if run.path else ''})"
            for run in self.workspace.executions.active()
            if run.caller.user == caller.user
        ]
        raise NotFound(
            "You have no recent execution here.",
            hint=f"Running executions of others: {', '.join(others)}." if others else None,
        )
