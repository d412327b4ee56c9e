"""The journal keeps what happened through crashes, renames and full disks."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import CELL_TYPES, CellContent
from tk_ai_extension.model.errors import DiskFull, ReadOnly, StateUnavailable
from tk_ai_extension.model.operations import Action, Change
from tk_ai_extension.workspace.journal import PRUNE_EVERY, Journal, JournalEntry
from tk_ai_extension.workspace.stored_changes import MAX_OUTPUTS, decode_changes, encode_changes

pytestmark = pytest.mark.proves("edit:history")

A = Caller("ada", "session-a", name="claude-code 2.1")
B = Caller("ada", "session-b")
BOB = Caller("bob", "session-a")
NO_KEY = Caller("ada")


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = Journal(tmp_path / "state" / "journal.sqlite")
    yield journal
    await journal.close()


def change(source: str = "x", name: str = "318a", outputs: Sequence[dict[str, Any]] = ()) -> Change:
    before = CellContent("code", "", id=name, execution_count=3, outputs=tuple(outputs))
    after = CellContent("code", source, id=name)
    return Change("replace", name, 0, before, after, index_before=0)


async def made(
    journal: Journal,
    caller: Caller = A,
    path: str = "n.ipynb",
    *,
    turn: str | None = None,
    changes: Sequence[Change] | None = None,
) -> int:
    """The id of a change that was made."""
    made = [change()] if changes is None else changes
    summary = "edit @318a"
    return await journal.record(
        caller, path, "edit_cell", summary, kind="change", turn=turn, changes=made
    )


def files(folder: Path) -> list[Path]:
    """Everything below a folder."""
    return list(folder.rglob("*"))


def ids(entries: Sequence[JournalEntry]) -> list[int]:
    return [entry.id for entry in entries]


async def test_all_named_changes_are_found_however_many_there_are(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tk_ai_extension.workspace.journal.MAX_ENTRIES", 3)
    entries = [await made(journal) for _ in range(5)]
    assert ids(await journal.standing("n.ipynb", 5, "ada", entries=entries)) == entries[::-1]
    assert ids(await journal.standing("n.ipynb", 2, "ada", before=entries[3])) == entries[2:0:-1]


async def test_a_refusal_is_kept_too(journal: Journal) -> None:
    await journal.record(
        A, "", "execute_ipython", "no", kind="refused", state="failed", note="permission_denied"
    )
    (refused,) = await journal.history("", 10, "ada")
    assert (refused.kind, refused.state, refused.note) == ("refused", "failed", "permission_denied")


async def test_a_run_is_one_entry_that_is_written_at_its_end(journal: Journal) -> None:
    run = await journal.record(A, "n.ipynb", "execute_cell", "ran @318a: ok", kind="run")
    (entry,) = await journal.history("n.ipynb", 10, "ada")
    assert (entry.id, entry.kind, entry.state) == (run, "run", "done")


async def test_history_is_everybodys_the_newest_first(journal: Journal) -> None:
    entries = [await made(journal, caller) for caller in (A, B, BOB, NO_KEY)]
    await made(journal, A, "other.ipynb")
    history = await journal.history("n.ipynb", 10, "ada")
    assert ids(history) == entries[::-1]
    assert [entry.author for entry in history] == ["ada", "bob", "ada", "claude-code 2.1"]
    assert all(entry.changes == () for entry in history)
    assert ids(await journal.history("n.ipynb", 2, "ada")) == entries[:1:-1]
    assert await journal.history("n.ipynb", 0, "ada") == []


@pytest.mark.proves("ext:multi-user")
async def test_the_session_keys_of_other_users_are_not_shown(journal: Journal) -> None:
    for caller in (A, BOB):
        await made(journal, caller)
    keys = [entry.caller_key for entry in await journal.history("n.ipynb", 10, "ada")]
    assert keys == [None, A.session]


async def test_only_the_callers_own_standing_changes_can_be_undone(journal: Journal) -> None:
    mine = await made(journal)
    for caller in (B, BOB, NO_KEY):
        await made(journal, caller)
    await journal.record(A, "n.ipynb", "execute_cell", "ran", kind="run")
    await made(journal, changes=[])
    assert ids(await journal.undoable(A, "n.ipynb")) == [mine]
    assert await journal.undoable(NO_KEY, "n.ipynb") == []
    assert await journal.undoable(Caller("ada", "session-c"), "n.ipynb") == []


async def test_one_step_a_turn_or_all_since_a_checkpoint_can_be_undone(journal: Journal) -> None:
    first = await made(journal, turn="turn-1")
    second = await made(journal, turn="turn-2")
    third = await made(journal, turn="turn-2")
    fourth = await made(journal, path="other.ipynb", turn="turn-2")
    assert ids(await journal.undoable(A, "n.ipynb", steps=1)) == [third]
    assert ids(await journal.undoable(A, "n.ipynb", steps=2)) == [third, second]
    assert ids(await journal.undoable(A, "n.ipynb", turn="turn-2")) == [third, second]
    assert ids(await journal.undoable(A, "n.ipynb", since=second)) == [third]
    assert ids(await journal.undoable(A, None, since=0)) == [fourth, third, second, first]
    assert await journal.undoable(A, "n.ipynb", since=third) == []


async def test_an_undone_entry_is_not_undone_again(journal: Journal) -> None:
    entries = [await made(journal) for _ in range(3)]
    undone = {entry: [change()] for entry in entries[1:]}
    await journal.record(
        A, "n.ipynb", "undo", "undo 2", kind="undo", changes=[change()], undone=undone
    )
    assert await journal.are_done(entries[:1])
    assert not await journal.are_done(entries)
    assert ids(await journal.undoable(A, "n.ipynb")) == entries[:1]
    states = [entry.state for entry in await journal.history("n.ipynb", 10, "ada")]
    assert states == ["done", "undone", "undone", "done"]


@pytest.mark.proves("kernel:shared-live")
async def test_entries_follow_a_renamed_notebook_and_a_renamed_folder(journal: Journal) -> None:
    inside = await made(journal, path="x_y/%/n.ipynb")
    beside = await made(journal, path="x_y2/n.ipynb")
    similar = await made(journal, path="xzy/n.ipynb")
    await journal.renamed("x_y", "z")
    assert ids(await journal.undoable(A, "z/%/n.ipynb")) == [inside]
    await journal.renamed("z/%/n.ipynb", "m.ipynb")
    assert ids(await journal.history("m.ipynb", 10, "ada")) == [inside]
    assert ids(await journal.history("x_y2/n.ipynb", 10, "ada")) == [beside]
    assert ids(await journal.history("xzy/n.ipynb", 10, "ada")) == [similar]


async def test_a_new_journal_of_the_same_file_knows_everything(tmp_path: Path) -> None:
    before = Journal(tmp_path / "journal.sqlite")
    entry = await made(before)
    await before.close()
    after = Journal(tmp_path / "journal.sqlite")
    assert ids(await after.undoable(A, "n.ipynb")) == [entry]
    assert await made(after) > entry
    await after.close()


async def test_two_servers_write_one_journal(tmp_path: Path) -> None:
    both = [Journal(tmp_path / "journal.sqlite") for _ in range(2)]
    made_ids = await asyncio.gather(*(made(both[n % 2]) for n in range(60)))
    assert len(set(made_ids)) == 60
    for journal in both:
        assert set(ids(await journal.undoable(A, "n.ipynb"))) == set(made_ids)
        await journal.close()


async def test_a_server_killed_in_a_run_leaves_its_entry(tmp_path: Path) -> None:
    database = tmp_path / "journal.sqlite"
    program = f"""
import asyncio, os, signal
from pathlib import Path
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.workspace.journal import Journal

async def main():
    journal = Journal(Path({str(database)!r}))
    caller = Caller("ada", "session-a")
    await journal.record(caller, "n.ipynb", "x", "runs @318a", kind="run", state="intended")
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""
    killed = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], check=False, timeout=30
    )
    assert killed.returncode == -signal.SIGKILL
    journal = Journal(database)
    (entry,) = await journal.history("n.ipynb", 10, "ada")
    assert (entry.state, entry.summary) == ("interrupted", "runs @318a")
    await journal.close()


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


async def test_the_journal_is_for_the_server_alone(tmp_path: Path, journal: Journal) -> None:
    await made(journal)
    folder = tmp_path / "state"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.glob("journal*")}
    assert modes.keys() >= {"journal.sqlite", "journal.sqlite-wal"}
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize(
    "broken", [b"no journal at all, but some text\n" * 50, b"SQLite format 3\0"]
)
async def test_a_file_that_is_no_journal_is_put_aside(tmp_path: Path, broken: bytes) -> None:
    database = tmp_path / "journal.sqlite"
    await asyncio.to_thread(database.write_bytes, broken)
    journal = Journal(database)
    entry = await made(journal)
    assert ids(await journal.history("n.ipynb", 10, "ada")) == [entry]
    await journal.close()
    (aside,) = (path for path in files(tmp_path) if path.suffix == ".broken")
    assert await asyncio.to_thread(aside.read_bytes) == broken


async def test_a_folder_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "file").write_text, "in the way")
    journal = Journal(tmp_path / "file" / "journal.sqlite")
    with pytest.raises(StateUnavailable, match="File exists"):
        await made(journal)
    await journal.close()


async def test_a_journal_that_was_never_used_leaves_no_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "state" / "journal.sqlite")
    await journal.close()
    assert files(tmp_path) == []


@pytest.mark.proves("threat:exhaustion")
class TestBounds:
    async def test_expired_entries_are_deleted(self, tmp_path: Path) -> None:
        journal = Journal(tmp_path / "journal.sqlite", keep_days=9)
        old, new = await made(journal), await made(journal)
        await journal._database.run(
            lambda db: db.execute("UPDATE entries SET time = time - 864000 WHERE id = ?", (old,))
        )
        await journal.prune()
        assert ids(await journal.history("n.ipynb", 10, "ada")) == [new]
        assert ids(await journal.undoable(A, "n.ipynb")) == [new]
        kept = await journal._database.run(
            lambda db: db.execute("SELECT entry FROM changes").fetchall()
        )
        assert kept == [(new,)]
        await journal.close()

    async def test_over_the_bytes_the_oldest_go_and_the_file_shrinks(self, tmp_path: Path) -> None:
        journal = Journal(tmp_path / "journal.sqlite", max_bytes=1_000_000)
        entries = [await made(journal, changes=[change("x" * 100_000)]) for _ in range(20)]

        async def pages() -> int:
            return await journal._database.run(
                lambda db: db.execute("PRAGMA page_count").fetchone()[0]
            )

        before = await pages()
        await journal.prune()
        assert ids(await journal.history("n.ipynb", 50, "ada")) == entries[:-10:-1]
        assert await pages() < before * 0.6
        await journal.close()

    async def test_a_journal_in_use_keeps_its_bounds_by_itself(self, tmp_path: Path) -> None:
        journal = Journal(tmp_path / "journal.sqlite", max_bytes=20_000)
        for _ in range(PRUNE_EVERY):
            await made(journal, changes=[])
        newest = await made(journal, changes=[])
        history = ids(await journal.history("n.ipynb", 1_000, "ada"))
        assert history == list(range(newest, newest - 101, -1))
        await journal.close()

    async def test_outputs_of_more_than_a_megabyte_are_left_out_and_named(
        self, journal: Journal
    ) -> None:
        small = {"output_type": "stream", "name": "stdout", "text": "x" * 1_000}
        large = {"output_type": "stream", "name": "stdout", "text": "x" * (MAX_OUTPUTS + 1)}
        await made(
            journal, changes=[change("y", "aaaa", [small]), change("y", "bbbb", [small, large])]
        )
        (entry,) = await journal.undoable(A, "n.ipynb")
        assert entry.note == "The outputs of @bbbb were too large to keep."
        first, second = (change.before for change in entry.changes)
        assert first is not None
        assert first.outputs == (small,)
        assert second is not None
        assert (second.outputs, second.execution_count, second.source) == ((), None, "")

    async def test_no_question_answers_with_everything(self, journal: Journal) -> None:
        def fill(db: sqlite3.Connection) -> None:
            db.executemany(
                "INSERT INTO entries"
                " (time, path, user, author, tool, kind, state, summary, note, owner, size)"
                " VALUES (0, 'n.ipynb', 'ada', 'ada', 't', 'run', 'done', ?, '', '', 1)",
                [(str(n),) for n in range(2_000)],
            )

        await journal._database.run(fill)
        assert len(await journal.history("n.ipynb", 10**12, "ada")) == 1_000


@pytest.mark.proves("out:sanitize")
async def test_half_a_surrogate_pair_breaks_nothing(journal: Journal) -> None:
    caller = Caller("ada", "session-a", name="half \ud800")
    changes = [change("half \ud800")]
    await journal.record(
        caller, "n.ipynb", "edit_cell", "half \udfff\0", kind="change", changes=changes
    )
    (kept,) = await journal.undoable(caller, "n.ipynb")
    assert kept.summary == "half \ufffd\0"
    assert kept.changes == (change("half \ud800"),)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=2)
ACTIONS: tuple[Action, ...] = ("insert", "replace", "delete", "move", "outputs")
CONTENTS = st.builds(
    CellContent,
    st.sampled_from(CELL_TYPES),
    st.text(),
    id=st.none() | st.text(),
    metadata=OBJECTS,
    execution_count=st.none() | st.integers(0),
    outputs=st.lists(OBJECTS, max_size=2).map(tuple),
    extra=OBJECTS,
)
CHANGES = st.builds(
    Change,
    st.sampled_from(ACTIONS),
    st.text(),
    st.integers(0),
    st.none() | CONTENTS,
    st.none() | CONTENTS,
    index_before=st.none() | st.integers(0),
    previous=st.none() | st.text(),
)


@given(st.lists(CHANGES, max_size=4))
def test_changes_come_back_from_the_journal_as_they_were(changes: list[Change]) -> None:
    data, note = encode_changes(changes)
    assert decode_changes(data) == tuple(changes)
    assert note == ""


async def test_a_run_is_recorded_when_it_begins_and_at_its_end(journal: Journal) -> None:
    run = await journal.record(A, "n.ipynb", "x", "runs @318a", kind="run", state="intended")
    (begun,) = await journal.history("n.ipynb", 10, "ada")
    await journal.end_run(run, "ran @318a: ok")
    (ended,) = await journal.history("n.ipynb", 10, "ada")
    assert [(entry.id, entry.state) for entry in (begun, ended)] == [
        (run, "intended"),
        (run, "done"),
    ]
    assert (ended.summary, ended.time) == ("ran @318a: ok", begun.time)


@pytest.mark.parametrize(
    ("pragma", "error"),
    [("max_page_count = 1", DiskFull), ("query_only = ON", ReadOnly)],
)
async def test_what_cannot_be_written_is_a_typed_error(
    journal: Journal, pragma: str, error: type[Exception]
) -> None:
    entry = await made(journal)
    await journal._database.run(lambda db: db.execute(f"PRAGMA {pragma}").fetchall())
    with pytest.raises(error) as full:
        await made(journal, changes=[change("x" * 1_000_000)])
    assert "The change was made, but cannot be undone." in str(full.value)
    assert ids(await journal.undoable(A, "n.ipynb")) == [entry]


async def test_of_two_undos_of_an_entry_one_has_it(journal: Journal) -> None:
    entry = await made(journal)
    with journal.claim([entry]) as first, journal.claim([entry]) as second:
        assert (first, second) == (True, False)
    with journal.claim([entry]) as again:
        assert again
