"""The journal keeps what happened through crashes, renames and full disks."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cell_operations import Change
from tk_ai_extension.model.cells import CellData
from tk_ai_extension.model.errors import SaveFailed
from tk_ai_extension.workspace.journal import PRUNE_EVERY, Journal, JournalEntry

pytestmark = pytest.mark.proves("edit:history")

A = Caller("ada", "session-a", name="claude-code 2.1")
BOB = Caller("bob", "session-a")


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = Journal(tmp_path / "state" / "journal.sqlite")
    yield journal
    await journal.close()


def change(source: str = "x", name: str = "318a") -> Change:
    before, after = CellData("code", "", id=name), CellData("code", source, id=name)
    return Change("replace", name, 0, before, after, index_before=0)


async def made(
    journal: Journal,
    caller: Caller = A,
    path: str = "n.ipynb",
    *,
    source: str = "x",
    changes: Sequence[Change] = (),
) -> int:
    """The id of a change that was made."""
    done = changes or [change(source)]
    return await journal.record(
        caller, path, "edit_cell", "edit @318a", kind="change", changes=done
    )


def files(folder: Path) -> list[Path]:
    """Everything below a folder."""
    return list(folder.rglob("*"))


def ids(entries: Sequence[JournalEntry]) -> list[int]:
    return [entry.id for entry in entries]


async def test_what_a_person_keeps_is_not_pending_and_can_be_undone(journal: Journal) -> None:
    both = [change(name="a"), change(name="b")]
    first, second = await made(journal, changes=both), await made(journal, changes=both)
    other = await made(journal, path="other.ipynb")

    async def pending() -> list[tuple[int, str]]:
        entries = await journal.pending("n.ipynb", "ada")
        return [(entry.id, each.cell) for entry in entries for each in entry.changes]

    await journal.keep("n.ipynb", {second: ["a"], other: None})
    assert await pending() == [(second, "b"), (first, "a"), (first, "b")]
    assert await journal.pending("other.ipynb", "ada")
    await journal.renamed("n.ipynb", "m.ipynb")
    await journal.renamed("m.ipynb", "n.ipynb")
    # An undo of another cell leaves it kept.
    await journal.record(
        A, "n.ipynb", "undo", "undo", kind="undo", undone={second: [change(name="b")]}
    )
    assert await pending() == [(first, "a"), (first, "b")]
    kept = {entry.id: entry.kept for entry in await journal.undoable(A, None)}
    assert kept == {second: ("a",), first: (), other: ()}
    await journal.keep("n.ipynb", {first: None})
    assert await pending() == []


async def test_that_a_cell_is_deleted_settles_what_was_done_to_it_before(journal: Journal) -> None:
    first = await made(journal, changes=[change(name="a"), change(name="b")])
    gone = Change("delete", "a", 0, CellData("code", "x", id="a"), None, index_before=0)
    deleted = await made(journal, changes=[gone])
    later = await made(journal, changes=[change(name="a")])
    await journal.keep("n.ipynb", {deleted: ["a"]})
    entries = await journal.pending("n.ipynb", "ada")
    assert [(entry.id, entry.changes[0].cell) for entry in entries] == [(later, "a"), (first, "b")]


@pytest.mark.proves("ext:multi-user")
async def test_the_session_keys_of_other_users_are_not_shown(journal: Journal) -> None:
    for caller in (A, BOB):
        await made(journal, caller)
    keys = [entry.caller_key for entry in await journal.history("n.ipynb", 10, "ada")]
    assert keys == [None, A.session]


@pytest.mark.proves("kernel:shared-live")
async def test_entries_follow_a_renamed_notebook_and_a_renamed_folder(journal: Journal) -> None:
    inside = await made(journal, path="x_y/%/n.ipynb")
    neighbour = await made(journal, path="x_y2/n.ipynb")
    similar = await made(journal, path="xzy/n.ipynb")
    await journal.renamed("x_y", "z")
    assert ids(await journal.undoable(A, "z/%/n.ipynb")) == [inside]
    await journal.renamed("z/%/n.ipynb", "m.ipynb")
    assert ids(await journal.history("m.ipynb", 10, "ada")) == [inside]
    assert ids(await journal.history("x_y2/n.ipynb", 10, "ada")) == [neighbour]
    assert ids(await journal.history("xzy/n.ipynb", 10, "ada")) == [similar]


async def test_a_new_journal_of_the_same_file_knows_everything(tmp_path: Path) -> None:
    before = Journal(tmp_path / "journal.sqlite")
    entry = await made(before)
    await before.close()
    after = Journal(tmp_path / "journal.sqlite")
    assert ids(await after.undoable(A, "n.ipynb")) == [entry]
    assert await made(after) > entry
    await after.close()


@pytest.mark.proves("exec:no-block")
async def test_the_event_loop_goes_on_while_another_server_holds_the_journal(
    tmp_path: Path, journal: Journal
) -> None:
    await made(journal)
    other = sqlite3.connect(tmp_path / "state" / "journal.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(made(journal))
    turned = asyncio.Event()
    asyncio.get_running_loop().call_soon(turned.set)
    await asyncio.wait_for(turned.wait(), 1)
    assert not waiting.done()
    other.execute("COMMIT")
    other.close()
    await asyncio.wait_for(waiting, 15)


def _of_no_database(file: Path) -> None:
    file.write_bytes(b"no journal at all, but some text\n" * 50)


def _of_another_schema(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA user_version = 99")


def _with_damaged_pages(file: Path) -> None:
    with file.open("r+b") as opened:
        for place in range(4096, file.stat().st_size, 4096):
            opened.seek(place)
            opened.write(b"\xff" * 4)


@pytest.mark.parametrize("damage", [_of_no_database, _of_another_schema, _with_damaged_pages])
async def test_a_file_that_cannot_be_used_is_put_aside(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    database = tmp_path / "journal.sqlite"
    before = Journal(database)
    for number in range(30):
        await made(before, source="x" * 200 * number)
    await before.close()
    await asyncio.to_thread(damage, database)
    journal = Journal(database)
    # What is under way when the damage is found may fail, and says so.
    with suppress(SaveFailed):
        await made(journal)
    entry = await made(journal)
    assert ids(await journal.undoable(A, "n.ipynb"))[0] == entry
    await journal.close()
    assert [path.suffix for path in files(tmp_path)].count(".broken") == 1


@pytest.mark.proves("threat:exhaustion")
async def test_a_journal_in_use_keeps_its_bounds_by_itself(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite", max_bytes=1_000_000)
    for _ in range(PRUNE_EVERY):
        await made(journal, source="x" * 20_000)
    newest = await made(journal)
    history = ids(await journal.history("n.ipynb", 1_000, "ada"))
    assert 1 < len(history) < PRUNE_EVERY / 2
    assert history[0] == newest
    await journal.close()
