"""What was changed in a notebook through tools, for a person who looks at it: marks, keep and undo."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tk_ai_extension.model.errors import InvalidArguments, PermissionDenied
from tk_ai_extension.server.handlers.base import TkAIHandler, allowed
from tk_ai_extension.server.handlers.streaming import StreamingHandler
from tk_ai_extension.server.users import username

if TYPE_CHECKING:
    from tk_ai_extension.model.operations import Change
    from tk_ai_extension.workspace.activity import Activity
    from tk_ai_extension.workspace.journal import JournalEntry

_Item = TypeVar("_Item")

MAX_CHANGES = 100
"""How many changes are told, the newest ones."""
MAX_DIFF = 20_000
"""Characters of a diff that are shown."""


class ChangesHandler(StreamingHandler):
    """The changes to a notebook that stand, and what is done to it from now on."""

    @allowed("read")
    async def get(self) -> None:
        """Lists the changes, the newest first; as server-sent events, streams what happens next."""
        path = await _notebook(self, self.get_query_argument("notebook", None))
        workspace = self.services.workspace
        if "text/event-stream" in self.request.headers.get("Accept", ""):
            await self.stream(_frames(workspace.activity.follow(path)))
            return
        user = username(self)
        entries = await workspace.journal.standing(path, MAX_CHANGES, user)
        self.write_json({"changes": [_described(entry, user) for entry in entries]})


class ChangedCellsHandler(TkAIHandler):
    """Which cells of a notebook hold what was written through tools, all of them and briefly."""

    @allowed("read")
    async def get(self) -> None:
        """Tells by cell the time of its last change, and the time of one that is not settled yet.

        A change is among these before it is in the notebook, so that whoever sees something in a
        cell and asks then is told who wrote it.
        """
        path = await _notebook(self, self.get_query_argument("notebook", None))
        cells, unsettled = await self.services.workspace.journal.written(path)
        self.write_json({"cells": cells, "unsettled": unsettled})


class ChangesUndoHandler(TkAIHandler):
    """Taking changes back."""

    @allowed("write")
    async def post(self) -> None:
        """Takes back: ``{"notebook": …, "entries": [12, 15], "cells": ["318a…"]}``.

        Without ``cells`` all that the entries changed. They have to be the user's own, made by
        whichever of their agents.
        """
        body = self.json_body()
        if body.keys() - {"notebook", "entries", "cells"}:
            raise InvalidArguments("The body has fields that are not known.")
        path = await _notebook(self, body.get("notebook"))
        numbers = set(_listed(body.get("entries"), int, "entries"))
        if not 0 <= min(numbers) <= max(numbers) < 2**63:
            raise InvalidArguments("`entries` has numbers that no change has.")
        cells = body.get("cells")
        keys = None if cells is None else frozenset(_listed(cells, str, "cells"))
        from tk_ai_extension.workspace.taking_back import take_back

        workspace, caller = self.services.workspace, self.caller
        standing = await workspace.journal.standing(
            path, MAX_CHANGES, caller.user, since=min(numbers) - 1
        )
        entries = [entry for entry in standing if entry.id in numbers]
        if any(entry.user != caller.user for entry in entries):
            raise PermissionDenied(
                "Some of these changes are another user's.", hint="Take back your own."
            )
        taken = await take_back(workspace, caller, entries, cells=keys)
        self.write_json({"undone": [asdict(one) for one in taken]})


async def _notebook(handler: TkAIHandler, named: object) -> str:
    if not isinstance(named, str) or not named:
        raise InvalidArguments("`notebook` is missing.", hint="Name a notebook by its path.")
    await handler.services.ready()
    return handler.services.workspace.contain(named)


def _listed(found: object, kind: type[_Item], name: str) -> list[_Item]:
    items = cast("list[Any]", found) if isinstance(found, list) else []
    if not items or not all(type(item) is kind for item in items):
        raise InvalidArguments(f"`{name}` has to be a list of {kind.__name__} values.")
    return cast("list[_Item]", items)


def _described(entry: JournalEntry, user: str) -> dict[str, Any]:
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


def _cell(change: Change) -> dict[str, Any]:
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
