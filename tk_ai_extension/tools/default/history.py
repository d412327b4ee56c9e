"""Tools that show a notebook's history and undo the caller's changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated

from pydantic import BaseModel, Field

from tk_ai_extension.model.cell_operations import Change
from tk_ai_extension.model.cells import counted
from tk_ai_extension.model.errors import Conflict, NothingToUndo
from tk_ai_extension.model.proposals import Proposal, ProposalStep
from tk_ai_extension.notebooks.computed_edit import anchored
from tk_ai_extension.tools.edit_plans import ChangedCell, EditPlan, changed_cell
from tk_ai_extension.tools.parameter_types import Entry, Notebook
from tk_ai_extension.tools.registry import Result, ToolContext, tool
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.journal import JournalEntry
from tk_ai_extension.workspace.undo import plan_entries


class Undone(Result):
    """The changes that were undone."""

    notebook: str
    undone: list[str]
    """Summaries of the changes, newest first."""
    refused: list[str] = Field(default_factory=list)
    """Why some changes could not be undone."""
    changes: list[ChangedCell]
    total_cells: int

    def as_text(self) -> str:
        lines = [f"Undone: {summary}." for summary in self.undone]
        lines += [f"Not undone: {reason}" for reason in self.refused]
        lines.append(f"{self.notebook}: {counted(self.total_cells)}.")
        return "\n".join(lines)


@dataclass(frozen=True)
class _UndoPlan(EditPlan):
    """The edit that undoes journal entries.

    Attributes:
        entries: The entries that are undone, at least in part, newest first.
        undone: The changes that are undone, by entry.
        left: Sentences about the changes that stay, with reasons.
    """

    entries: tuple[JournalEntry, ...] = ()
    undone: Mapping[int, Sequence[Change]] = field(default_factory=dict[int, Sequence[Change]])
    left: tuple[str, ...] = ()

    def proposal(self) -> Proposal:
        """Return the entries and the cells that change."""
        entries = tuple(
            ProposalStep("undo", f"Undo {entry.id}: {entry.summary}") for entry in self.entries
        )
        edit = super().proposal()
        title = (
            f"Undo {len(entries)} change" if len(entries) == 1 else f"Undo {len(entries)} changes"
        )
        return replace(edit, title=title, steps=(*entries, *edit.steps))


async def _undo(context: ToolContext, plan: _UndoPlan, tool: str) -> Undone:
    """Apply the edit and mark the entries as undone."""
    workspace, count = context.workspace, len(plan.entries)
    applied = await editing.undo(
        workspace,
        context.caller,
        plan.document,
        plan.operations,
        plan.undone,
        tool=tool,
        summary=f"undid {count} change{'' if count == 1 else 's'}",
    )
    return Undone(
        notebook=plan.document.path,
        undone=[entry.summary for entry in plan.entries],
        refused=list(plan.left),
        changes=[changed_cell(applied.snapshot, change) for change in applied.changes],
        total_cells=len(applied.snapshot.cells),
    )


@tool("WRITE", carry_out=_undo, command="undo steps")
async def undo(
    context: ToolContext,
    steps: Annotated[int, Field(ge=1, le=1000)] = 1,
    checkpoint: Annotated[
        Entry | None, Field(description="instead of `steps`: all after this history number")
    ] = None,
    notebook: Notebook = None,
) -> _UndoPlan:
    """Undo your own changes, newest first. Keeps cells that were edited since."""
    workspace, caller = context.workspace, context.caller
    document = await workspace.open(caller, notebook, tool="undo")
    entries = await workspace.journal.undoable(
        caller, document.path, steps=None if checkpoint is not None else steps, since=checkpoint
    )
    if not entries:
        raise NothingToUndo(
            f"You have made no change in {document.path} that can be undone."
            if caller.key
            else "Your connection has no session, so your changes cannot be identified."
        )
    snapshot = await document.read()
    plan = await plan_entries(document, entries, snapshot)
    if not plan.entries:
        raise Conflict(
            f"Nothing was undone: {' '.join(plan.left)}",
            hint="Edit the cells instead.",
        )
    return _UndoPlan(
        document,
        snapshot,
        tuple(anchored(snapshot, plan.operations)),
        entries=tuple(entry for entry in entries if entry.id in plan.entries),
        undone=plan.entries,
        left=plan.left,
    )


class HistoryEntry(BaseModel):
    """A change or run of a notebook."""

    id: int
    """The history number, for `undo` with `checkpoint`."""
    time: str
    author: str
    tool: str
    kind: str
    state: str
    summary: str
    yours: bool


class History(Result):
    """The changes and runs of a notebook, newest first."""

    notebook: str
    entries: list[HistoryEntry]

    def as_text(self) -> str:
        return (
            "\n".join(
                f"{e.id} {e.time} {e.author}{' (you)' if e.yours else ''}: {e.summary}"
                + ("" if e.state == "done" else f" [{e.state}]")
                for e in self.entries
            )
            or f"{self.notebook} has no recorded history."
        )


@tool("READ", command="history notebook")
async def notebook_history(
    context: ToolContext, notebook: Notebook = None, limit: Annotated[int, Field(ge=1, le=500)] = 20
) -> History:
    """List who changed and ran what, newest first (calls of tools, not a person's typing)."""
    workspace, caller = context.workspace, context.caller
    path = workspace.path(caller, notebook, tool="notebook_history")
    entries = await workspace.journal.history(path, limit, caller.user)
    return History(
        notebook=path,
        entries=[
            HistoryEntry(
                id=entry.id,
                time=datetime.fromtimestamp(entry.time, UTC).strftime("%Y-%m-%d %H:%M:%S"),
                author=entry.author,
                tool=entry.tool,
                kind=entry.kind,
                state=entry.state,
                summary=entry.summary,
                yours=caller.session is not None
                and (entry.user, entry.caller_key) == (caller.user, caller.session),
            )
            for entry in entries
        ],
    )
