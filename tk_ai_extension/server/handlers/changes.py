"""What was changed in a notebook through tools, for a person who looks at it: marks, keep and undo."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from tk_ai_extension.model.errors import InvalidArguments, PermissionDenied
from tk_ai_extension.server.handlers.base import TkAIHandler
from tk_ai_extension.server.handlers.operations import NOTEBOOK, operation
from tk_ai_extension.server.handlers.streaming import StreamingHandler
from tk_ai_extension.server.users import username

if TYPE_CHECKING:
    from tk_ai_extension.model.operations import Change
    from tk_ai_extension.server.models import (
        ChangedCell,
        ChangedCells,
        ChangeInfo,
        ChangeList,
        UndoChanges,
        UndoneChanges,
    )
    from tk_ai_extension.workspace.activity import Activity
    from tk_ai_extension.workspace.journal import JournalEntry

MAX_CHANGES = 100
"""How many changes are told, the newest ones."""
MAX_DIFF = 20_000
"""Characters of a diff that are shown."""


class ChangesHandler(StreamingHandler):
    """The changes to a notebook that stand, and what is done to it from now on."""

    @operation("read", "list_changes", NOTEBOOK, streams="Activity")
    async def get(self) -> ChangeList | None:
        """List what was changed in a notebook through tools and stands, the newest first.

        As server-sent events: what runs, and from now on what happens.
        """
        path = await _notebook(self, self.get_query_argument("notebook", None))
        workspace = self.services.workspace
        if self.accepts_events():
            await self.stream(_frames(workspace.activity.follow(path)))
            return None
        user = username(self)
        entries = await workspace.journal.standing(path, MAX_CHANGES, user)
        return {"changes": [_described(entry, user) for entry in entries]}


class ChangedCellsHandler(TkAIHandler):
    """Which cells of a notebook hold what was written through tools, all of them and briefly."""

    @operation("read", "list_changed_cells", NOTEBOOK)
    async def get(self) -> ChangedCells:
        """List the cells that hold what was written through tools, with the time of the last change.

        A change is among these before it is in the notebook, so that whoever sees something in a
        cell and asks then is told who wrote it.
        """
        path = await _notebook(self, self.get_query_argument("notebook", None))
        cells, unsettled = await self.services.workspace.journal.written(path)
        return {"cells": cells, "unsettled": unsettled}


class ChangesUndoHandler(TkAIHandler):
    """Taking changes back."""

    @operation("write", "undo_changes")
    async def post(self, body: UndoChanges) -> UndoneChanges:
        """Undo changes, cell by cell: ``{"notebook": …, "entries": [12, 15], "cells": ["318a…"]}``.

        Without ``cells`` all that the entries changed. They have to be the user's own, made by
        whichever of their agents.
        """
        path = await _notebook(self, body.notebook)
        numbers = set(body.entries)
        keys = None if body.cells is None else frozenset(body.cells)
        from tk_ai_extension.workspace.undo_entries import undo_entries

        workspace, caller = self.services.workspace, self.caller
        standing = await workspace.journal.standing(
            path, MAX_CHANGES, caller.user, since=min(numbers) - 1
        )
        entries = [entry for entry in standing if entry.id in numbers]
        if any(entry.user != caller.user for entry in entries):
            raise PermissionDenied(
                "Some of these changes are another user's.", hint="Take back your own."
            )
        return {"undone": await undo_entries(workspace, caller, entries, cells=keys)}


async def _notebook(handler: TkAIHandler, named: str | None) -> str:
    if not named:
        raise InvalidArguments("`notebook` is missing.", hint="Name a notebook by its path.")
    await handler.services.ready()
    return handler.services.workspace.contain(named)


def _described(entry: JournalEntry, user: str) -> ChangeInfo:
    return {
        "entry": entry.id,
        "time": entry.time,
        "author": entry.author,
        "tool": entry.tool,
        "turn": entry.turn,
        "yours": entry.user == user,
        "summary": entry.summary,
        "cells": [_cell(change) for change in entry.changes],
    }


def _cell(change: Change) -> ChangedCell:
    from tk_ai_extension.workspace.editing import line_diff

    before = change.before.source if change.before else ""
    after = change.after.source if change.after else ""
    diff = line_diff(before, after)
    return {
        "cell": change.cell,
        "action": change.action,
        "diff": diff[:MAX_DIFF],
        "truncated": len(diff) > MAX_DIFF,
    }


async def _frames(activities: AsyncIterator[Activity]) -> AsyncIterator[str]:
    async for activity in activities:
        yield f"event: {activity.kind}\ndata: {json.dumps(asdict(activity))}\n\n"
