"""Cells, addresses and hashes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.model.cells import Cell, Snapshot, cell_keys
from tk_ai_extension.model.errors import CellNotFound, InvalidArguments


def notebook(*ids: str | None) -> Snapshot:
    keys = cell_keys(ids)
    return Snapshot(
        "n.ipynb",
        tuple(Cell(keys[n], "code", f"source {n}", each) for n, each in enumerate(ids)),
    )


NB = notebook("318aaaaa", "77b0aaaa", "77b1aaaa", "fourth00", "12345678", "7a")


@pytest.mark.proves("edit:resolve")
@pytest.mark.parametrize(
    ("address", "index"),
    [
        ("318aaaaa", 0),
        ("fourth00", 3),
        ("cell-1", 1),
        (2, 2),
        (-1, 5),
        ("2", 2),
        ("-2", 4),
        ("7a", 5),
        ("318a", 0),
        ("@318a", 0),
        ("@77b0aaaa", 1),
        (" 77b1 ", 2),
    ],
)
def test_an_address_is_tried_in_the_order_that_is_documented(
    address: str | int, index: int
) -> None:
    cell, version = NB.find(address)
    assert (NB.index(cell), version) == (index, None)


@pytest.mark.proves("edit:resolve")
@given(st.lists(st.integers(0, 9), min_size=1, unique=True), st.sampled_from(["cell-{}", "{}"]))
def test_an_id_with_a_number_never_names_another_cell(numbers: list[int], form: str) -> None:
    """Not even if the cell with that id is gone: its number is another cell's position."""
    snapshot = notebook(*map(form.format, numbers))
    for number in range(10):
        if number in numbers:
            found, _ = snapshot.find(form.format(number))
            assert snapshot.index(found) == numbers.index(number)
            continue
        with pytest.raises(CellNotFound):
            snapshot.find(form.format(number))
    assert snapshot.index(snapshot.find(0)[0]) == 0


@pytest.mark.proves("edit:resolve")
def test_a_count_in_brackets_is_the_cell_that_people_see_it_at() -> None:
    counts = [4, None, 7, 4, 12, None]
    cells = zip(NB.cells, counts, strict=True)
    ran = replace(NB, cells=tuple(replace(cell, execution_count=n) for cell, n in cells))
    assert ran.find("[7]")[0] is ran.cells[2]
    assert ran.find(f"[12].{ran.cells[4].version}") == (ran.cells[4], ran.cells[4].version)
    with pytest.raises(InvalidArguments, match="2 cells: @318a, @four"):
        ran.find("[4]")
    with pytest.raises(CellNotFound, match=r"4: @\S+ \[12\] source 4; 2: @77b1 \[7\]") as raised:
        ran.find("[11]")
    assert [cell["index"] for cell in raised.value.details["cells"]] == [4, 2, 0, 3]


def test_a_versioned_address_gives_the_version() -> None:
    cell = NB.cells[1]
    assert NB.find(NB.address(cell)) == (cell, cell.hash[:8])
    assert NB.find(f"@77b0.{cell.hash[:4]}") == (cell, cell.hash[:4])
    assert NB.find("cell-1.0000") == (cell, "0000")


@pytest.mark.proves("edit:resolve")
@pytest.mark.parametrize("address", ["nope", "31", 6, -7, "99", "cell-6", "", "@", "318a.xyz"])
def test_an_address_that_names_nothing_lists_up_to_ten_cells(address: str | int) -> None:
    with pytest.raises(CellNotFound) as raised:
        NB.find(address)
    assert len(raised.value.details["cells"]) == 6
    many = notebook(*(f"c{n:07}" for n in range(20)))
    with pytest.raises(CellNotFound, match="and 10 more") as raised:
        many.find("nope")
    assert len(raised.value.details["cells"]) == 10
