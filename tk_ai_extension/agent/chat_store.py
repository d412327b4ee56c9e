"""Each user's chats in SQLite, and the log of a chat's events.

Followers of a log receive each event at once, in its stored form.
Several servers of one root share the file; only one at a time runs turns in a chat.
"""

from __future__ import annotations

import asyncio
import builtins
import json
import logging
import os
import re
import secrets
import sqlite3
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tk_ai_extension.agent.chat_events import ChatEvent, EventPayload, TextDelta, ThinkingDelta
from tk_ai_extension.model.agent_errors import ChatNotFound, ChatRunningElsewhere
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.json_values import encodable_text
from tk_ai_extension.model.paths import DELETED
from tk_ai_extension.workspace.database import Database, is_alive, process_of

logger = logging.getLogger(__name__)

PAGE_BYTES = 2_000_000
"""Approximate size of a page of events, in bytes; a page has at least one event."""

MAX_UNSAVED = 2_000
"""Maximum number of a chat's events in memory; older ones that a full disk kept out of the store are lost."""

DELAY = 0.1
"""Delay of a piece of text, in seconds; the pieces of that time become one event."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS chats (
    id TEXT PRIMARY KEY,
    user TEXT NOT NULL,
    title TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    -- The server that got the last message.
    server TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS chats_by_user ON chats (user, updated);
CREATE TABLE IF NOT EXISTS turns (
    chat TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    -- The id that the sender chose for the message.
    message TEXT,
    notebook TEXT,
    -- 1: the agent has it.
    progress INTEGER NOT NULL DEFAULT 0,
    ended INTEGER NOT NULL DEFAULT 0,
    replaced INTEGER NOT NULL DEFAULT 0,
    -- The agent's session, and its last entry, at the end of the turn.
    session TEXT,
    position TEXT,
    PRIMARY KEY (chat, id)
) STRICT;
CREATE INDEX IF NOT EXISTS turns_by_message ON turns (message) WHERE message IS NOT NULL;
CREATE TABLE IF NOT EXISTS events (
    chat TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    id INTEGER NOT NULL,
    turn TEXT NOT NULL,
    time REAL NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (chat, id)
) STRICT;
"""

# The chat's notebook is that of its last turn.
_CHATS = """
SELECT id, user, title,
    (SELECT notebook FROM turns WHERE chat = chats.id ORDER BY rowid DESC LIMIT 1),
    created, updated
FROM chats WHERE user = ?
"""

_WILD = re.compile("[%_~]")
"""Special characters of a LIKE pattern."""

# An answer is stored in pieces, which may split a word.
_WITH_WORD = """AND (title LIKE ? ESCAPE '~' OR (
    SELECT group_concat(
        CASE kind WHEN 'message' THEN char(10) ELSE '' END || json_extract(data, '$.text'), '')
    FROM events WHERE chat = chats.id AND kind IN ('message', 'text')) LIKE ? ESCAPE '~')
"""

# The path of a turn's notebook follows renames.
_EVENTS = """
SELECT e.id, e.turn, e.time, e.kind, e.data, t.notebook
FROM events AS e LEFT JOIN turns AS t ON t.chat = e.chat AND t.id = e.turn
WHERE e.chat = ? AND e.id > ? ORDER BY e.id
"""

_PROGRESS = {"began": "progress = 1", "done": "ended = 1"}

_BELOW = "(notebook = :old OR substr(notebook, 1, :size) = :old || '/')"


@dataclass(frozen=True, slots=True)
class Chat:
    """Metadata of a chat.

    Attributes:
        id: Random id; not a credential.
        user: The owner.
        title: Given by the person, else the beginning of the first message.
        notebook: Path of the notebook of the last message, or None; it ends in `paths.DELETED` if
            that was deleted.
        created, updated: Seconds since the epoch.
    """

    id: str
    user: str
    title: str
    notebook: str | None
    created: float
    updated: float


@dataclass(frozen=True, slots=True)
class HistoryPosition:
    """End of the history that an agent keeps of a chat.

    Attributes:
        session: The id of the agent's session.
        position: Id of its last entry. None at the start of a turn, and for an agent that resumes all of
            the session; with a position it forgets what follows.
    """

    session: str
    position: str | None = None


class ChatStore:
    """Store of chats: one SQLite file of mode 0600, accessed from one thread."""

    def __init__(self, database: Path) -> None:
        self._database = Database(database, SCHEMA)
        self._server = f"{secrets.token_hex(4)}@{process_of(os.getpid())}"

    async def create(self, user: str, chat_id: str, title: str) -> None:
        """Create a chat."""
        now = time.time()
        await self._write(
            "INSERT INTO chats (id, user, title, created, updated) VALUES (?, ?, ?, ?, ?)",
            *(chat_id, user, title, now, now),
            failed="The chat was not created.",
        )

    async def get(self, user: str, chat_id: str) -> Chat:
        """Return one of a user's chats.

        Raises:
            ChatNotFound: it does not exist or belongs to another user.
        """
        rows = await self._rows(f"{_CHATS} AND id = ?", user, encodable_text(chat_id))
        if not rows:
            raise ChatNotFound(f"You have no chat `{chat_id[:80]}`.")
        return Chat(*rows[0])

    async def list(self, user: str, words: Sequence[str] = ()) -> builtins.list[Chat]:
        """List a user's chats, most recently used first.

        Args:
            user: The user.
            words: Each must be in the chat's title, or in one of its messages or answers.
        """
        patterns = ["%" + _WILD.sub(r"~\g<0>", word) + "%" for word in words]
        query = f"{_CHATS} {_WITH_WORD * len(patterns)} ORDER BY updated DESC"
        values = [each for pattern in patterns for each in (pattern, pattern)]
        return [Chat(*row) for row in await self._rows(query, user, *values)]

    async def rename(self, chat: Chat, title: str) -> None:
        """Rename a chat."""
        await self._write("UPDATE chats SET title = ? WHERE id = ?", title, chat.id)

    async def used(self, chat_id: str) -> None:
        """Record that a message was sent to this server."""
        update = "UPDATE chats SET updated = ?, server = ? WHERE id = ?"
        await self._write(update, time.time(), self._server, chat_id)

    async def delete(self, chat_id: str) -> None:
        """Delete a chat with its events."""
        await self._write(
            "DELETE FROM chats WHERE id = ?", chat_id, failed="The chat was not deleted."
        )

    async def open(self, chat_id: str) -> tuple[int, Sequence[str]]:
        """Return the number of the last event of a chat, and the turns that a killed server left unfinished.

        Raises:
            ChatRunningElsewhere: another server is running a turn in the chat.
        """

        def read(db: sqlite3.Connection) -> tuple[int, Sequence[str]]:
            query = (
                "SELECT turns.id, server FROM turns JOIN chats ON chats.id = chat"
                " WHERE chat = ? AND NOT ended AND server != ?"
            )
            left = db.execute(query, (chat_id, self._server)).fetchall()
            if left and is_alive(left[0][1].partition("@")[2]):
                raise ChatRunningElsewhere(
                    "Another server of this folder is running a turn in this chat."
                )
            query = "SELECT coalesce(max(id), 0) FROM events WHERE chat = ?"
            return db.execute(query, (chat_id,)).fetchone()[0], [turn for turn, _ in left]

        return await self._database.run(read)

    # -- the agent's history

    async def checkpoint(self, chat_id: str, turn: str, end: HistoryPosition) -> None:
        """Store the end of the agent's history in a turn."""
        await self._write(
            "UPDATE turns SET session = ?, position = ? WHERE chat = ? AND id = ?",
            *(end.session, end.position, chat_id, turn),
        )

    async def history(self, chat_id: str, turn: str) -> HistoryPosition | None:
        """Return the history for an agent that is started for a turn; None if there is none.

        If a session holds replaced turns, it ends at the last turn before them with a known position.
        """
        rows = await self._rows(
            "SELECT session, position, progress, replaced FROM turns"
            " WHERE chat = ? AND id != ? ORDER BY rowid DESC",
            *(chat_id, turn),
        )
        holds_replaced = False
        for session, position, is_known, is_replaced in rows:
            if is_replaced:
                holds_replaced = holds_replaced or bool(is_known)
            elif session is not None and (position is not None or not holds_replaced):
                return HistoryPosition(session, position if holds_replaced else None)
        return None

    async def sessions(self, chat: Chat) -> set[str]:
        """Return all sessions of agents with history of a chat."""
        query = "SELECT session FROM turns WHERE chat = ? AND session IS NOT NULL"
        return {row[0] for row in await self._rows(query, chat.id)}

    # -- turns

    async def turns(self, chat_id: str) -> dict[str, bool]:
        """Return the turns of a chat, oldest first, and whether each is current: it was not replaced."""
        query = "SELECT id, NOT replaced FROM turns WHERE chat = ? ORDER BY rowid"
        return {turn: bool(counts) for turn, counts in await self._rows(query, chat_id)}

    async def replace(self, chat_id: str, turns: Sequence[str]) -> bool:
        """Record that turns were replaced; return whether the agent knows any of them."""

        def update(db: sqlite3.Connection) -> bool:
            rows = [(chat_id, turn) for turn in turns]
            db.executemany("UPDATE turns SET replaced = 1 WHERE chat = ? AND id = ?", rows)
            query = "SELECT progress FROM turns WHERE chat = ? AND id = ?"
            return any(db.execute(query, row).fetchone()[0] for row in rows)

        return await self._database.run(update)

    async def sent(self, user: str, message: str) -> tuple[str, str] | None:
        """Return the chat and the turn of a user's message of this id; None if there is none."""
        rows = await self._rows(
            "SELECT turns.chat, turns.id FROM turns JOIN chats ON chats.id = turns.chat"
            " WHERE message = ? AND user = ?",
            *(message, user),
        )
        return rows[0] if rows else None

    async def notebook_of(self, chat_id: str, turn: str) -> str | None:
        """Return the path of a turn's notebook, as `Chat.notebook`; None if it has none."""
        query = "SELECT notebook FROM turns WHERE chat = ? AND id = ?"
        rows = await self._rows(query, chat_id, turn)
        return rows[0][0] if rows else None

    def move(self, old: str, new: str) -> asyncio.Future[None]:
        """Update stored paths after a notebook or a folder was renamed.

        Starts at once: later calls read the new paths. A former notebook at the new path is gone.
        """

        def update(db: sqlite3.Connection) -> None:
            _detach(db, new)
            db.execute(
                f"UPDATE turns SET notebook = :new || substr(notebook, :size) WHERE {_BELOW}",  # noqa: S608 (names)
                _below(old) | {"new": encodable_text(new)},
            )

        return self._database.run(update, "The chats do not follow the rename.")

    def detach(self, path: str) -> asyncio.Future[None]:
        """Mark stored paths of a deleted notebook, or of those in a deleted folder. Starts at once."""
        return self._database.run(
            lambda db: _detach(db, path), "The chats do not follow the deletion."
        )

    # -- events

    async def add(self, chat_id: str, events: Sequence[ChatEvent]) -> None:
        """Store events; those of a deleted chat are dropped."""
        rows = [
            (chat_id, each.id, each.turn, each.time, each.kind, json.dumps(each.data))
            for each in events
        ]

        def insert(db: sqlite3.Connection) -> None:
            if not db.execute("SELECT 1 FROM chats WHERE id = ?", (chat_id,)).fetchone():
                return
            for each in events:
                if each.kind == "message":
                    db.execute(
                        "INSERT INTO turns (chat, id, message, notebook) VALUES (?, ?, ?, ?)",
                        (chat_id, each.turn, each.data["message"], each.data["notebook"]),
                    )
                elif (change := _PROGRESS.get(each.kind)) is not None:
                    db.execute(
                        f"UPDATE turns SET {change} WHERE chat = ? AND id = ?",  # noqa: S608 (names)
                        (chat_id, each.turn),
                    )
            db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", rows)

        await self._database.run(insert, "The last events of the chat were not saved.")

    async def events(self, chat_id: str) -> builtins.list[ChatEvent]:
        """Return all events of a chat."""
        found, more = await self.page(chat_id)
        while more:
            page, more = await self.page(chat_id, found[-1].id)
            found += page
        return found

    async def page(self, chat_id: str, after: int = 0) -> tuple[builtins.list[ChatEvent], bool]:
        """Return a page of about `PAGE_BYTES` of the events after one, and whether more follow."""

        def select(db: sqlite3.Connection) -> tuple[list[ChatEvent], bool]:
            found: list[ChatEvent] = []
            size = 0
            with closing(db.execute(_EVENTS, (chat_id, after))) as rows:
                for number, turn, at, kind, data, notebook in rows:
                    if size >= PAGE_BYTES:
                        return found, True
                    content = json.loads(data)
                    if kind == "message":
                        content["notebook"] = notebook
                    found.append(ChatEvent(number, turn, at, kind, content))
                    size += len(data)
            return found, False

        return await self._database.run(select)

    async def plan(self, chat_id: str) -> tuple[str, str] | None:
        """Return the turn and the model of the pending plan of a chat: no message was sent since."""
        rows = await self._rows(
            "SELECT ended.turn, json_extract(sent.data, '$.model') FROM"
            " (SELECT chat, turn, data FROM events WHERE chat = ? AND kind IN ('done', 'message',"
            " 'restored') ORDER BY id DESC LIMIT 1) AS ended"
            " JOIN events AS sent ON sent.chat = ended.chat AND sent.turn = ended.turn"
            " WHERE sent.kind = 'message' AND json_extract(ended.data, '$.end') = 'planned'",
            chat_id,
        )
        return rows[0] if rows else None

    async def close(self) -> None:
        """Finish running operations and close the file."""
        await self._database.close()

    async def _rows(
        self, query: str, *values: str | float | None
    ) -> builtins.list[tuple[Any, ...]]:
        return await self._database.run(lambda db: db.execute(query, values).fetchall())

    async def _write(
        self, statement: str, *values: str | float | None, failed: str = "Nothing was changed."
    ) -> None:
        await self._database.run(lambda db: db.execute(statement, values).close(), failed)


def _detach(db: sqlite3.Connection, path: str) -> None:
    db.execute(
        f"UPDATE turns SET notebook = notebook || :mark"  # noqa: S608 (names)
        f" WHERE {_BELOW} AND notebook NOT LIKE '%' || :mark",
        _below(path),
    )


def _below(path: str) -> dict[str, str | int]:
    """Return the parameters of `_BELOW` for a path and everything below it."""
    path = encodable_text(path)
    return {"old": path, "size": len(path) + 1, "mark": DELETED}


class ChatLog:
    """Event log of a chat: numbers the events, notifies the followers and stores them."""

    def __init__(self, chat_id: str, store: ChatStore) -> None:
        self._chat_id = chat_id
        self._store = store
        self.last = 0
        """Number of the last event."""
        # Text that is not published yet.
        self._deltas: list[tuple[str, TextDelta | ThinkingDelta]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._unsaved: deque[ChatEvent] = deque(maxlen=MAX_UNSAVED)
        self._saving: asyncio.Task[bool] | None = None
        self._changed = asyncio.Event()
        self._is_closed = False

    def continue_after(self, stored: int) -> bool:
        """Continue after the stored events; return whether another server stored some of them."""
        if stored <= self.last:
            return False
        self.last = stored
        self._wake()
        return True

    def add(self, turn: str, what: EventPayload) -> None:
        """Add an event, wake the followers, and begin to store it; text waits for `DELAY`."""
        if isinstance(what, TextDelta | ThinkingDelta):
            before_turn, before = self._deltas.pop() if self._deltas else ("", None)
            if (
                before_turn == turn
                and isinstance(before, type(what))
                and before.block == what.block
            ):
                what = replace(before, text=before.text + what.text)
            elif before is not None:
                self._deltas.append((before_turn, before))
            self._deltas.append((turn, what))
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(DELAY, self._publish)
        else:
            self._publish((turn, what))

    async def after(self, last: int = 0, *, turn: str | None = None) -> AsyncIterator[ChatEvent]:
        """Yield the events after one, then new ones, until the log is closed.

        With a turn, yield only its events, up to its last one.
        """
        while True:
            changed, unsaved, found, more = self._changed, list(self._unsaved), [], False
            if last < (unsaved[0].id - 1 if unsaved else self.last):
                found, more = await self._store.page(self._chat_id, last)
            if not more:
                stored = found[-1].id if found else last
                found += [event for event in unsaved if event.id > stored]
            for event in found:
                last = event.id
                if turn in (None, event.turn):
                    yield event
                    if turn is not None and event.kind == "done":
                        return
            if not found:
                if self._is_closed:
                    return
                await changed.wait()

    async def save(self) -> bool:
        """Store the events so far; return whether all are stored. Others are tried again later."""
        while self._unsaved or self._saving is not None:
            if not await asyncio.shield(self._save_soon()):
                return False
        return True

    async def close(self) -> None:
        """End all followers, and store the events for the last time."""
        self._is_closed = True
        self._publish()
        await self.save()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _publish(self, *more: tuple[str, EventPayload]) -> None:
        """Number the pending text, and more events after it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for turn, what in (*self._deltas, *more):
            self.last += 1
            event = ChatEvent(self.last, turn, time.time(), what.kind, asdict(what))
            self._unsaved.append(event)
        self._deltas.clear()
        self._save_soon()
        self._wake()

    def _save_soon(self) -> asyncio.Task[bool]:
        if self._saving is None:
            self._saving = asyncio.create_task(self._save(), name="tk-ai chat events")
        return self._saving

    async def _save(self) -> bool:
        try:
            while self._unsaved:
                events = list(self._unsaved)
                await self._store.add(self._chat_id, events)
                while self._unsaved and self._unsaved[0].id <= events[-1].id:
                    self._unsaved.popleft()
        except ToolError as error:
            # A full disk must not end the chat.
            logger.warning("Cannot save the events of a chat: %s", error.message)
            return False
        else:
            return True
        finally:
            self._saving = None
