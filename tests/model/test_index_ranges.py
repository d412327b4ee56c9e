"""The grammar of ranges: one for cells and for lines, in every interface."""

from __future__ import annotations

import pytest

from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.index_ranges import parse_ranges


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
