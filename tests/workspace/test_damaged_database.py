"""A damaged file of the history keeps nobody from working."""

from __future__ import annotations

import asyncio
import errno
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.workspace.test_journal import A, change, files, ids, made
from tk_ai_extension.agent.transcripts import Transcripts
from tk_ai_extension.model.errors import DiskFull, SaveFailed
from tk_ai_extension.workspace.journal import Journal

PAGE = 4096


def damage(file: Path, number: int) -> None:
    """Overwrites the beginning of a page, from 0."""
    with file.open("r+b") as opened:
        opened.seek(number * PAGE)
        opened.write(b"\xff" * 4)


async def filled(folder: Path) -> Path:
    """A history with changes of all sizes, alone in a folder."""
    whole = folder / "whole" / "journal.sqlite"
    journal = Journal(whole)
    for number in range(30):
        entry = await journal.intend(A, "n.ipynb", "edit_cell", "edit")
        await journal.done(entry, [change("x" * 200 * number)])
    await journal.close()
    return whole


class FullDisk:
    """Opens a file, except the second time."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._opened = 0

    def __call__(self) -> sqlite3.Connection:
        self._opened += 1
        if self._opened == 2:
            raise OSError(errno.ENOSPC, "No space left")
        return self._connect()


async def test_wherever_the_history_is_damaged_changes_are_made_and_undone(tmp_path: Path) -> None:
    whole = await filled(tmp_path)
    pages = whole.stat().st_size // PAGE
    assert pages > 15
    renewed = 0
    for number in range(1, pages):
        folder = tmp_path / f"{number}"
        await asyncio.to_thread(shutil.copytree, whole.parent, folder)
        damage(folder / "journal.sqlite", number)
        journal = Journal(folder / "journal.sqlite")
        # What is under way when the damage is found may fail, and says so.
        with suppress(SaveFailed):
            await made(journal)
        await journal.undoable(A, "n.ipynb")
        entry = await made(journal)
        assert ids(await journal.undoable(A, "n.ipynb"))[0] == entry
        assert ids(await journal.history("n.ipynb", 1, "ada")) == [entry]
        await journal.close()
        aside = [path for path in files(folder) if path.suffix == ".broken"]
        assert len(aside) <= 1
        renewed += len(aside)
    # Damaged indexes are built again, and nothing is lost.
    assert 0 < renewed < pages - 1


async def test_a_second_server_joins_the_new_file(tmp_path: Path) -> None:
    file = tmp_path / "journal.sqlite"
    first, second = Journal(file), Journal(file)
    for journal in (first, second):
        await made(journal)
    await first._database.run(lambda db: db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
    for number in range(1, file.stat().st_size // PAGE):
        damage(file, number)
    entries: list[int] = []
    for _ in range(3):
        for journal in (first, second):
            try:
                entries.append(await made(journal))
            except SaveFailed:
                continue
    assert len(entries) >= 4
    assert ids(await first.undoable(A, "n.ipynb")) == ids(await second.undoable(A, "n.ipynb"))
    await first.close()
    await second.close()
    assert len([path for path in files(tmp_path) if path.suffix == ".broken"]) == 1


async def test_a_new_file_that_cannot_be_made_is_made_later(tmp_path: Path) -> None:
    whole = await filled(tmp_path)
    failures = 0
    for number in range(1, whole.stat().st_size // PAGE):
        folder = tmp_path / f"{number}"
        await asyncio.to_thread(shutil.copytree, whole.parent, folder)
        damage(folder / "journal.sqlite", number)
        journal = Journal(folder / "journal.sqlite")
        with_full_disk = FullDisk(journal._database._connect)
        journal._database._connect = with_full_disk
        for _ in range(2):
            try:
                await made(journal)
                await journal.undoable(A, "n.ipynb")
            except (DiskFull, SaveFailed):
                failures += 1
        entry = await made(journal)
        assert ids(await journal.undoable(A, "n.ipynb"))[0] == entry
        await journal.close()
    assert failures > 0


async def test_no_chat_is_set_aside_because_of_another(tmp_path: Path) -> None:
    """A damaged page is of one chat; the others are still there."""
    whole = tmp_path / "whole" / "chats.sqlite"
    chats = Transcripts(whole)
    for number in range(20):
        await chats.create("ada", f"chat{number}", "Title " * 100, None)
    await chats.close()
    for number in range(1, whole.stat().st_size // PAGE):
        folder = tmp_path / f"{number}"
        await asyncio.to_thread(shutil.copytree, whole.parent, folder)
        damage(folder / "chats.sqlite", number)
        chats = Transcripts(folder / "chats.sqlite")
        with suppress(SaveFailed):
            await chats.rename(await chats.get("ada", "chat3"), "Another")
        await chats.close()
        assert [path for path in files(folder) if path.suffix == ".broken"] == []
