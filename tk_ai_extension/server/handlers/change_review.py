"""Changes to a notebook through tools, for its person: marks, keep and undo."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tk_ai_extension.model.errors import InvalidArguments, PermissionDenied
from tk_ai_extension.server.handlers.base_handler import TkAIHandler, username
from tk_ai_extension.server.handlers.openapi_operations import NOTEBOOK, operation, query

if TYPE_CHECKING:
    from tk_ai_extension.server.rest_models import (
        ChosenChanges,
        CombinedChanges,
        KeptChanges,
        UndoneChanges,
    )

_CELLS = query("cell", "Only this cell, by key; can be given several times")


class ChangesHandler(TkAIHandler):
    """The changes to a notebook that were neither undone nor kept."""

    @operation("read", "list_changes", NOTEBOOK, _CELLS)
    async def get(self) -> CombinedChanges:
        """List the cells of a notebook with changes through tools that were neither undone nor kept.

        Each cell is compared from before its first to after its last one of these changes. At most the
        newest thousand changes are listed.
        """
        from tk_ai_extension.workspace.undo import combined_changes

        path = await _notebook(self, self.get_query_argument("notebook", None))
        user = username(self)
        cells = self.get_query_arguments("cell") or None
        entries = await self.services.workspace.journal.pending(path, user, cells=cells)
        # In a thread: each cell has a diff.
        return {"changes": await asyncio.to_thread(combined_changes, entries, user)}


class ChangesUndoHandler(TkAIHandler):
    """Undo of changes."""

    @operation("write", "undo_changes")
    async def post(self, body: ChosenChanges) -> UndoneChanges:
        """Undo changes, cell by cell: ``{"notebook": …, "entries": {"12": ["318a…"], "15": ["77b0…"]}}``.

        A list of ``entries`` undoes all of their cells. They must be the user's, made by any of
        their agents. Those that can no longer be undone are ``missing`` in the answer.
        """
        path = await _notebook(self, body.notebook)
        wanted = body.cells()
        from tk_ai_extension.workspace.undo import undo_entries

        workspace, caller = self.services.workspace, self.caller
        entries = await workspace.journal.standing(path, caller.user, wanted)
        if any(entry.user != caller.user for entry in entries):
            raise PermissionDenied(
                "Some of these changes are another user's.", hint="Undo your own changes only."
            )
        chosen = [
            entry if (cells := wanted[entry.id]) is None else entry.only(cells) for entry in entries
        ]
        undone = await undo_entries(workspace, caller, chosen)
        return {"undone": undone, "missing": sorted(wanted.keys() - {each.id for each in entries})}


class ChangesKeepHandler(TkAIHandler):
    """Changes that a person keeps."""

    @operation("write", "keep_changes")
    async def post(self, body: ChosenChanges) -> KeptChanges:
        """Keep changes, named as for an undo: they are no longer listed, but can still be undone."""
        path = await _notebook(self, body.notebook)
        chosen = body.cells()
        workspace = self.services.workspace
        await workspace.journal.keep(path, chosen)
        workspace.activity.publish(workspace.by_path.at(path), self.caller, "kept", ())
        return {"kept": sorted(chosen)}


async def _notebook(handler: TkAIHandler, named: str | None) -> str:
    if not named:
        raise InvalidArguments("`notebook` is missing.", hint="Give the notebook's path.")
    await handler.services.ready()
    workspace = handler.services.workspace
    # Agents change text files as well.
    return (
        workspace.contain(named)
        if named.lower().endswith(".ipynb")
        else workspace.files.locate(named)
    )
