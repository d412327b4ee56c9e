"""A damaged file of the history keeps nobody from working."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from tests.workspace.test_journal import A, change, files, ids, made
from tk_ai_extension.model.errors import SaveFailed
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
        await made(journal, changes=[change("x" * 200 * number)])
    await journal.close()
    return whole


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
    assert renewed > 0


async def test_a_file_of_another_schema_is_set_aside(tmp_path: Path) -> None:
    whole = await filled(tmp_path)
    with closing(sqlite3.connect(whole)) as database:
        database.execute("PRAGMA user_version = 99")
    journal = Journal(whole)
    entry = await made(journal)
    assert ids(await journal.history("n.ipynb", 50, "ada")) == [entry]
    await journal.close()
    assert len([path for path in files(tmp_path) if path.suffix == ".broken"]) == 1
