"""Transcripts of each user's chats, in SQLite.

Text deltas are stored coalesced. Several servers of one root share the file; a server claims a chat
while it is running turns in it.
"""

from __future__ import annotations

import asyncio
import builtins
import json
import sqlite3
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tk_ai_extension.agent.events import Event
from tk_ai_extension.model.agent_errors import ChatElsewhere, ChatNotFound
from tk_ai_extension.model.errors import LimitReached
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.leases import ServerLease
from tk_ai_extension.model.paths import DELETED
from tk_ai_extension.workspace.database import Database, storable

MAX_CHATS = 500
"""Maximum number of chats of one user; the least recently used is deleted first."""

MAX_BYTES = 500_000_000
"""Maximum size of one user's chats, in bytes; the least recently used is deleted first."""

MAX_CHAT = 100_000_000
"""Maximum size of a chat that accepts messages, in bytes."""

PAGE_BYTES = 2_000_000
"""Approximate size of a page of events, in bytes; a page has at least one event."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS chats (
    id TEXT PRIMARY KEY,
    user TEXT NOT NULL,
    title TEXT NOT NULL,
    notebook TEXT,
    session TEXT,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    size INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX IF NOT EXISTS chats_by_user ON chats (user, updated);
CREATE TABLE IF NOT EXISTS events (
    chat TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    id INTEGER NOT NULL,
    turn TEXT NOT NULL,
    time REAL NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (chat, id)
) STRICT;
CREATE TABLE IF NOT EXISTS answering (
    chat TEXT PRIMARY KEY REFERENCES chats (id) ON DELETE CASCADE,
    server TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS positions (
    chat TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    turn TEXT NOT NULL,
    session TEXT NOT NULL,
    position TEXT NOT NULL,
    PRIMARY KEY (chat, turn)
) STRICT;

-- The events with the path of a turn's notebook, which follows renames.
CREATE INDEX IF NOT EXISTS events_by_notebook ON events (json_extract(data, '$.notebook'))
WHERE kind IN ('message', 'plan');

-- The size of a chat's events, in bytes. REPLACE deletes without firing a trigger.
CREATE TRIGGER IF NOT EXISTS replaced BEFORE INSERT ON events BEGIN
    UPDATE chats SET size = size - coalesce(
        (SELECT length(data) FROM events WHERE chat = new.chat AND id = new.id), 0
    ) WHERE id = new.chat;
END;
CREATE TRIGGER IF NOT EXISTS sized AFTER INSERT ON events BEGIN
    UPDATE chats SET size = size + length(new.data) WHERE id = new.chat;
END;
"""

_COLUMNS = "id, user, title, notebook, session, created, updated"

_OVER = f"""
SELECT {_COLUMNS} FROM (
    SELECT *, row_number() OVER newest AS number, sum(size) OVER newest AS total
    FROM chats WHERE user = ? WINDOW newest AS (ORDER BY updated DESC ROWS UNBOUNDED PRECEDING)
) WHERE number > ? OR (number > 1 AND total > ?)
"""  # noqa: S608 (names)

_ANSWERED = """
SELECT turn, kind, json_extract(data, '$.replaces'), turn IN (
    SELECT turn FROM events WHERE chat = ? AND kind IN ('text', 'thinking', 'tool_call')
)
FROM events WHERE chat = ? AND kind IN ('message', 'restored') ORDER BY id
"""

_MOVE = (
    """
    UPDATE chats SET notebook = :new || substr(notebook, :rest)
    WHERE notebook = :old OR (notebook >= :first AND notebook < :end)
    """,
    """
    UPDATE events SET data = json_set(
        data, '$.notebook', :new || substr(json_extract(data, '$.notebook'), :rest)
    )
    WHERE kind IN ('message', 'plan') AND (
        json_extract(data, '$.notebook') = :old
        OR (json_extract(data, '$.notebook') >= :first AND json_extract(data, '$.notebook') < :end)
    )
    """,
)

_DETACH = (
    """
    UPDATE chats SET notebook = notebook || :mark
    WHERE (notebook = :old OR (notebook >= :first AND notebook < :end))
    AND notebook NOT LIKE '%' || :mark
    """,
    """
    UPDATE events SET data = json_set(
        data, '$.notebook', json_extract(data, '$.notebook') || :mark
    )
    WHERE kind IN ('message', 'plan') AND (
        json_extract(data, '$.notebook') = :old
        OR (json_extract(data, '$.notebook') >= :first AND json_extract(data, '$.notebook') < :end)
    ) AND json_extract(data, '$.notebook') NOT LIKE '%' || :mark
    """,
)

_TURNS = """
SELECT turn, kind, json_extract(data, '$.replaces') FROM events
WHERE chat = ? AND kind IN ('message', 'restored') ORDER BY id
"""


@dataclass(frozen=True, slots=True)
class Chat:
    """Metadata of a chat.

    Attributes:
        id: Random id; not a credential.
        user: The owner.
        title: Given by the person, else the beginning of the first message.
        notebook: Path of the notebook of the last message, or None; it ends in `paths.DELETED` if
            that was deleted.
        session: Id of the agent's session with its history; None before the first response.
        created, updated: Seconds since the epoch.
    """

    id: str
    user: str
    title: str
    notebook: str | None
    session: str | None
    created: float
    updated: float


class Transcripts:
    """Store of chats: one SQLite file of mode 0600, accessed from one thread.

    Args:
        database: The file; the leases of servers are in a folder beside it.
    """

    def __init__(self, database: Path) -> None:
        self._database = Database(database, SCHEMA)
        self._lease = ServerLease(database.with_name("servers"))

    async def create(self, user: str, chat_id: str, title: str, notebook: str | None) -> Chat:
        """Create a chat."""
        now = time.time()
        chat = Chat(chat_id, user, title, notebook, None, now, now)

        await self._write(
            f"INSERT INTO chats ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 (names)
            *(chat_id, user, title, notebook, None, now, now),
            failed="The chat was not created.",
        )
        return chat

    async def over(self, user: str) -> builtins.list[Chat]:
        """List a user's chats beyond the limits of number and size, least recently used."""
        return [Chat(*row) for row in await self._rows(_OVER, user, MAX_CHATS, MAX_BYTES)]

    async def size(self, chat_id: str) -> int:
        """Return the size of a chat's events in bytes; 0 if it does not exist."""
        rows = await self._rows("SELECT coalesce(sum(size), 0) FROM chats WHERE id = ?", chat_id)
        return int(rows[0][0])

    async def check_size(self, chat_id: str) -> None:
        """Check that a chat accepts messages.

        Raises:
            LimitReached: it is too large.
        """
        if await self.size(chat_id) > MAX_CHAT:
            raise LimitReached(
                f"This chat has more than {MAX_CHAT // 1000000} MB.", hint="Start another chat."
            )

    async def get(self, user: str, chat_id: str) -> Chat:
        """Return one of a user's own chats.

        Raises:
            ChatNotFound: it does not exist or belongs to another user.
        """
        return await self._database.read(lambda db: _chat(db, user, chat_id))

    async def list(self, user: str) -> builtins.list[Chat]:
        """List a user's chats, most recently used first."""
        query = f"SELECT {_COLUMNS} FROM chats WHERE user = ? ORDER BY updated DESC"  # noqa: S608 (names)
        return [Chat(*row) for row in await self._rows(query, user)]

    async def rename(self, chat: Chat, title: str) -> None:
        """Rename a chat."""
        await self._set(chat.id, "title = ?", title)

    async def used(self, chat_id: str, notebook: str | None) -> None:
        """Record that a message about a notebook was sent."""
        await self._set(chat_id, "notebook = ?, updated = ?", notebook, time.time())

    async def session(
        self, chat_id: str, session: str, turn: str, position: str | None = None
    ) -> None:
        """Store the id of the agent's session with the chat's history.

        Args:
            chat_id: The chat.
            session: The session.
            turn: The running turn.
            position: The session's last entry after that turn; None before its end.
        """

        def update(db: sqlite3.Connection) -> None:
            db.execute("UPDATE chats SET session = ? WHERE id = ?", (session, chat_id))
            if position is not None:
                db.execute(
                    "INSERT OR REPLACE INTO positions SELECT id, ?, ?, ? FROM chats WHERE id = ?",
                    (turn, session, position, chat_id),
                )

        await self._database.run(update)

    async def position(
        self, chat_id: str, session: str, turns: Sequence[str]
    ) -> tuple[str, str] | None:
        """Return the latest of these turns that has a position, and it: the session's last entry then."""
        rows = await self._rows(
            "SELECT turn, position FROM positions WHERE chat = ? AND session = ?",
            *(chat_id, session),
        )
        found = dict[str, str](rows)
        return next(((turn, found[turn]) for turn in reversed(turns) if turn in found), None)

    async def sessions(self, chat: Chat) -> set[str]:
        """Return all sessions of an agent with history of a chat."""
        rows = await self._rows("SELECT DISTINCT session FROM positions WHERE chat = ?", chat.id)
        return {row[0] for row in rows} | ({chat.session} if chat.session is not None else set())

    async def claim(self, chat: Chat) -> Chat:
        """Claim a chat for this server until it is released; return the chat.

        Raises:
            ChatElsewhere: another running server has claimed it.
            ChatNotFound: it was deleted in the meantime.
        """
        server, lease = self._lease.id, self._lease

        def take(db: sqlite3.Connection) -> Chat:
            lease.begin()
            # No other server may read before this one has written.
            db.execute("BEGIN IMMEDIATE")
            row = db.execute("SELECT server FROM answering WHERE chat = ?", (chat.id,)).fetchone()
            if row is not None and not lease.lives(row[0]):
                row = None
            if row is None:
                db.execute(
                    "INSERT OR REPLACE INTO answering SELECT id, ? FROM chats WHERE id = ?",
                    (server, chat.id),
                )
            elif row[0] != server:
                raise ChatElsewhere("Another server of this folder is running a turn in this chat.")
            return _chat(db, chat.user, chat.id)

        return await self._database.run(take)

    async def release(self, chat_id: str) -> None:
        """Release a chat to other servers; does nothing if another server has claimed it."""
        await self._write(
            "DELETE FROM answering WHERE chat = ? AND server = ?", chat_id, self._lease.id
        )

    async def elsewhere(self) -> frozenset[str]:
        """Return the chats that other running servers have claimed."""
        server, lease = self._lease.id, self._lease

        def select(db: sqlite3.Connection) -> frozenset[str]:
            rows = db.execute("SELECT chat, server FROM answering WHERE server != ?", (server,))
            return frozenset(chat for chat, other in rows if lease.lives(other))

        return await self._database.read(select)

    async def delete(self, chat: Chat) -> None:
        """Delete a chat with its events."""
        await self._write(
            "DELETE FROM chats WHERE id = ?", chat.id, failed="The chat was not deleted."
        )

    async def add(self, chat_id: str, events: Sequence[Event]) -> None:
        """Store events; those of a deleted chat are dropped."""
        rows = [
            (chat_id, event.id, event.turn, event.time, event.kind, _json(event.data), chat_id)
            for event in events
        ]
        await self._database.run(
            lambda db: db.executemany(
                "INSERT OR REPLACE INTO events SELECT ?, ?, ?, ?, ?, ?"
                " WHERE EXISTS (SELECT 1 FROM chats WHERE id = ?)",
                rows,
            ),
            "The last events of the chat were not saved.",
        )

    async def events(self, chat_id: str, after: int = 0) -> builtins.list[Event]:
        """Return the events of a chat after one; use `pages` for a long chat."""
        return [event async for page in self.pages(chat_id, after) for event in page]

    async def pages(self, chat_id: str, after: int = 0) -> AsyncIterator[builtins.list[Event]]:
        """Yield the events of a chat after one, in pages of about `PAGE_BYTES`."""
        while page := await self.page(chat_id, after):
            yield page
            after = page[-1].id

    async def page(self, chat_id: str, after: int = 0) -> builtins.list[Event]:
        """Return a page of about `PAGE_BYTES` of the events after one."""

        def select(db: sqlite3.Connection) -> list[Event]:
            found: list[Event] = []
            size = 0
            rows = db.execute(
                "SELECT id, turn, time, kind, data FROM events WHERE chat = ? AND id > ?"
                " ORDER BY id",
                (chat_id, after),
            )
            with closing(rows):
                for number, turn, at, kind, data in rows:
                    found.append(Event(number, turn, at, kind, json.loads(data)))
                    size += len(data)
                    if size >= PAGE_BYTES:
                        break
            return found

        return await self._database.read(select)

    async def plan(self, chat_id: str) -> Event | None:
        """Return the pending plan of a chat: no message was sent since it was made."""
        rows = await self._rows(
            "SELECT id, turn, time, kind, data FROM events"
            " WHERE chat = ? AND kind IN ('plan', 'message', 'restored') ORDER BY id DESC LIMIT 1",
            chat_id,
        )
        for number, turn, at, kind, data in rows:
            if kind == "plan":
                return Event(number, turn, at, kind, json.loads(data))
        return None

    async def usage(self, chat_id: str) -> Json | None:
        """Return the last usage event of a chat; None if there is none."""
        rows = await self._rows(
            "SELECT data FROM events WHERE chat = ? AND kind = 'usage' ORDER BY id DESC LIMIT 1",
            chat_id,
        )
        return json.loads(rows[0][0]) if rows else None

    async def turns(self, chat_id: str) -> Sequence[str]:
        """Return the turns of a chat that were not replaced, oldest first."""
        found: list[str] = []
        for turn, kind, replaces in await self._rows(_TURNS, chat_id):
            first = turn if kind == "restored" else replaces
            if first in found:
                del found[found.index(first) :]
            if kind == "message":
                found.append(turn)
        return found

    async def onwards(self, chat_id: str, turn: str) -> Sequence[str]:
        """Return a turn and all later ones of a chat, also the replaced ones, oldest first."""
        rows = await self._rows(_TURNS, chat_id)
        turns = [each for each, kind, _ in rows if kind == "message"]
        return turns[turns.index(turn) :] if turn in turns else []

    async def forgotten(self, chat_id: str) -> Sequence[str]:
        """Return the replaced turns, if no response has begun since."""
        found: list[str] = []
        forgotten: list[str] = []
        for turn, kind, replaces, answered in await self._rows(_ANSWERED, chat_id, chat_id):
            first = turn if kind == "restored" else replaces
            if first in found:
                forgotten += found[found.index(first) :]
                del found[found.index(first) :]
            if kind == "message":
                found.append(turn)
                if answered:
                    forgotten.clear()
        return forgotten

    async def answered(self, chat_id: str, turns: Sequence[str]) -> bool:
        """Whether a response to one of these turns has begun."""
        rows = await self._rows(
            "SELECT 1 FROM events WHERE chat = ? AND kind IN ('text', 'thinking', 'tool_call')"
            " AND turn IN (SELECT value FROM json_each(?)) LIMIT 1",
            *(chat_id, json.dumps(turns)),
        )
        return bool(rows)

    async def unended(self, chat_id: str) -> Sequence[str]:
        """Return the turns of a chat without an end, oldest first."""
        rows = await self._rows(
            "SELECT turn FROM events WHERE chat = ? GROUP BY turn"
            " HAVING sum(kind = 'done') = 0 ORDER BY min(id)",
            chat_id,
        )
        return [row[0] for row in rows]

    async def last(self, chat_id: str) -> int:
        """Return the number of the last event of a chat; 0 if there is none."""
        rows = await self._rows("SELECT coalesce(max(id), 0) FROM events WHERE chat = ?", chat_id)
        return int(rows[0][0])

    async def notebook_of(self, chat_id: str, turn: str) -> str | None:
        """Return the path of a turn's notebook, as `Chat.notebook`; None if it has none."""
        query = (
            "SELECT json_extract(data, '$.notebook') FROM events"
            " WHERE chat = ? AND turn = ? AND kind = 'message'"
        )
        rows = await self._rows(query, chat_id, turn)
        return rows[0][0] if rows else None

    def move(self, old: str, new: str) -> asyncio.Future[None]:
        """Update stored paths after a notebook or a folder was renamed.

        Begun at once: what later calls read has the new paths. A former notebook at the new path is gone.
        """

        def update(db: sqlite3.Connection) -> None:
            for statement in _DETACH:
                db.execute(statement, _below(new))
            for statement in _MOVE:
                db.execute(statement, _below(old) | {"new": storable(new)})

        return self._database.run(update, "The chats do not follow the rename.")

    def detach(self, path: str) -> asyncio.Future[None]:
        """Mark stored paths of a deleted notebook, or of those in a deleted folder. Begun at once."""

        def update(db: sqlite3.Connection) -> None:
            for statement in _DETACH:
                db.execute(statement, _below(path))

        return self._database.run(update, "The chats do not follow the deletion.")

    async def close(self) -> None:
        """Finish running operations and close the file."""
        await self._database.close()
        self._lease.end()

    async def _set(self, chat_id: str, columns: str, *values: str | float | None) -> None:
        await self._write(f"UPDATE chats SET {columns} WHERE id = ?", *values, chat_id)  # noqa: S608 (names)

    async def _rows(
        self, query: str, *values: str | float | None
    ) -> builtins.list[tuple[Any, ...]]:
        return await self._database.read(lambda db: db.execute(query, values).fetchall())

    async def _write(
        self, statement: str, *values: str | float | None, failed: str = "Nothing was changed."
    ) -> None:
        await self._database.run(lambda db: db.execute(statement, values), failed)


def _chat(db: sqlite3.Connection, user: str, chat_id: str) -> Chat:
    """Return one of a user's own chats.

    Raises:
        ChatNotFound: it does not exist or belongs to another user.
    """
    row = db.execute(
        f"SELECT {_COLUMNS} FROM chats WHERE id = ? AND user = ?",  # noqa: S608 (names)
        (chat_id, user),
    ).fetchone()
    if row is None:
        raise ChatNotFound(f"You have no chat `{chat_id[:80]}`.")
    return Chat(*row)


def _below(path: str) -> dict[str, str | int]:
    """Return the parameters for a path and everything below it."""
    path = storable(path)
    # "0" is the character after "/".
    bounds = {"first": f"{path}/", "end": f"{path}0"}
    return {"old": path, "rest": len(path) + 1, "mark": DELETED, **bounds}


def _json(value: object) -> str:
    """Return JSON that SQLite can store: lone surrogates stay escaped."""
    return json.dumps(value)
