"""The journal: all changes and runs through tools, with author, time and cell contents, in SQLite.

An intent is written before a change and the outcome after it, so that a crash in between leaves a
record. A refusal, which changes nothing, is written once. People's own edits in a live document are
not recorded: undo compares before it writes (see `workspace.undo_plan`).
"""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.leases import ServerLease
from tk_ai_extension.model.operations import Change
from tk_ai_extension.workspace import journal_queries as queries
from tk_ai_extension.workspace.change_encoding import decode_changes, encode_changes, standing
from tk_ai_extension.workspace.database import Database, storable
from tk_ai_extension.workspace.owners import is_alive

logger = logging.getLogger(__name__)

Kind = Literal["change", "run", "undo", "refused"]
State = Literal["intended", "done", "failed", "undone", "interrupted", "unknown"]

ALL = -1
"""No limit, in SQLite."""

MAX_ENTRIES = 1_000
"""Maximum entries in the result of a query."""

KEEP_DAYS = 90.0
"""Days for which entries are kept."""
MAX_BYTES = 500_000_000
"""Approximate maximum bytes of changes that are kept."""
PRUNE_EVERY = 500
"""Number of insertions between two prunings; the first insertion prunes too."""


_Written = tuple[str, str, str | None, Kind, State, str, str]
"""Path, tool, turn, kind, state, summary and note of a new entry."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The cells of a change that was not undone.

    Attributes:
        entry: The number of the journal entry.
        time: The time in seconds since the epoch.
        path: The notebook's current path.
        turn: The chat's turn; None if it belongs to none.
        cells: The cells' keys, in the order of the changes.
    """

    entry: int
    time: float
    path: str
    turn: str | None
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """An entry of the journal.

    Attributes:
        id: Increases with time. A checkpoint is the id of the newest entry at that time.
        time: The time in seconds since the epoch.
        path: The notebook's current path; empty for none.
        user: Jupyter's user name.
        caller_key: The caller's session (`Caller.session`); None if it has none, or for readers who
            are not its user.
        author: The name that people see.
        tool: The tool's name.
        turn: The chat's turn; None if it belongs to none.
        kind: change, run, undo, or refused (by the permission mode or a person).
        state: intended (in progress), done, failed (nothing was changed), undone, interrupted (the
            server stopped during it; ``unknown`` in rows of earlier versions).
        summary: A short description.
        changes: The changes, if the query includes them.
        note: A further note, for example that outputs were too large to store.
    """

    id: int
    time: float
    path: str
    user: str
    caller_key: str | None
    author: str
    tool: str
    turn: str | None
    kind: Kind
    state: State
    summary: str
    changes: tuple[Change, ...] = ()
    note: str = ""

    def only(self, cells: Collection[str]) -> JournalEntry:
        """Return the entry with only its changes of these cells, by key."""
        return replace(self, changes=tuple(each for each in self.changes if each.cell in cells))


class Journal:
    """The journal of a server or an nb project: a SQLite file, used on its own thread.

    Several servers may use the same file. It has mode 0600, in a folder of mode 0700, and is created
    at first use. An unreadable file is renamed and a new one is created, so that notebooks can be
    changed anyway.

    Args:
        database: The file; the leases of servers are in a folder beside it.
        keep_days: Days for which entries are kept.
        max_bytes: Approximate maximum bytes of changes; the oldest entries are removed first.
    """

    def __init__(
        self, database: Path, *, keep_days: float = KEEP_DAYS, max_bytes: int = MAX_BYTES
    ) -> None:
        self._database = Database(
            database, queries.MIGRATIONS, on_open=self._interrupt_left_over, expendable=True
        )
        self._lease = ServerLease(database.with_name("servers"))
        self.keep_days = keep_days
        """Days for which entries are kept."""
        self._max_bytes = max_bytes
        self._inserted = 0
        self._tasks = BackgroundTasks(logger)

    async def intend(
        self,
        caller: Caller,
        path: str,
        tool: str,
        summary: str,
        *,
        kind: Kind = "change",
        turn: str | None = None,
    ) -> int:
        """Record an intent before a change. It is on disk when this returns.

        A caller that is cancelled meanwhile changes nothing, so that the intent fails.

        Returns:
            The entry's id, for `done` or `failed`.

        Raises:
            DiskFull, ReadOnly, SaveFailed: It could not be written. Nothing was changed.
        """
        turn = turn or caller.turn
        row: _Written = (path, tool, turn, kind, "intended", storable(summary), "")

        async def withdraw(entry: int) -> None:
            if kind != "run":  # A run does not wait for its entry.
                await self.failed(entry, "The call was cancelled before it changed anything.")

        inserting = self._insert(caller, row)
        return await self._tasks.complete(inserting, "The entry of a call", withdraw)

    async def record(
        self,
        caller: Caller,
        path: str,
        tool: str,
        summary: str,
        *,
        kind: Kind,
        state: State = "done",
        note: str = "",
        turn: str | None = None,
    ) -> int:
        """Record something that has ended and cannot be undone; return the entry's id.

        Raises:
            DiskFull, ReadOnly, SaveFailed: It could not be written.
        """
        turn = turn or caller.turn
        text = storable(summary)
        return await self._insert(caller, (path, tool, turn, kind, state, text, storable(note)))

    async def done(
        self, entry_id: int, changes: Sequence[Change] = (), summary: str | None = None
    ) -> None:
        """Record the outcome of an intent, without outputs of more than a megabyte per cell.

        Args:
            entry_id: The id of the intent.
            changes: The changes, in order.
            summary: A new summary; None to keep that of the intent.

        Raises:
            DiskFull, ReadOnly, SaveFailed: It could not be written, so the change cannot be undone.
        """
        text = None if summary is None else storable(summary)

        def update(db: sqlite3.Connection) -> None:
            data, note = encode_changes(changes)
            db.execute(
                "UPDATE entries SET state = 'done', summary = coalesce(?, summary), note = ?"
                " WHERE id = ?",
                (text, note, entry_id),
            )
            if changes:
                db.execute("INSERT OR REPLACE INTO changes VALUES (?, ?)", (entry_id, data))

        await self._database.run(update, "The change was made, but cannot be undone.")

    async def failed(self, entry_id: int, error: str) -> None:
        """Record that an intent failed and nothing was changed."""
        await self._database.run(
            lambda db: db.execute(
                "UPDATE entries SET state = 'failed', note = ? WHERE id = ?",
                (storable(error), entry_id),
            ),
            "The failure was not recorded in the journal.",
        )

    async def claim(self, entry_ids: Sequence[int]) -> bool:
        """Mark entries as undone before their undo is applied, all or none of them.

        Returns:
            Whether all could be undone; False if another undo has claimed or undone one.
        """
        wanted = {"ids": json.dumps(entry_ids), "count": len(entry_ids)}
        return await self._database.run(
            lambda db: db.execute(queries.CLAIM, wanted).rowcount == len(entry_ids)
        )

    async def release(self, entry_ids: Sequence[int]) -> None:
        """Mark claimed entries as not undone."""
        await self._database.run(
            lambda db: db.execute(queries.RELEASE, (json.dumps(entry_ids),)),
            "The changes were not undone, but the history shows them so.",
        )

    async def undone(self, undone: Mapping[int, Sequence[Change]], by: int) -> None:
        """Record that another entry has undone these changes.

        Args:
            undone: The changes that were undone, by entry. An entry with other changes keeps these and
                is released.
            by: The other entry.
        """

        def update(db: sqlite3.Connection) -> None:
            left = _left(db, undone)
            db.executemany(
                "UPDATE changes SET data = ? WHERE entry = ?",
                [(encode_changes(changes)[0], entry_id) for entry_id, changes in left.items()],
            )
            db.execute(queries.RELEASE, (json.dumps(list(left)),))
            db.executemany(
                "UPDATE entries SET state = 'undone', undone_by = ? "
                "WHERE id = ? AND undone_by IS NULL",
                [(by, entry_id) for entry_id in undone if entry_id not in left],
            )

        await self._database.run(
            update,
            "The changes were undone, but the journal could not be updated.",
        )

    async def history(self, path: str, limit: int, user: str) -> list[JournalEntry]:
        """Return the entries of all users for a notebook, newest first, without their changes.

        Args:
            path: The notebook.
            limit: Maximum entries.
            user: The user who reads; session keys of other users are left out.
        """

        def select(db: sqlite3.Connection) -> list[JournalEntry]:
            rows = db.execute(queries.HISTORY, (path, _bounded(limit)))
            return [_entry(row, reader=user) for row in rows]

        return await self._database.read(select)

    async def standing(
        self,
        path: str,
        limit: int,
        reader: str,
        *,
        entries: Collection[int] | None = None,
        before: int | None = None,
    ) -> list[JournalEntry]:
        """Return the changes of all users to a notebook that were not undone, newest first.

        Args:
            path: The notebook.
            limit: Maximum entries.
            reader: The user who reads; session keys of other users are left out.
            entries: Return only the entries of these numbers.
            before: Return only entries before this one.
        """
        ids = None if entries is None else json.dumps(sorted(entries))
        wanted = {"path": path, "ids": ids, "before": before, "limit": limit}

        def select(db: sqlite3.Connection) -> list[JournalEntry]:
            rows = db.execute(queries.STANDING, wanted)
            return [_entry(row[:-1], decode_changes(row[-1]), reader=reader) for row in rows]

        return await self._database.read(select)

    async def written(
        self, path: str
    ) -> tuple[dict[str, list[float]], dict[str, float], float | None]:
        """Return the cells that were written through tools and not undone.

        Returns:
            The times of the cells' changes by key, in seconds since the epoch; the time of the last
            change or undo by key; and the time of the newest change whose cells are unknown, because
            it is in progress or was interrupted, or None.
        """

        def select(
            db: sqlite3.Connection,
        ) -> tuple[dict[str, list[float]], dict[str, float], float | None]:
            # In this order: a change that is settled in between is then among the cells.
            [unsettled] = db.execute(queries.UNSETTLED, (path,)).fetchone()
            changes: dict[str, list[float]] = {}
            last: dict[str, float] = {}
            for cell, at, is_change in db.execute(queries.WRITTEN, (path,)):
                last[cell] = max(at, last.get(cell, at))
                if is_change:
                    changes.setdefault(cell, []).append(at)
            return changes, {cell: last[cell] for cell in changes}, unsettled

        return await self._database.read(select)

    async def undoable(
        self,
        caller: Caller,
        path: str | None,
        *,
        steps: int | None = None,
        since: int | None = None,
        turn: str | None = None,
    ) -> list[JournalEntry]:
        """Return the caller's own entries that were not undone, newest first, with their changes.

        Args:
            caller: The caller. Without a key there are none, because sessions of a user cannot be
                distinguished.
            path: Return only entries of this notebook.
            steps: Maximum entries.
            since: Return only entries after this checkpoint (an entry's id).
            turn: Return only entries of this turn; without ``steps``, all of them.
        """
        if caller.key is None:
            return []
        wanted = {
            "user": caller.user,
            "key": caller.session,
            "path": path,
            "since": since,
            "turn": turn,
            "limit": ALL if turn is not None and steps is None else _bounded(steps),
        }

        def select(db: sqlite3.Connection) -> list[JournalEntry]:
            rows = db.execute(queries.UNDOABLE, wanted)
            return [_entry(row[:-1], decode_changes(row[-1]), reader=caller.user) for row in rows]

        return await self._database.read(select)

    async def touched(self, caller: Caller) -> list[Touched]:
        """Return the cells of the caller's own changes that were not undone, newest first.

        Args:
            caller: The caller. Without a key there are none, because sessions of a user cannot be
                distinguished.
        """
        if caller.key is None:
            return []
        wanted = {"user": caller.user, "key": caller.session, "limit": MAX_ENTRIES}

        def select(db: sqlite3.Connection) -> list[Touched]:
            cells: dict[tuple[int, float, str, str | None], dict[str, None]] = {}
            for *entry, cell in db.execute(queries.TOUCHED, wanted):
                cells.setdefault(tuple(entry), {})[cell] = None
            return [Touched(*entry, tuple(keys)) for entry, keys in cells.items()]

        return await self._database.read(select)

    async def renamed(self, old: str, new: str) -> None:
        """Update the paths of entries after a notebook or a folder was renamed.

        Entries of a former notebook of the new name are detached, as by `deleted`.
        """

        def update(db: sqlite3.Connection) -> None:
            _detach(db, new)
            db.execute("UPDATE entries SET path = ? WHERE path = ?", (new, old))
            db.execute(
                "UPDATE entries SET path = ? || substr(path, ?) WHERE substr(path, 1, ?) = ?",
                (new, len(old) + 1, len(old) + 1, f"{old}/"),
            )

        await self._database.run(update)

    async def deleted(self, path: str) -> None:
        """Detach the entries of a deleted notebook, or of those in a deleted folder, from its path.

        They are no longer found by that path, which another notebook may get, and cannot be undone.
        """
        await self._database.run(lambda db: _detach(db, path))

    async def prune(self) -> None:
        """Remove the oldest entries to keep the limits. Insertions call it regularly."""
        oldest = time.time() - self.keep_days * 86_400

        def delete(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM entries WHERE time < ?", (oldest,))
            db.execute(queries.OVER, (self._max_bytes,))

        await self._database.run(delete)
        # `execute` would run only one step of the pragma, which frees a single page.
        await self._database.run(lambda db: db.executescript("PRAGMA incremental_vacuum"))

    async def check(self) -> None:
        """Check that entries can be written now.

        Raises:
            DiskFull, ReadOnly, SaveFailed, StateTooNew, StateUnavailable: They cannot.
        """
        await self._database.check()

    async def close(self) -> None:
        """Wait for running queries and close the file."""
        await self._tasks.join()
        await self._database.close()
        self._lease.end()

    async def _insert(self, caller: Caller, written: _Written) -> int:
        if self._inserted % PRUNE_EVERY == 0:
            await self.prune()
        self._inserted += 1
        identity = (caller.user, caller.session, storable(caller.author))
        now = time.time()
        row = (now, now, self._lease.id, *identity, *written)

        def insert(db: sqlite3.Connection) -> int:
            self._lease.begin()
            return int(db.execute(queries.INSERT, row).fetchone()[0])

        return await self._database.run(insert)

    def _interrupt_left_over(self, db: sqlite3.Connection) -> None:
        """Mark open intents of stopped servers as interrupted, and release what they claimed."""
        for (owner,) in db.execute(queries.GOING_ON).fetchall():
            if not self._lease.lives(owner) and not is_alive(owner):
                db.execute(queries.LEFT_OVER, (owner,))
        db.execute(queries.RELEASE_LEFT_OVER)


def _left(
    db: sqlite3.Connection, undone: Mapping[int, Sequence[Change]]
) -> dict[int, list[Change]]:
    """Return the changes of entries beside the undone ones, as far as there are any."""
    rows = db.execute(queries.CHANGES, (json.dumps(list(undone)),))
    left = {entry_id: standing(decode_changes(data), undone[entry_id]) for entry_id, data in rows}
    return {entry_id: changes for entry_id, changes in left.items() if changes}


def _detach(db: sqlite3.Connection, path: str) -> None:
    db.execute(queries.DETACH, {"path": path, "folder": f"{path}/"})


def _bounded(limit: int | None) -> int:
    return MAX_ENTRIES if limit is None else max(0, min(limit, MAX_ENTRIES))


def _entry(row: Sequence[Any], changes: tuple[Change, ...] = (), *, reader: str) -> JournalEntry:
    entry_id, at, path, user, key, author, tool, turn, kind, state, summary, note = row
    return JournalEntry(
        id=entry_id,
        time=at,
        path=path,
        user=user,
        caller_key=key if user == reader else None,
        author=author,
        tool=tool,
        turn=turn,
        kind=kind,
        state=state,
        summary=summary,
        changes=changes,
        note=note,
    )
