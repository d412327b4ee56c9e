"""The grammar of ranges: one for cells and for lines, in every interface."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import CellNotFound, InvalidArguments, ToolError
from tk_ai_extension.model.ranges import format_ranges, parse_ranges
from tk_ai_extension.tools.plans import select


@pytest.mark.proves("text:ranges")
@pytest.mark.parametrize(
    ("spec", "chosen"),
    [
        ("2-5,8,11-", [2, 3, 4, 5, 8, 11, 12]),
        ("0", [0]),
        ("0-0", [0]),
        ("3-99", [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
        (" 1 , 0-2 ", [0, 1, 2]),
        ("0-", list(range(13))),
        ("..2", [0, 1, 2]),
        ("-1", [12]),
        ("-3", [10]),
        ("-3..", [10, 11, 12]),
        ("-3-", [10, 11, 12]),
        ("-3--2", [10, 11]),
        ("-13", [0]),
        ("10..-1", [10, 11, 12]),
    ],
)
def test_ranges_name_cells_from_zero(spec: str, chosen: list[int]) -> None:
    assert parse_ranges(spec, 13) == chosen


@pytest.mark.parametrize(
    "spec",
    [
        *("", "x", "1-2-3", "5-2", "13", "-14", "--3", "1:3", "-3:", ":", "-", "..", "1,,2"),
        *("99-", "1.5", "-1..-3", "1...2"),
    ],
)
def test_a_range_that_names_nothing_or_can_be_read_in_two_ways_is_an_error(spec: str) -> None:
    with pytest.raises(InvalidArguments):
        parse_ranges(spec, 13)


@given(st.sets(st.integers(0, 50)))
def test_ranges_are_written_as_they_are_read(indices: set[int]) -> None:
    ordered = sorted(indices)
    spec = format_ranges(ordered)
    assert (parse_ranges(spec, 51) if spec else []) == ordered


def _notebook(count: int) -> Snapshot:
    cells = [
        Cell(index, f"key-{index:03}", "code", "", id=f"key-{index:03}") for index in range(count)
    ]
    return Snapshot("n.ipynb", tuple(cells))


@pytest.mark.proves("text:ranges")
@given(st.integers(0, 20), st.integers(-25, 25), st.integers(-25, 25))
def test_a_number_means_one_cell_however_it_is_given(count: int, first: int, last: int) -> None:
    notebook = _notebook(count)
    try:
        alone = [notebook.find(first)[0]]
    except CellNotFound:
        with pytest.raises(CellNotFound):
            select(notebook, str(first))
        alone = []
    else:
        assert select(notebook, str(first)) == alone

    # Beyond that: a span is the cells from one such number to another, or an error.
    for dash in ("-", "..", " - "):
        try:
            chosen = select(notebook, f"{first}{dash}{last}")
        except ToolError:
            continue
        assert chosen[0] == alone[0]
        assert chosen[-1] == notebook.find(last)[0]
        assert [cell.index for cell in chosen] == list(range(chosen[0].index, chosen[-1].index + 1))
