"""What an agent does outside the registry's tools: actions of its own, and files through its client.

An agent in another process may have tools of its own, which run there. It asks its client first; the
same permission modes and the same cards decide. Text files that it reads and writes through its client
are contained and journalled like notebooks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import mcp_types as types

from tk_ai_extension.agent.turns import FileEdit, Turn
from tk_ai_extension.model.errors import (
    NotReadable,
    PathRefused,
    PermissionDenied,
    PermissionRequired,
    ToolError,
)
from tk_ai_extension.model.proposals import Proposal, ProposalStep, diff_lines
from tk_ai_extension.tools.context import Result, ToolContext
from tk_ai_extension.tools.registry import Registry, tool
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.files import Files, read_as_text
from tk_ai_extension.workspace.permission_requests import Effect

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
        paths: What an action with the effect READ or WRITE concerns outside the agent's own folder. What
            is no absolute path is a place that is not known.
        writes: The changes of files that the proposal shows. Each may be written once without another
            approval, if the file still has the content that was shown.
    """

    call: str
    tool: str
    effect: Effect
    arguments: Mapping[str, Any]
    proposal: Proposal
    paths: tuple[str, ...]
    writes: tuple[FileEdit, ...] = ()


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
    await editing.write_file(
        workspace, caller, plan.path, plan.after, expect=plan.before, tool=tool
    )
    return WrittenFile(path=plan.path, created=plan.before is None)


async def _no_notebook(_context: ToolContext, _arguments: Any) -> None:
    """Return the notebook that a write of a file concerns: none."""


@tool("WRITE", carry_out=_write, concerns=_no_notebook)
async def write_text_file(context: ToolContext, path: str, content: str) -> FileWrite:
    """Write a text file."""
    path = context.workspace.files.locate(path)
    return FileWrite(path, await editing.read_file(context.workspace, path), content)


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
        return await read_as_text(self._turn_of(token).workspace.files, path)

    async def write_text(self, token: str, call: str | None, path: str, text: str) -> None:
        """Write a text file."""
        turn = self._turn_of(token)
        files = turn.workspace.files
        approved = turn.take_approved_write(files.locate(path), text)

        async def is_unchanged() -> bool:
            return approved is not None and approved.before == await _content(turn, approved.path)

        result = await turn.call(
            call,
            WRITE,
            {"path": path, "content": text},
            registry=FILES,
            approved=None if approved is None else is_unchanged,
        )
        if result.is_error:
            texts = [each.text for each in result.content if isinstance(each, types.TextContent)]
            raise ToolError("\n".join(texts))

    async def _permit(self, turn: Turn, action: AgentAction) -> None:
        workspace, caller, notebook = turn.workspace, turn.caller, action.proposal.notebook
        effect = _effect(workspace.files, action)
        approvable = await _approvable(turn, action.writes)
        try:
            await workspace.policy.check(
                caller,
                action.tool,
                effect,
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
        for each in approvable:
            turn.approve_write(each)
        if effect != "READ":
            summary = f"{action.tool}: {action.proposal.title}"
            await workspace.journal.record(caller, notebook or "", action.tool, summary, kind="run")


def _effect(files: Files, action: AgentAction) -> Effect:
    """Return the effect of an action: reading or writing elsewhere is what a shell does, and asks as one.

    Raises:
        PathRefused: It would write a notebook.
    """
    if action.effect == "EXECUTE":
        return "EXECUTE"
    inside = [path for path in action.paths if _is_below_root(files, path)]
    is_lenient = len(inside) == len(action.paths)
    if action.effect == "WRITE":
        folders = {path for path in inside if os.path.isdir(path)}  # noqa: PTH112 - it raises nothing
        for path in inside:
            if path not in folders:
                files.locate(path)
        # A folder may hold notebooks and hidden files.
        is_lenient = is_lenient and not folders
    return action.effect if is_lenient else "EXECUTE"


def _is_below_root(files: Files, path: str) -> bool:
    """Return whether an absolute path is the root's or one below it, and not hidden.

    Args:
        files: The files of the server.
        path: The path of a file, a notebook or a folder, which may not exist.
    """
    if not path.startswith("/"):
        return False
    try:
        # Of something in it, since the root itself is no file, and a notebook is not to be written.
        inside = files.locate(f"{path.rstrip('/')}/_")
    except ToolError:
        return False
    # Without a root on this machine, the whole path is one of the contents manager.
    return len(PurePosixPath(inside).parts) < len(PurePosixPath(path).parts)


async def _approvable(turn: Turn, edits: Iterable[FileEdit]) -> list[FileEdit]:
    """Return the changes whose proposal shows the file as it is, each with that content."""
    found: list[FileEdit] = []
    for edit in edits:
        try:
            path = turn.workspace.files.locate(edit.path)
        except PathRefused:
            # The client does not write it.
            continue
        content = await _content(turn, path)
        if (edit.before or "") == (content or ""):
            found.append(FileEdit(path, content, edit.after))
    return found


async def _content(turn: Turn, path: str) -> str | None:
    """Return the content of a text file; None if there is none, or if it is not readable as text."""
    try:
        return await editing.read_file(turn.workspace, path)
    except NotReadable:
        return None
