"""Which cells were changed is known without reading what was changed."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.workspace.test_journal import NO_KEY, A, B, change, journal, made
from tests.workspace.test_migrations import ANA, former
from tk_ai_extension.workspace.change_encoding import encode_changes
from tk_ai_extension.workspace.journal import Journal, Touched

__all__ = ["journal"]


def cells(found: list[Touched]) -> list[tuple[int, tuple[str, ...]]]:
    return [(each.entry, each.cells) for each in found]


async def test_each_change_that_stands_names_its_cells_in_order(journal: Journal) -> None:
    several = await made(
        journal, turn="t1", changes=[change(name=name) for name in ("b", "a", "b")]
    )
    other = await made(journal, B)
    last = await made(journal, path="m.ipynb", changes=[change(name="c")])
    found = await journal.touched(A)
    assert cells(found) == [(last, ("c",)), (several, ("b", "a"))]
    assert [(each.path, each.turn) for each in found] == [("m.ipynb", None), ("n.ipynb", "t1")]
    assert cells(await journal.touched(B)) == [(other, ("318a",))]
    assert await journal.touched(NO_KEY) == []


async def test_undone_changes_are_not_listed(journal: Journal) -> None:
    a, b, c = (change(name=name) for name in "abc")
    partly = await made(journal, changes=[a, b])
    whole = await made(journal, changes=[c])
    await journal.undone({partly: [a], whole: [c]}, await made(journal, B))
    assert cells(await journal.touched(A)) == [(partly, ("b",))]


async def test_changes_without_their_outputs_are_undone_too(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tk_ai_extension.workspace.change_encoding.MAX_OUTPUTS", 10)
    large = [{"output_type": "stream", "name": "stdout", "text": "x" * 100}]
    a, b = change(name="a", outputs=large), change(name="b", outputs=large)
    entry = await made(journal, changes=[a, b, a])
    await journal.undone({entry: [b, a]}, await made(journal, B))
    assert cells(await journal.touched(A)) == [(entry, ("a",))]
    (found,) = await journal.undoable(A, "n.ipynb")
    await journal.undone({entry: found.changes}, await made(journal, B))
    assert await journal.touched(A) == []


async def test_a_journal_of_an_earlier_version_has_it_too(tmp_path: Path) -> None:
    path = former("journal", tmp_path)
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript("DROP TABLE touched; DROP TRIGGER touched_first;")
    journal = Journal(path)
    assert cells(await journal.touched(ANA)) == [(1, ("a1",))]
    assert set((await journal.written("one.ipynb"))[0]) == {"a1"}
    await journal.close()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
async def test_a_number_that_json_has_no_form_for_does_not_keep_a_change_out(
    journal: Journal, number: float
) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    output = {"output_type": "display_data", "data": {"application/json": [1, {"x": number}]}}
    changes = [change(outputs=[output]), change(name="b", outputs=[{"metadata": {"y": number}}])]
    json.loads(encode_changes(changes)[0], parse_constant=refuse)
    entry = await made(journal, changes=changes)
    (found,) = await journal.undoable(A, "n.ipynb")
    assert found.id == entry
    assert [each.before and each.before.source for each in found.changes] == ["", ""]
    assert cells(await journal.touched(A)) == [(entry, ("318a", "b"))]
