"""The journal: each change and run with before, after, who and when, in SQLite.

An intent row is written before a change and its outcome after, so that a crash in between leaves a
row that says so. What changes no notebook (a run, a refusal) is written once, when it is over.
People's own edits in a live document are not in it: undo compares before it sets
(see `workspace.undo_plan`).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.operations import Change
from tk_ai_extension.workspace import journal_queries as queries
from tk_ai_extension.workspace.change_encoding import decode_changes, encode_changes
from tk_ai_extension.workspace.database import Database
from tk_ai_extension.workspace.owners import is_alive, own_process

Kind = Literal["change", "run", "undo", "refused"]
State = Literal["intended", "done", "failed", "undone", "interrupted", "unknown"]

MAX_ENTRIES = 1_000
"""The most entries that one question answers with."""

KEEP_DAYS = 90.0
"""How long entries are kept."""
MAX_BYTES = 500_000_000
"""Bytes of changes that are kept, about."""
PRUNE_EVERY = 500
"""Entries between two looks at the bounds; the first one looks too."""


_Written = tuple[str, str, str | None, Kind, State, str, str]
"""Path, tool, turn, kind, state, summary and note of a new entry."""


@dataclass(frozen=True, slots=True)
class Touched:
    """Which cells a change that stands is about.

    Attributes:
        entry: Its number in the journal.
        time: Seconds since the epoch.
        path: The notebook's path now.
        turn: The chat's turn, where it belongs to one.
        cells: The cells' keys, in the order in which they were changed.
    """

    entry: int
    time: float
    path: str
    turn: str | None
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """What somebody did, or meant to do.

    Attributes:
        id: Rises with time; a checkpoint is the id of the newest entry at that moment.
        time: Seconds since the epoch.
        path: The notebook's path now; empty where it concerns none.
        user: Jupyter's user name.
        caller_key: The caller's session (`Caller.session`); None where it has none, or to others
            than its user.
        author: The name that people see.
        tool: The tool's name.
        turn: The chat's turn, where it belongs to one.
        kind: change, run, undo, or refused (by the permission mode or a person).
        state: intended (it goes on), done, failed (nothing was changed), undone, interrupted (the
            server stopped in it; ``unknown`` in rows of earlier versions).
        summary: What happened, in a few words.
        changes: The changes, where they were asked for.
        note: What a reader should know besides, for example that outputs were too large to keep.
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


class Journal:
    """The journal of a server or an nb project: one SQLite file, used on a thread of its own.

    Several servers may use one file. The file is of mode 0600 in a folder of mode 0700, made at
    first use. A file that is no journal is put aside and a new one begun: changing a notebook must
    not depend on an old journal.

    Args:
        database: The file.
        keep_days: How long entries are kept.
        max_bytes: How many bytes of changes are kept, about; the oldest go first.
    """

    def __init__(
        self, database: Path, *, keep_days: float = KEEP_DAYS, max_bytes: int = MAX_BYTES
    ) -> None:
        self._database = Database(database, queries.MIGRATIONS, on_open=_interrupt_left_over)
        self.keep_days = keep_days
        """Days for which entries are kept."""
        self._max_bytes = max_bytes
        self._inserted = 0

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
        """Write down what is about to be done; on disk when it returns.

        Returns:
            The entry's id, for `done` or `failed`.

        Raises:
            DiskFull, ReadOnly, SaveFailed: it could not be written; nothing was changed.
        """
        said = _storable(summary)
        turn = turn or caller.turn
        return await self._insert(caller, (path, tool, turn, kind, "intended", said, ""))

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
        """Write down what is over and can not be undone, at once; returns the entry's id.

        Raises:
            DiskFull, ReadOnly, SaveFailed: it is not written down.
        """
        said = _storable(summary)
        turn = turn or caller.turn
        return await self._insert(caller, (path, tool, turn, kind, state, said, _storable(note)))

    async def done(
        self, entry_id: int, changes: Sequence[Change] = (), summary: str | None = None
    ) -> None:
        """Write down what came of an intent. Outputs of more than a megabyte a cell are left out.

        Args:
            entry_id: The intent's.
            changes: The changes, in order.
            summary: What happened, where that differs from the intent.

        Raises:
            DiskFull, ReadOnly, SaveFailed: the change was made, but cannot be undone.
        """
        said = None if summary is None else _storable(summary)

        def update(db: sqlite3.Connection) -> None:
            data, note = encode_changes(changes)
            db.execute(
                "UPDATE entries SET state = 'done', summary = coalesce(?, summary), note = ?"
                " WHERE id = ?",
                (said, note, entry_id),
            )
            if changes:
                db.execute("INSERT OR REPLACE INTO changes VALUES (?, ?)", (entry_id, data))

        await self._database.run(update, "The change was made, but cannot be undone.")

    async def failed(self, entry_id: int, error: str) -> None:
        """Write down that an intent failed and nothing was changed, and why."""
        await self._database.run(
            lambda db: db.execute(
                "UPDATE entries SET state = 'failed', note = ? WHERE id = ?",
                (_storable(error), entry_id),
            ),
            "The journal does not say so.",
        )

    async def undone(self, entry_ids: Sequence[int], by: int) -> None:
        """Write down that entries were taken back by another entry."""
        await self._database.run(
            lambda db: db.executemany(
                "UPDATE entries SET state = 'undone', undone_by = ? WHERE id = ?",
                [(by, entry_id) for entry_id in entry_ids],
            ),
            "The changes were taken back, but the journal does not say so.",
        )

    async def partly_undone(self, left: Mapping[int, Sequence[Change]]) -> None:
        """Write down that of these entries only these changes still stand."""
        rows = [(encode_changes(changes)[0], entry_id) for entry_id, changes in left.items()]
        await self._database.run(
            lambda db: db.executemany("UPDATE changes SET data = ? WHERE entry = ?", rows),
            "The changes were taken back, but the journal does not say so.",
        )

    async def history(self, path: str, limit: int, user: str) -> list[JournalEntry]:
        """Everybody's entries on a notebook, the newest first, without their changes.

        Args:
            path: The notebook.
            limit: The most entries.
            user: Who asks; the session keys of others are left out.
        """

        def select(db: sqlite3.Connection) -> list[JournalEntry]:
            rows = db.execute(queries.HISTORY, (path, _bounded(limit)))
            return [_entry(row, reader=user) for row in rows]

        return await self._database.read(select)

    async def standing(
        self, path: str, limit: int, reader: str, *, since: int = 0
    ) -> list[JournalEntry]:
        """Everybody's changes to a notebook that stand, the newest first, with what they changed.

        Args:
            path: The notebook.
            limit: The most entries.
            reader: Who asks; the session keys of others are left out.
            since: Only those after this entry.
        """
        wanted = {"path": path, "since": since, "limit": _bounded(limit)}

        def select(db: sqlite3.Connection) -> list[JournalEntry]:
            rows = db.execute(queries.STANDING, wanted)
            return [_entry(row[:-1], decode_changes(row[-1]), reader=reader) for row in rows]

        return await self._database.read(select)

    async def written(self, path: str) -> tuple[dict[str, float], float | None]:
        """The cells in which something stands that was written through tools, and since when.

        Returns:
            By the cell's key the time of its last change, in seconds since the epoch; and the time
            of the newest change of which is not known what it did to which cells: one that goes on,
            or that a server stopped in. None where there is none.
        """

        def select(db: sqlite3.Connection) -> tuple[dict[str, float], float | None]:
            # In this order: what is settled in between is among the cells then.
            [unsettled] = db.execute(queries.UNSETTLED, (path,)).fetchone()
            return dict(db.execute(queries.WRITTEN, (path,)).fetchall()), unsettled

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
        """The caller's own changes that stand, the newest first, with their changes.

        Args:
            caller: Whose; one without a key has none, since another session's would be among them.
            path: On this notebook; None for all.
            steps: The newest so many.
            since: Those after this checkpoint (an entry's id).
            turn: Those of this turn.
        """
        if caller.key is None:
            return []
        wanted = {
            "user": caller.user,
            "key": caller.session,
            "path": path,
            "since": since,
            "turn": turn,
            "limit": _bounded(steps),
        }

        def select(db: sqlite3.Connection) -> list[JournalEntry]:
            rows = db.execute(queries.UNDOABLE, wanted)
            return [_entry(row[:-1], decode_changes(row[-1]), reader=caller.user) for row in rows]

        return await self._database.read(select)

    async def touched(self, caller: Caller) -> list[Touched]:
        """Which cells the caller's own changes that stand are about, the newest first.

        Args:
            caller: Whose; one without a key has none, since another session's would be among them.
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
        """A notebook, or a folder above some, has another path now; entries follow."""

        def update(db: sqlite3.Connection) -> None:
            db.execute("UPDATE entries SET path = ? WHERE path = ?", (new, old))
            db.execute(
                "UPDATE entries SET path = ? || substr(path, ?) WHERE substr(path, 1, ?) = ?",
                (new, len(old) + 1, len(old) + 1, f"{old}/"),
            )

        await self._database.run(update)

    async def prune(self) -> None:
        """Remove the oldest entries, as the bounds say; new entries do it now and then."""
        oldest = time.time() - self.keep_days * 86_400

        def delete(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM entries WHERE time < ?", (oldest,))
            db.execute(queries.OVER, (self._max_bytes,))

        await self._database.run(delete)
        # As a script, since `execute` would take one step of it, which gives one page back.
        await self._database.run(lambda db: db.executescript("PRAGMA incremental_vacuum"))

    async def check(self) -> None:
        """Find out whether entries can be written now.

        Raises:
            DiskFull, ReadOnly, SaveFailed, StateTooNew, StateUnavailable.
        """
        await self._database.check()

    async def close(self) -> None:
        """End what is under way and closes the file."""
        await self._database.close()

    async def _insert(self, caller: Caller, written: _Written) -> int:
        if self._inserted % PRUNE_EVERY == 0:
            await self.prune()
        self._inserted += 1
        who = (caller.user, caller.session, _storable(caller.author))
        row = (time.time(), own_process(), *who, *written)
        return await self._database.run(
            lambda db: int(db.execute(queries.INSERT, row).fetchone()[0])
        )


def _storable(text: str) -> str:
    """The text as SQLite can hold it: half a surrogate pair becomes a question mark."""
    return text.encode(errors="replace").decode()


def _interrupt_left_over(db: sqlite3.Connection) -> None:
    """Settle what a server that has stopped left; what goes on in another server does go on."""
    for (owner,) in db.execute(queries.GOING_ON).fetchall():
        if not is_alive(owner):
            db.execute(queries.LEFT_OVER, (owner,))


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
