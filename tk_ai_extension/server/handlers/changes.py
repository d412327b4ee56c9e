"""Changes to a notebook through tools, for its person: marks, keep and undo."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tk_ai_extension.model.errors import InvalidArguments, PermissionDenied
from tk_ai_extension.server.handlers.handler import TkAIHandler, username
from tk_ai_extension.server.handlers.operations import NOTEBOOK, operation, query

if TYPE_CHECKING:
    from tk_ai_extension.model.operations import Change
    from tk_ai_extension.server.models import (
        ChangedCell,
        ChangeInfo,
        ChangeList,
        ChosenChanges,
        KeptChanges,
        UndoneChanges,
    )
    from tk_ai_extension.workspace.journal import JournalEntry

MAX_CHANGES = 100
"""Maximum number of changes in a response, the newest ones."""
MAX_DIFF = 20_000
"""Maximum length of a diff, in characters."""
MAX_SOURCE = 50_000
"""Maximum length of a source before a change, in characters."""

_NUMBER = re.compile(r"\d{1,15}", re.ASCII)
_BEFORE = query(
    "before", "Only changes before the entry with this number", type="integer", minimum=0
)


class ChangesHandler(TkAIHandler):
    """The changes to a notebook that were neither undone nor kept."""

    @operation("read", "list_changes", NOTEBOOK, _BEFORE)
    async def get(self) -> ChangeList:
        """List what was changed in a notebook through tools, and neither undone nor kept, the newest first.

        If there are ``more``, ``?before=`` the last entry has the next ones.
        """
        path = await _notebook(self, self.get_query_argument("notebook", None))
        workspace = self.services.workspace
        user = username(self)
        before = self.get_query_argument("before", None)
        if before is not None and _NUMBER.fullmatch(before) is None:
            raise InvalidArguments(
                "The field before is missing or invalid.", hint="Omit it for the first page."
            )
        entries = await workspace.journal.pending(
            path, MAX_CHANGES + 1, user, before=None if before is None else int(before)
        )
        # In a thread: each change has a diff.
        shown = await asyncio.to_thread(_described, entries[:MAX_CHANGES], user)
        return {"changes": shown, "more": len(entries) > MAX_CHANGES}


class ChangesUndoHandler(TkAIHandler):
    """Undo of changes."""

    @operation("write", "undo_changes")
    async def post(self, body: ChosenChanges) -> UndoneChanges:
        """Undo changes, cell by cell: ``{"notebook": …, "entries": {"12": ["318a…"], "15": ["77b0…"]}}``.

        A list of ``entries`` undoes all of their cells. They must be the user's own, made by any of
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
        """Keep changes, named as for an undo: they are not listed any more, and can still be undone."""
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
    return handler.services.workspace.contain(named)


def _described(entries: Sequence[JournalEntry], user: str) -> list[ChangeInfo]:

    return [
        {
            "entry": entry.id,
            "time": entry.time,
            "author": entry.author,
            "tool": entry.tool,
            "turn": entry.turn,
            "yours": entry.user == user,
            "summary": entry.summary,
            "cells": [_cell(change) for change in entry.changes],
        }
        for entry in entries
    ]


def _cell(change: Change) -> ChangedCell:
    from tk_ai_extension.model.diffs import line_diff

    before = change.before.source if change.before else ""
    after = change.after.source if change.after else ""
    diff = line_diff(before, after)
    return {
        "cell": change.cell,
        "action": change.action,
        "diff": diff[:MAX_DIFF],
        "truncated": len(diff) > MAX_DIFF,
        "before": before if change.before and len(before) <= MAX_SOURCE else None,
    }
