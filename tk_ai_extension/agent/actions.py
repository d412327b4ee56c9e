"""What an agent does outside the registry's tools: actions of its own, and files through its client.

An agent in another process may have tools of its own, which run there. It asks its client first; the
same permission modes and the same cards decide. Text files that it reads and writes through its client
are contained and journalled like notebooks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mcp_types as types

from tk_ai_extension.model.errors import (
    NotReadable,
    PermissionDenied,
    PermissionRequired,
    ToolError,
)
from tk_ai_extension.model.proposals import Proposal, ProposalStep, diff_lines
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.registry import Registry, tool
from tk_ai_extension.tools.results import Result
from tk_ai_extension.workspace import file_edits
from tk_ai_extension.workspace.permission_requests import Effect

if TYPE_CHECKING:
    from tk_ai_extension.agent.turns import Turn

WRITE = "write_text_file"
"""Name of the tool by which an agent writes a file through its client."""


@dataclass(frozen=True, slots=True)
class AgentAction:
    """An action that an agent carries out itself, once it is permitted.

    Attributes:
        call: The id of the agent's call.
        tool: The name of the agent's tool, for people.
        effect: The effect of the action.
        arguments: The exact arguments.
        proposal: What it will do.
        writes: The files that it writes: the path, and the new content if it is known. They may be
            written once without another approval.
    """

    call: str
    tool: str
    effect: Effect
    arguments: Mapping[str, Any]
    proposal: Proposal
    writes: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True)
class FileWrite:
    """A text file to write.

    Attributes:
        path: The path below the root.
        before: The current content; None if it does not exist.
        after: The new content.
    """

    path: str
    before: str | None
    after: str

    def proposal(self) -> Proposal:
        """Return the diff."""
        title = f"{'Create' if self.before is None else 'Change'} the file {self.path}"
        lines = diff_lines(self.before or "", self.after)
        return Proposal(title, (ProposalStep("arguments", title, lines=lines),))


class WrittenFile(Result):
    """A file that was written."""

    path: str
    created: bool

    def as_text(self) -> str:
        """Return what was done."""
        return f"{'Created' if self.created else 'Changed'} {self.path}."


async def _write(context: ToolContext, plan: FileWrite, tool: str) -> WrittenFile:
    workspace, caller = context.workspace, context.caller
    await file_edits.write(workspace, caller, plan.path, plan.after, expect=plan.before, tool=tool)
    return WrittenFile(path=plan.path, created=plan.before is None)


async def _no_notebook(_context: ToolContext, _arguments: Any) -> None:
    """Return the notebook that a write of a file concerns: none."""


@tool("WRITE", carry_out=_write, concerns=_no_notebook)
async def write_text_file(context: ToolContext, path: str, content: str) -> FileWrite:
    """Write a text file."""
    path = context.workspace.files.locate(path)
    return FileWrite(path, await file_edits.read(context.workspace, path), content)


FILES = Registry([write_text_file])
"""The tools behind an agent's client; they are offered to no model."""


class TurnActions:
    """Implementation of `backend.AgentActions` for one chat.

    Args:
        turn_of: Returns the turn of a credential's token; raises InvalidTurnCredential.
    """

    def __init__(self, turn_of: Callable[[str], Turn]) -> None:
        self._turn_of = turn_of

    async def permit(self, token: str, action: AgentAction) -> None:
        """Check that an action may run, and ask the person if the mode requires it."""
        turn = self._turn_of(token)
        await turn.run(self._permit(turn, action))

    async def read_text(self, token: str, path: str) -> str:
        """Read a text file."""
        turn = self._turn_of(token)
        if path.lower().endswith(".ipynb"):
            raise NotReadable(f"`{path}` is a notebook.", hint="Use the tool read_notebook.")
        return await turn.workspace.files.read_text(path)

    async def write_text(self, token: str, call: str | None, path: str, text: str) -> None:
        """Write a text file."""
        turn = self._turn_of(token)
        located = turn.workspace.files.locate(path)
        approved = turn.take_approved_write(located, text)
        result = await turn.call(
            call, WRITE, {"path": path, "content": text}, registry=FILES, approved=approved
        )
        if result.is_error:
            texts = [each.text for each in result.content if isinstance(each, types.TextContent)]
            raise ToolError("\n".join(texts))

    async def _permit(self, turn: Turn, action: AgentAction) -> None:
        workspace, caller, notebook = turn.workspace, turn.caller, action.proposal.notebook
        try:
            await workspace.policy.check(
                caller,
                action.tool,
                action.effect,
                arguments=action.arguments,
                proposal=action.proposal,
                approver=turn.approver(action.call),
                # Its name is what the agent calls it, each time.
                scope="effect",
            )
        except (PermissionDenied, PermissionRequired) as refusal:
            summary = f"refused: {refusal.message}"
            await workspace.journal.record(
                caller,
                notebook or "",
                action.tool,
                summary,
                kind="refused",
                state="failed",
                note=refusal.code,
            )
            raise
        for path, text in action.writes:
            turn.approve_write(workspace.files.locate(path), text)
        if action.effect != "READ":
            summary = f"{action.tool}: {action.proposal.title}"
            await workspace.journal.record(caller, notebook or "", action.tool, summary, kind="run")
