"""A turn as a checkpoint: what it changed is taken back, cell by cell, where nobody worked on since."""

from __future__ import annotations

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.workspace import taking_back
from tk_ai_extension.workspace.taking_back import TakenBack
from tk_ai_extension.workspace.workspace import Workspace


async def take_back(
    workspace: Workspace,
    caller: Caller,
    *,
    turn: str,
    cells: frozenset[str] | None = None,
    onwards: bool = False,
) -> list[TakenBack]:
    """Takes back what a turn of a chat changed, in each notebook all or none.

    Args:
        workspace: Where the journal and the notebooks are.
        caller: The chat.
        turn: The turn.
        cells: Only the changes of these cells, by their keys; None for all.
        onwards: What the chat changed after that turn as well.

    Raises:
        NothingToUndo: the turn changed nothing that stands.
        ToolError: whatever a notebook refuses.
    """
    entries = await workspace.journal.undoable(caller, None, turn=turn)
    if entries and onwards:
        entries = await workspace.journal.undoable(caller, None, since=entries[-1].id - 1)
    return await taking_back.take_back(workspace, caller, entries, cells=cells, of="of a turn")
