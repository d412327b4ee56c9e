"""The journal: all changes and runs through tools, with author, time and cell contents, in SQLite.

A change is written once, when it is in the notebook and before it is answered. A run is written before
its code runs, so that a crash leaves a record, and again at its end. A refusal, which changes nothing,
is written once. People's edits in a live document are not recorded: undo compares before it writes
(see `workspace.undo`).
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Collection, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from tk_ai_extension.model.background_tasks import run_to_completion
from tk_ai_extension.model.callers import Caller, EmitEvent
from tk_ai_extension.model.cell_operations import Change
from tk_ai_extension.model.json_values import encodable_text
from tk_ai_extension.workspace.change_encoding import decode_changes, encode_changes, standing
from tk_ai_extension.workspace.database import Database, is_alive, process_of

T = TypeVar("T")


class ChangesInProgress:
    """Runs changes to completion, and tracks those of each turn that are still in progress.

    A stopped turn ends after them, however slow the disk is: otherwise a change could be made after
    the turn was reported as stopped, or as undone.
    """

    def __init__(self) -> None:
        self._running: dict[str, set[asyncio.Future[None]]] = {}

    async def run(self, turn: str | None, work: Coroutine[Any, Any, T]) -> T:
        """Await a change, which is completed even if the caller is cancelled.

        Args:
            turn: The chat's turn that makes it; None for none.
            work: The change, with the record of its outcome.
        """
        if turn is None:
            return await run_to_completion(work)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        running = self._running.setdefault(turn, set())
        running.add(ended)
        try:
            return await run_to_completion(work)
        finally:
            running.discard(ended)
            if not running:
                del self._running[turn]
            ended.set_result(None)

    async def join(self, turn: str) -> bool:
        """Wait until the changes of a turn have their outcome; return whether any was running."""
        waited = False
        while running := self._running.get(turn):
            waited = True
            await asyncio.wait(list(running))
        return waited


Kind = Literal["change", "run", "undo", "refused"]
State = Literal["intended", "done", "failed", "undone", "interrupted"]

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

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time REAL NOT NULL,
    path TEXT NOT NULL,
    user TEXT NOT NULL,
    caller_key TEXT,
    author TEXT NOT NULL,
    model TEXT NOT NULL,
    tool TEXT NOT NULL,
    turn TEXT,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    summary TEXT NOT NULL,
    note TEXT NOT NULL,
    undone_by INTEGER,
    owner TEXT NOT NULL,
    size INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS entries_by_path ON entries (path, id);
CREATE INDEX IF NOT EXISTS entries_by_caller ON entries (user, caller_key, id);
CREATE INDEX IF NOT EXISTS entries_open ON entries (id) WHERE state = 'intended';
CREATE TABLE IF NOT EXISTS changes (
    entry INTEGER PRIMARY KEY REFERENCES entries (id) ON DELETE CASCADE,
    data TEXT NOT NULL
) STRICT;

-- The cells that they concern, to be found without reading all sources and outputs, and
-- whether a person has kept what was done to them. The action of a run is ``run``.
CREATE TABLE IF NOT EXISTS touched (
    entry INTEGER NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
    cell TEXT NOT NULL,
    action TEXT NOT NULL,
    kept INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX IF NOT EXISTS touched_by_entry ON touched (entry);
"""


_INSERT = """
INSERT INTO entries
    (time, owner, user, caller_key, author, model, path, tool, turn, kind, state, summary, note, size)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id
"""

_RAN = """
INSERT INTO touched (entry, cell, action) SELECT id, ?, 'run' FROM entries WHERE id = ?
"""

_GOING_ON = "SELECT DISTINCT owner FROM entries WHERE state = 'intended'"

_LEFT_OVER = """
UPDATE entries SET state = 'interrupted', note = 'interrupted: the server stopped'
WHERE state = 'intended' AND owner = ?
"""

_HISTORY = """
SELECT id, time, path, user, caller_key, author, tool, turn, kind, state, summary, note
FROM entries WHERE path = ? ORDER BY id DESC LIMIT ?
"""

_UNDOABLE = """
SELECT id, time, path, user, caller_key, author, tool, turn, kind, state, summary, note, data,
  (SELECT json_group_array(cell) FROM touched WHERE touched.entry = id AND kept)
FROM entries JOIN changes ON entry = id
WHERE user = :user AND caller_key = :key AND kind = 'change' AND state = 'done'
  AND (:path IS NULL AND instr(path, '//') = 0 OR path = :path)
  AND (:since IS NULL OR id > :since)
  AND (:turn IS NULL OR turn = :turn)
ORDER BY id DESC LIMIT :limit
"""

_DONE = """
SELECT count(*) FROM entries WHERE id IN (SELECT value FROM json_each(?)) AND state = 'done'
"""

_CHANGES = "SELECT entry, data FROM changes WHERE entry IN (SELECT value FROM json_each(?))"

# No path of a notebook has two slashes.
_DETACH = """
UPDATE entries SET path = path || '//'
WHERE path = :path OR substr(path, 1, length(:folder)) = :folder
"""

_STANDING = """
SELECT id, time, path, user, caller_key, author, tool, turn, kind, state, summary, note, data
FROM entries JOIN changes ON entry = id
WHERE path = :path AND kind = 'change' AND state = 'done'
  AND id IN (SELECT value FROM json_each(:ids))
ORDER BY id DESC
"""

_PENDING = """
SELECT id, time, path, user, caller_key, author, tool, turn, kind, state, summary, note, data,
  (SELECT json_group_array(cell) FROM touched WHERE touched.entry = id AND NOT kept) AS cells
FROM entries JOIN changes ON entry = id
WHERE path = :path AND kind = 'change' AND state = 'done' AND cells != '[]'
  AND (:cells IS NULL OR EXISTS (
    SELECT 1 FROM touched
    WHERE touched.entry = id AND cell IN (SELECT value FROM json_each(:cells))
  ))
ORDER BY id DESC LIMIT :limit
"""

_KEEP = """
UPDATE touched SET kept = 1
WHERE entry = :entry AND cell = coalesce(:cell, cell)
  AND EXISTS (SELECT 1 FROM entries WHERE id = touched.entry AND path = :path)
"""

# Keeping the deletion of a cell also keeps its earlier changes.
_KEEP_BEFORE_DELETION = """
UPDATE touched SET kept = 1 FROM (
    SELECT cell, max(entry) AS last FROM touched JOIN entries ON id = entry
    WHERE path = :path AND action = 'delete' AND kept GROUP BY cell
) AS deleted
WHERE touched.cell = deleted.cell AND touched.entry < deleted.last
  AND touched.entry IN (SELECT id FROM entries WHERE path = :path)
"""

_BLAME = """
SELECT id, time, path, user, caller_key, author, tool, turn, kind, state, summary, note, model, data,
  json_group_array(cell)
FROM (
    SELECT max(entry) AS last, cell FROM touched JOIN entries ON id = entry
    WHERE path = ? AND action NOT IN ('move', 'outputs') GROUP BY cell, action = 'run'
) JOIN entries ON id = last LEFT JOIN changes ON changes.entry = last GROUP BY id
"""

_OVER = """
DELETE FROM entries WHERE id IN (SELECT id FROM (
    SELECT id, sum(size) OVER (ORDER BY id DESC) AS total FROM entries
) WHERE total > ?)
"""


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
        state: intended (a run in progress), done, failed (refused), undone, interrupted (the server
            stopped during the run).
        summary: A short description.
        changes: The changes, if the query includes them.
        note: A further note, for example that outputs were too large to store.
        kept: The keys of the cells with changes that a person keeps, in entries that can be undone.
        model: The model that answered in the chat, if the query includes it.
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
    kept: tuple[str, ...] = ()
    model: str = ""

    def only(self, cells: Collection[str]) -> JournalEntry:
        """Return the entry with only its changes of these cells, by key."""
        return replace(self, changes=tuple(each for each in self.changes if each.cell in cells))


class Journal:
    """The journal of a server or an nb project: a SQLite file, used on a dedicated thread.

    Several servers may use the same file. It has mode 0600, in a folder of mode 0700, and is created
    at first use. An unreadable file is renamed and a new one is created, so that notebooks can
    still be changed.

    Args:
        database: The file.
        keep_days: Days for which entries are kept.
        max_bytes: Approximate maximum bytes of changes; the oldest entries are removed first.
    """

    def __init__(
        self, database: Path, *, keep_days: float = KEEP_DAYS, max_bytes: int = MAX_BYTES
    ) -> None:
        self._database = Database(database, _SCHEMA, on_open=self._interrupt_left_over)
        self.emit: EmitEvent = lambda *_: None
        """Emits an event; the composition root sets it."""
        self._owner = process_of(os.getpid())
        self.keep_days = keep_days
        """Days for which entries are kept."""
        self._max_bytes = max_bytes
        self._inserted = 0
        self._claimed: set[int] = set()

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
        changes: Sequence[Change] = (),
        undone: Mapping[int, Sequence[Change]] | None = None,
        run: str = "",
    ) -> int:
        """Record a change, a refusal, a run or the start of a run; return the entry's id.

        It is on disk when this returns. Outputs of more than a megabyte per cell are left out.

        Args:
            caller: The caller that did it.
            path: The notebook; empty for none.
            tool: The tool's name.
            summary: A short description.
            kind: What it was.
            state: ``intended`` for a run that begins.
            note: A further note.
            turn: The chat's turn; None for the caller's turn.
            changes: The changes, in order.
            undone: The changes that these undo, by entry. An entry with other changes keeps those and can
                still be undone.
            run: The summary of a run that begins with it; its entry has the next number.

        Raises:
            DiskFull, ReadOnly, SaveFailed: It could not be written.
        """
        if self._inserted % PRUNE_EVERY == 0:
            await self.prune()
        self._inserted += 1
        now = time.time()

        def insert(db: sqlite3.Connection) -> int:
            data, too_large = encode_changes(changes) if changes else ("", "")
            author, text, more = map(encodable_text, (caller.author, summary, note or too_large))
            row = (
                *(now, self._owner, caller.user, caller.session, author, caller.model, path, tool),
                *(turn or caller.turn, kind, state, text, more, 200 + len(data)),
            )
            entry = int(db.execute(_INSERT, row).fetchone()[0])
            if changes:
                db.execute("INSERT INTO changes VALUES (?, ?)", (entry, data))
                touched = [(entry, change.cell, change.action) for change in changes]
                db.executemany(
                    "INSERT INTO touched (entry, cell, action) VALUES (?, ?, ?)", touched
                )
            if undone:
                _mark_undone(db, undone, entry)
            if run:
                db.execute(_INSERT, (*row[:9], "run", "intended", encodable_text(run), "", 200))
            return entry

        consequence = (
            "The change was made, but cannot be undone." if changes else "Nothing was done."
        )
        recorded = await self._database.run(insert, consequence)
        if kind in ("change", "undo"):
            self.emit("edit", caller, path, tool, "ok")
        return recorded

    async def end_run(self, entry_id: int, summary: str, cells: Iterable[str] = ()) -> None:
        """Record the end of a run, and the keys of the cells that ran."""

        def update(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE entries SET state = 'done', summary = ? WHERE id = ?",
                (encodable_text(summary), entry_id),
            )
            db.executemany(_RAN, [(cell, entry_id) for cell in cells])

        await self._database.run(update)

    async def open(self) -> None:
        """Open the journal before a file is changed, so that the change can be recorded.

        Raises:
            DiskFull, ReadOnly, SaveFailed, StateUnavailable: It cannot be opened.
        """
        await self._database.open()

    @contextmanager
    def claim(self, entries: Collection[int]) -> Generator[bool]:
        """Reserve entries for an undo in the block; yield whether no other undo has reserved one."""
        is_free = self._claimed.isdisjoint(entries)
        if is_free:
            self._claimed.update(entries)
        try:
            yield is_free
        finally:
            if is_free:
                self._claimed.difference_update(entries)

    async def are_done(self, entries: Collection[int]) -> bool:
        """Return whether none of the entries was undone."""
        ids = json.dumps(list(entries))
        count = await self._database.run(lambda db: db.execute(_DONE, (ids,)).fetchone()[0])
        return count == len(entries)

    async def history(self, path: str, limit: int, user: str) -> list[JournalEntry]:
        """Return the entries of all users for a notebook, newest first, without their changes.

        Args:
            path: The notebook.
            limit: Maximum entries.
            user: The user who reads; session keys of other users are left out.
        """

        def select(db: sqlite3.Connection) -> list[JournalEntry]:
            rows = db.execute(_HISTORY, (path, _bounded(limit)))
            return [_entry(row, reader=user) for row in rows]

        return await self._database.run(select)

    async def blame(self, path: str, reader: str) -> dict[str, list[JournalEntry]]:
        """Return the last change of each cell's source and its last run, by the cell's key."""

        def select(db: sqlite3.Connection) -> dict[str, list[JournalEntry]]:
            found: dict[str, list[JournalEntry]] = {}
            for *row, model, data, cells in db.execute(_BLAME, (path,)):
                entry = replace(_entry(row, reader=reader), model=model)
                last = {change.cell: (change,) for change in decode_changes(data or "[]")}
                for cell in json.loads(cells):
                    found.setdefault(cell, []).append(replace(entry, changes=last.get(cell, ())))
            return found

        return await self._database.run(select)

    async def standing(
        self, path: str, reader: str, entries: Collection[int]
    ) -> list[JournalEntry]:
        """Return the changes of these entries to a notebook that were not undone, newest first.

        Args:
            path: The notebook.
            reader: The user who reads; session keys of other users are left out.
            entries: The numbers of the entries, of any users.
        """
        wanted = {"path": path, "ids": json.dumps(sorted(entries))}

        def select(db: sqlite3.Connection) -> list[JournalEntry]:
            rows = db.execute(_STANDING, wanted)
            return [_entry(row[:-1], decode_changes(row[-1]), reader=reader) for row in rows]

        return await self._database.run(select)

    async def pending(
        self, path: str, reader: str, *, cells: Collection[str] | None = None
    ) -> list[JournalEntry]:
        """Return the changes of all users to a notebook that were neither undone nor kept, newest first.

        Args:
            path: The notebook.
            reader: The user who reads; session keys of other users are left out.
            cells: Return only changes of these cells, by key; default: all.
        """
        wanted = {
            "path": path,
            "cells": None if cells is None else json.dumps(list(cells)),
            "limit": MAX_ENTRIES,
        }

        def select(db: sqlite3.Connection) -> list[JournalEntry]:
            entries = [
                _entry(row, decode_changes(data), reader=reader).only(json.loads(unkept))
                for *row, data, unkept in db.execute(_PENDING, wanted)
            ]
            return entries if cells is None else [entry.only(cells) for entry in entries]

        return await self._database.run(select)

    async def keep(self, path: str, chosen: Mapping[int, Collection[str] | None]) -> None:
        """Record that a person keeps changes: they are no longer pending, but can still be undone.

        Args:
            path: The notebook.
            chosen: The keys of the cells, by the numbers of the entries; None for all of an entry.
        """
        pairs = [
            {"path": path, "entry": entry, "cell": cell}
            for entry, cells in chosen.items()
            for cell in (cells if cells is not None else [None])
        ]

        def update(db: sqlite3.Connection) -> None:
            db.executemany(_KEEP, pairs)
            db.execute(_KEEP_BEFORE_DELETION, {"path": path})

        await self._database.run(update)

    async def undoable(
        self,
        caller: Caller,
        path: str | None,
        *,
        steps: int | None = None,
        since: int | None = None,
        turn: str | None = None,
    ) -> list[JournalEntry]:
        """Return the caller's entries that were not undone, newest first, with their changes.

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
            return [
                replace(
                    _entry(row, decode_changes(data), reader=caller.user),
                    kept=tuple(json.loads(kept)),
                )
                for *row, data, kept in db.execute(_UNDOABLE, wanted)
            ]

        return await self._database.run(select)

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

        They can no longer be found by that path, which another notebook may get, or undone.
        """
        await self._database.run(lambda db: _detach(db, path))

    async def prune(self) -> None:
        """Remove the oldest entries to keep the limits. Insertions call it regularly."""
        oldest = time.time() - self.keep_days * 86_400

        def delete(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM entries WHERE time < ?", (oldest,))
            db.execute(_OVER, (self._max_bytes,))

        await self._database.run(delete)
        # `execute` would run only one step of the pragma, which frees a single page.
        vacuum = "PRAGMA incremental_vacuum"
        await self._database.run(lambda db: db.executescript(vacuum).close())

    async def close(self) -> None:
        """Wait for running queries and close the file."""
        await self._database.close()

    def _interrupt_left_over(self, db: sqlite3.Connection) -> None:
        """Mark open runs of stopped servers as interrupted."""
        for (owner,) in db.execute(_GOING_ON).fetchall():
            if owner != self._owner and not is_alive(owner):
                db.execute(_LEFT_OVER, (owner,))


def _mark_undone(db: sqlite3.Connection, undone: Mapping[int, Sequence[Change]], by: int) -> None:
    """Mark entries as undone; an entry keeps its changes that were not undone."""
    for entry, data in db.execute(_CHANGES, (json.dumps(list(undone)),)).fetchall():
        if left := standing(decode_changes(data), undone[entry]):
            db.execute(
                "UPDATE changes SET data = ? WHERE entry = ?", (encode_changes(left)[0], entry)
            )
            db.execute(
                "DELETE FROM touched WHERE entry = ? AND cell NOT IN (SELECT value FROM json_each(?))",
                (entry, json.dumps([change.cell for change in left])),
            )
        else:
            db.execute(
                "UPDATE entries SET state = 'undone', undone_by = ? WHERE id = ?", (by, entry)
            )


def _detach(db: sqlite3.Connection, path: str) -> None:
    db.execute(_DETACH, {"path": path, "folder": f"{path}/"})


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
