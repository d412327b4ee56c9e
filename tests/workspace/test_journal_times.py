"""The times of journal entries increase, however the clock of the system is set."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workspace.test_journal import A, change, journal, made
from tk_ai_extension.workspace import journal as journals
from tk_ai_extension.workspace.journal import Journal

__all__ = ["journal"]

pytestmark = pytest.mark.proves("edit:history")

NOW = 1_790_000_000.0

CLOCKS = st.lists(
    st.sampled_from([0.0, 1e-7, 1.0, -1.0, -3_600.0, 86_400.0, -10_000.0]), min_size=2, max_size=8
)


async def test_a_change_in_progress_is_newer_than_what_a_person_has_seen(journal: Journal) -> None:
    slow = await journal.intend(A, "n.ipynb", "edit_cell", "edit")
    await made(journal)
    (shown,) = await journal.standing("n.ipynb", 10, A.user)
    *_, unsettled = await journal.written("n.ipynb")
    assert unsettled is not None
    assert unsettled > shown.time
    await journal.done(slow, [change(name="slow")])
    assert (await journal.written("n.ipynb"))[-1] is None


async def test_after_a_clock_that_was_years_ahead_times_are_right_again(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for clock in (NOW + 1e8, NOW, NOW - 5.0):
        monkeypatch.setattr(journals.time, "time", lambda clock=clock: clock)
        await journal.intend(A, "n.ipynb", "edit_cell", "edit")
    last, second, _ = await journal.history("n.ipynb", 100, A.user)
    assert [second.time, last.time] == pytest.approx([NOW, NOW], abs=1e-3)
    assert last.time > second.time


@settings(max_examples=25, deadline=None)
@given(CLOCKS, st.data())
def test_a_later_entry_has_a_later_time(steps: list[float], data: st.DataObject) -> None:
    """Of two servers, which use one journal."""
    clock = NOW

    async def insert(folder: Path) -> list[float]:
        nonlocal clock
        servers = [Journal(folder / "journal.sqlite") for _ in range(2)]
        for step in steps:
            clock += step
            await data.draw(st.sampled_from(servers)).intend(A, "n.ipynb", "edit_cell", "edit")
        history = await servers[0].history("n.ipynb", 100, A.user)
        for server in servers:
            await server.close()
        return [entry.time for entry in reversed(history)]

    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(journals.time, "time", lambda: clock)
        times = asyncio.run(insert(Path(folder)))
    assert len(times) == len(steps)
    assert times == sorted(set(times))
