"""The database of the chats, in which the paths of notebooks follow renames and deletions."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tk_ai_extension.agent.chat_paths import NAMING, PathChange, is_deleted
from tk_ai_extension.agent.events import Event
from tk_ai_extension.workspace.database import Database, storable

T = TypeVar("T")

_NAMES = """
SELECT notebook FROM chats UNION
SELECT json_extract(data, '$.notebook') FROM events WHERE kind IN ('message', 'plan')
"""

_RENAME = """
UPDATE events SET data = json_set(data, '$.notebook', ?)
WHERE kind IN ('message', 'plan') AND json_extract(data, '$.notebook') = ?
"""


class ChatDatabase(Database):
    """A `Database` of chats and events.

    A change of paths that cannot be stored is stored with the next transaction; what is read meanwhile has
    the new paths all the same.
    """

    def __init__(self, path: Path, migrations: Sequence[str]) -> None:
        super().__init__(path, migrations)
        # Oldest first. They are appended on the event loop, and removed on the database's thread.
        self._changes: list[PathChange] = []

    def follow(self, change: PathChange) -> asyncio.Future[None]:
        """Update paths after a rename or a deletion. What later calls store has the paths from after it.

        Raises (when awaited): As `run`.
        """
        self._changes.append(change)
        return self.run(lambda _: None)

    def run(
        self,
        work: Callable[[sqlite3.Connection], T],
        consequence: str = "Nothing was changed.",
        stored: Callable[[], None] = lambda: None,
    ) -> asyncio.Future[T]:
        """Run work as `Database.run`, after the changes of paths that are not stored yet."""
        newest = self._changes[-1] if self._changes else None
        applied: list[PathChange] = []

        def after_changes(db: sqlite3.Connection) -> T:
            known = list(self._changes)
            applied[:] = known[: known.index(newest) + 1] if newest in known else ()
            for change in applied:
                _apply(db, change)
            return work(db)

        def committed() -> None:
            del self._changes[: len(applied)]
            stored()

        return super().run(after_changes, consequence, committed)

    async def read_named(
        self, select: Callable[[sqlite3.Connection], T]
    ) -> tuple[T, Sequence[PathChange]]:
        """Return what is stored, and the changes of paths that are not: see `changed`."""
        return await self.read(lambda db: (select(db), tuple(self._changes)))


def changed(path: str | None, changes: Sequence[PathChange]) -> str | None:
    """Return a stored path after changes."""
    if path is None:
        return None
    for change in changes:
        path = change(path) or path
    return path


def changed_event(event: Event, changes: Sequence[PathChange]) -> Event:
    """Return a stored event with the path of its notebook after changes."""
    if not changes or event.kind not in NAMING:
        return event
    notebook = changed(event.data["notebook"], changes)
    return replace(event, data={**event.data, "notebook": notebook})


def _apply(db: sqlite3.Connection, change: PathChange) -> None:
    paths = [row[0] for row in db.execute(_NAMES) if row[0] is not None]
    found = [(storable(now), path) for path in paths if (now := change(path)) is not None]
    # A former notebook of the new path first.
    for now, path in sorted(found, key=lambda each: not is_deleted(each[0])):
        db.execute("UPDATE chats SET notebook = ? WHERE notebook = ?", (now, path))
        db.execute(_RENAME, (now, path))
