"""Cells, addresses and hashes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.model.cells import Cell, Snapshot, cell_keys, shortest_prefixes, source_hash
from tk_ai_extension.model.errors import CellNotFound, InvalidArguments


def notebook(*ids: str | None) -> Snapshot:
    keys = cell_keys(ids)
    return Snapshot(
        "n.ipynb",
        tuple(Cell(n, keys[n], "code", f"source {n}", each) for n, each in enumerate(ids)),
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
    assert (cell.index, version) == (index, None)


@pytest.mark.proves("edit:resolve")
@given(st.lists(st.integers(0, 9), min_size=1, unique=True), st.sampled_from(["cell-{}", "{}"]))
def test_an_id_with_a_number_never_names_another_cell(numbers: list[int], form: str) -> None:
    """Not even if the cell with that id is gone: its number is another cell's position."""
    snapshot = notebook(*map(form.format, numbers))
    for number in range(10):
        if number in numbers:
            assert snapshot.find(form.format(number))[0].index == numbers.index(number)
            continue
        with pytest.raises(CellNotFound):
            snapshot.find(form.format(number))
    assert snapshot.find(0)[0].index == 0


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


def test_a_beginning_of_several_ids_is_ambiguous() -> None:
    many = notebook("aaaa1111", "aaaa2222")
    with pytest.raises(InvalidArguments, match="aaaa1"):
        many.find("aaaa")


@given(st.sets(st.text("ab1", min_size=1, max_size=12)))
def test_a_short_key_finds_its_cell(ids: set[str]) -> None:
    snapshot = notebook(*sorted(ids))
    for cell in snapshot.cells:
        assert snapshot.find(f"@{snapshot.short_keys[cell.key]}")[0] == cell


def test_a_short_key_has_four_characters_and_is_no_number() -> None:
    assert shortest_prefixes(["12345a", "abcdef", "abcxyz", "cell-12"]) == {
        "12345a": "12345a",
        "abcdef": "abcd",
        "abcxyz": "abcx",
        "cell-12": "cell-12",
    }


def test_keys_are_ids_where_they_are_unique() -> None:
    assert cell_keys(["a", None, "b", "b", ""]) == ["a", "cell-1", "cell-2", "cell-3", "cell-4"]


def test_an_id_that_reads_like_a_number_is_a_key_only_among_ids() -> None:
    assert cell_keys(["cell-1", "a"]) == ["cell-1", "a"]
    assert cell_keys(["cell-1", None]) == ["cell-0", "cell-1"]


@given(st.lists(st.none() | st.sampled_from(["a", "b", "cell-0", "cell-2", ""])))
def test_keys_are_unique(ids: list[str | None]) -> None:
    keys = cell_keys(ids)
    assert len(set(keys)) == len(keys)


def test_the_revision_is_that_of_names_types_and_sources() -> None:
    one = notebook("a", "b")
    assert one.revision == notebook("a", "b").revision
    assert one.revision != notebook("a", "c").revision
    ran = Snapshot("other.ipynb", tuple(replace(cell, execution_count=3) for cell in one.cells))
    assert ran.revision == one.revision


def test_half_a_surrogate_pair_has_a_hash() -> None:
    assert source_hash("\ud83d") != source_hash("\ude00")
