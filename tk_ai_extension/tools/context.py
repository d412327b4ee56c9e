"""What a tool receives besides its arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.tools.results import Result
from tk_ai_extension.workspace.approvals import Approval
from tk_ai_extension.workspace.permissions import Approver
from tk_ai_extension.workspace.workspace import Workspace

ProgressSink = Callable[[str], Awaitable[None]]
"""Takes a line that says what a running call is doing."""


class ToolCalls(Protocol):
    """Calls tools by name: the registry that a call came through."""

    async def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> Result:
        """Calls one; see `Registry.call`."""
        ...


async def _no_progress(_message: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class ToolContext:
    """One call's surroundings: the workspace, who calls, and how to reach them meanwhile.

    Attributes:
        workspace: The managers, the store, the kernels, the journal.
        caller: Who is acting.
        progress: Reports progress to the caller; does nothing where the face has none.
        approver: Asks a person within the call; None where nobody can be asked.
        gone: Set when nobody waits for the answer any more (the client's connection closed). The call
            goes on; what it answers then has not been seen.
        approval: What a person was shown of just this call and approved; None where nobody was
            asked. Nothing else is run: code that is changed before its turn comes is not.
        tools: The registry that the call came through, for a tool whose code calls others.
    """

    workspace: Workspace
    caller: Caller
    progress: ProgressSink = _no_progress
    approver: Approver | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    approval: Approval | None = None
    tools: ToolCalls | None = None

    def current_path(self, notebook: str | None) -> str | None:
        """The path of the notebook meant, without checking that it exists; None where none is.

        Raises:
            PathRefused, NotANotebook.
        """
        workspace = self.workspace
        managed = workspace.notebooks.resolve(self.caller, notebook)
        if managed is not None:
            return managed.path
        return None if notebook is None else workspace.contain(notebook)
