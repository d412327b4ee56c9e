"""What commands work with: the workspace and the tools of the server that they run in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tk_ai_extension.cli.memory import Memory
from tk_ai_extension.cli.ownership import belongs_to
from tk_ai_extension.cli.project_services import ProjectServices
from tk_ai_extension.cli.servers import Server
from tk_ai_extension.model.agent_errors import AgentUnavailable
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import ExecutionNotFound
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.permissions import Effect
from tk_ai_extension.workspace.workspace import Workspace

if TYPE_CHECKING:
    from tk_ai_extension.cli.talk import ChatClient

MEMORY = "nb.json"
"""What commands must know of those before them, beside the journal."""


async def no_chats(_user: str, _models: Mapping[str, str]) -> ChatClient:
    """Refuse, where no server runs.

    Raises:
        AgentUnavailable.
    """
    raise AgentUnavailable("No server runs in this project.", hint="`nb open NOTEBOOK` starts it.")


@dataclass
class CommandContext:
    """What commands work with.

    Attributes:
        root: The folder that paths of notebooks are relative to.
        user: The name of the user.
        workspace: The notebooks and kernels.
        registry: The default tools.
        memory: What commands must know of those before them.
        project: What a project's own server can do besides; None in a person's.
        host: The process of the project's server; None in a person's, and where there is none.
        url: The address of a person's server; empty in a project's own.
        chats: Gives a user's chats, where the model is what a command's environment says of models.
    """

    root: str
    user: str
    workspace: Workspace
    registry: Registry
    memory: Memory
    project: ProjectServices | None = None
    host: int | None = None
    url: str = ""
    chats: Callable[[str, Mapping[str, str]], Awaitable[ChatClient]] = no_chats

    def caller(self, key: str | None = None) -> Caller:
        """Who types commands here: one caller, unless ``NB_CALLER`` names another."""
        return Caller(user=self.user, key=key or "nb", interface="nb", name="nb")

    def for_user(self, user: str) -> CommandContext:
        """The same for another user of the server."""
        return self if user == self.user else replace(self, user=user)

    @property
    def attached(self) -> Server | None:
        """The server that all commands of the project work in; None where there is none."""
        return None if self.project is None else self.project.ownership.attached

    async def owner_of(self, path: str, effect: Effect = "READ") -> Server | None:
        """The Jupyter Server that a notebook belongs to; None where it belongs here.

        Raises:
            OpenElsewhere: a server without the extension has it open, and it is to be changed or run.
        """
        if self.project is None or self.workspace.executions.active(path=path):
            # A run that began here ends here, and the notebook stays here meanwhile.
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
        """The execution that a caller means who names none: the one under way, else their newest.

        Raises:
            ExecutionNotFound: they have had none since this process began.
        """
        latest = self.workspace.executions.latest(caller)
        if latest is not None:
            return latest.id
        others = [
            f"{run.id} ({run.caller.author}{f', {run.path}' if run.path else ''})"
            for run in self.workspace.executions.active()
            if run.caller.user == caller.user
        ]
        raise ExecutionNotFound(
            "You have run nothing here that is still known.",
            hint=f"Others run: {', '.join(others)}." if others else None,
        )
