"""Files of former versions are brought to this one's schema, and those of later ones left alone."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.workspace.test_journal import change, files
from tk_ai_extension.agent.transcripts import MIGRATIONS as CHATS
from tk_ai_extension.agent.transcripts import Transcripts
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import StateTooNew, StateUnavailable, ToolError
from tk_ai_extension.workspace.database import Database
from tk_ai_extension.workspace.journal import Journal
from tk_ai_extension.workspace.journal_queries import MIGRATIONS as JOURNAL

DATA = Path(__file__).parent.parent / "data"
ANA = Caller("ana", key="k1", interface="mcp", name="Claude")


def former(name: str, folder: Path) -> Path:
    """The file of a version without a schema version, from its SQL dump."""
    path = folder / f"{name}.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript((DATA / f"{name}_0.sql").read_text(encoding="utf-8"))
    return path


def schema(path: Path) -> tuple[int, set[tuple[Any, ...]]]:
    """The version of a file, and all that is declared in it."""
    with closing(sqlite3.connect(path)) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        return version, set(
            database.execute(
                'SELECT m.type, m.name, m.tbl_name, c.name, c.type, c."notnull", c.dflt_value'
                " FROM sqlite_schema AS m LEFT JOIN pragma_table_info(m.name) AS c"
            )
        )


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


class TestFormer:
    async def test_a_journal_keeps_what_it_had_and_works_on(self, tmp_path: Path) -> None:
        path = former("journal", tmp_path)
        journal = Journal(path, keep_days=100_000)
        history = await journal.history("one.ipynb", 10, "ana")
        assert [(each.id, each.kind, each.state) for each in history] == [
            (5, "change", "interrupted"),
            (4, "refused", "failed"),
            (3, "run", "done"),
            (1, "change", "done"),
        ]
        (undoable,) = await journal.undoable(ANA, None)
        assert undoable.changes[0].after is not None
        assert undoable.changes[0].after.source == "x = 2"
        entry = await journal.intend(ANA, "one.ipynb", "edit_cell", "edit")
        await journal.done(entry, [change("x" * 10_000)])
        await journal.prune()
        await journal.close()
        with closing(sqlite3.connect(path)) as database:
            wrong = database.execute(
                "SELECT id FROM entries LEFT JOIN changes ON entry = id"
                " WHERE size != 200 + coalesce(length(data), 0)"
            ).fetchall()
        assert wrong == []
        new = Journal(tmp_path / "new.sqlite")
        await new.history("one.ipynb", 1, "ana")
        await new.close()
        assert schema(path) == schema(tmp_path / "new.sqlite")
        assert schema(path)[0] == len(JOURNAL)

    async def test_chats_keep_what_they_had_and_work_on(self, tmp_path: Path) -> None:
        path = former("chats", tmp_path)
        transcripts = Transcripts(path)
        (chat,) = await transcripts.list("ana")
        assert (chat.title, chat.notebook, chat.session) == ("A chat", "one.ipynb", "s-1")
        events = await transcripts.events(chat.id)
        assert [each.kind for each in events] == ["message", "text", "done"]
        assert events[1].data["text"] == "Hello \ud83d"
        # The same again replaces, and counts once.
        await transcripts.add(chat.id, events)
        size = await transcripts.size(chat.id)
        await transcripts.close()
        with closing(sqlite3.connect(path)) as database:
            (total,) = database.execute("SELECT sum(length(data)) FROM events").fetchone()
        assert size == total
        new = Transcripts(tmp_path / "new.sqlite")
        await new.list("ana")
        await new.close()
        assert schema(path) == schema(tmp_path / "new.sqlite")
        assert schema(path)[0] == len(CHATS)

    async def test_several_servers_may_migrate_at_once(self, tmp_path: Path) -> None:
        path = former("journal", tmp_path)
        journals = [Journal(path, keep_days=100_000) for _ in range(6)]
        await asyncio.gather(*(each.history("one.ipynb", 10, "ana") for each in journals))
        for each in journals:
            await each.close()
        assert schema(path)[0] == len(JOURNAL)

    async def test_a_migration_that_fails_changes_nothing(self, tmp_path: Path) -> None:
        path = former("journal", tmp_path)
        before = dump(path)
        database = Database(path, ["CREATE TABLE half (x);\nDROP TABLE changes;\nDROP TABLE none;"])
        with pytest.raises(ToolError):
            await database.run(lambda db: db.execute("SELECT 1").fetchall())
        await database.close()
        assert dump(path) == before


@pytest.mark.parametrize("name", ["journal", "chats"])
async def test_a_file_of_a_newer_version_is_neither_read_nor_changed(
    tmp_path: Path, name: str
) -> None:
    path = former(name, tmp_path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
    before = await asyncio.to_thread(path.read_bytes)
    journal, transcripts = Journal(path), Transcripts(path)
    tries: list[Callable[[], Awaitable[object]]] = [
        lambda: journal.history("one.ipynb", 10, "ana"),
        lambda: journal.intend(ANA, "one.ipynb", "edit_cell", "edit"),
        journal.check,
    ]
    if name == "chats":
        tries = [
            lambda: transcripts.list("ana"),
            lambda: transcripts.create("ana", "x", "title", None),
        ]
    for attempt in tries:
        with pytest.raises(StateTooNew, match="schema 99") as refused:
            await attempt()
        assert "Upgrade" in refused.value.hint
    await journal.close()
    await transcripts.close()
    assert await asyncio.to_thread(path.read_bytes) == before
    assert [each for each in files(tmp_path) if each.suffix == ".broken"] == []


@pytest.mark.proves("fault:disk-full")
class TestUnavailable:
    async def test_a_database_that_cannot_be_written_can_be_read(self, tmp_path: Path) -> None:
        nowhere = tmp_path / "file" / "state"
        await asyncio.to_thread((tmp_path / "file").write_text, "in the way")
        journal, transcripts = Journal(nowhere / "j.sqlite"), Transcripts(nowhere / "c.sqlite")
        assert await journal.history("one.ipynb", 10, "ana") == []
        assert await transcripts.list("ana") == []
        for write in (
            journal.intend(ANA, "one.ipynb", "edit_cell", "edit"),
            transcripts.create("ana", "x", "title", None),
            journal.check(),
        ):
            with pytest.raises(StateUnavailable, match=str(nowhere)) as refused:
                await write
            assert "TkAIExtensionApp.data_dir" in refused.value.hint
        await journal.close()
        await transcripts.close()

    async def test_without_locks_it_says_so_at_once_and_goes_on_reading(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = former("chats", tmp_path)

        def no_locks(*_: object) -> None:
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(fcntl, "lockf", no_locks)
        transcripts = Transcripts(path)
        began = time.monotonic()
        with pytest.raises(StateUnavailable, match="no locks"):
            await transcripts.create("ana", "x", "title", None)
        (chat,) = await transcripts.list("ana")
        assert len(await transcripts.events(chat.id)) == 3
        assert time.monotonic() - began < 5
        await transcripts.close()
