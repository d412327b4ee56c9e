"""The context that a tool receives besides its arguments."""

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
"""Receives a line of text that describes the progress of a call."""


class ToolCalls(Protocol):
    """Calls tools by name; implemented by `Registry`."""

    async def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> Result:
        """Call a tool; see `Registry.call`."""
        ...


async def _no_progress(_message: str) -> None:
    return None


def _follow_nothing(_execution_id: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The context of one tool call: the workspace, the caller, and ways to reach the caller.

    Attributes:
        workspace: The notebooks, kernels, journal and permissions of this server.
        caller: The caller.
        progress: Reports progress to the caller; does nothing if the interface has no progress.
        approver: Asks a person during the call; None if nobody can be asked.
        gone: Set when the client has disconnected. The call continues, but its result counts as
            not received.
        approval: The approval of this call; None if none was needed. Code that changed after the
            approval does not run.
        on_follow: Called with the id of an execution when the call begins to wait for it.
        tools: The registry that the call came through, for tools whose code calls other tools.
    """

    workspace: Workspace
    caller: Caller
    progress: ProgressSink = _no_progress
    approver: Approver | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    approval: Approval | None = None
    on_follow: Callable[[str], None] = _follow_nothing
    tools: ToolCalls | None = None

    def current_path(self, notebook: str | None) -> str | None:
        """Return the path of the named or current notebook, which may not exist; None if there is none.

        Raises:
            PathRefused: The path is outside the root or hidden.
            InvalidArguments: The path does not end in ``.ipynb``.
        """
        workspace = self.workspace
        managed = workspace.notebooks.resolve(self.caller, notebook)
        if managed is not None:
            return managed.path
        return None if notebook is None else workspace.contain(notebook)
