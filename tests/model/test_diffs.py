"""Diffs: complete, readable, and quick for every text."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.model.cell_marked_text import parse, render
from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.diffs import line_diff, text_edits
from tk_ai_extension.model.proposals import diff_lines
from tk_ai_extension.model.three_way_merge import merge

ROWS = 2_000
LONG = 3.0
"""Seconds of CPU time, ten times what they take."""


def assignments(at: int) -> tuple[str, str]:
    """Every second line differs."""
    return (f"x{at} = {at}", f"x{at}={at}") if at % 2 else (f"y{at}", f"y{at}")


def literal(at: int) -> tuple[str, str]:
    """Two of three lines occur everywhere; every second other one differs."""
    line = ("{", "},", f'"k": {at}')[at % 3]
    return line, f"{line}0" if at % 6 == 2 else line


def repeated(at: int) -> tuple[str, str]:
    """No line occurs once."""
    return "ab"[at % 2], "ba"[at % 3 == 0]


def no_ids(lines: list[str]) -> Snapshot:
    cells = (Cell(f"#{at}", "code", line, None) for at, line in enumerate(lines))
    return Snapshot("n.ipynb", tuple(cells))


def merged(before: str, after: str) -> object:
    base, current = (no_ids(text.split("\n")) for text in (before, after))
    return merge(base, current, parse(render(base, versioned=True)))


@pytest.mark.parametrize("row", [assignments, literal, repeated])
@pytest.mark.parametrize("diff", [line_diff, diff_lines, text_edits, merged])
def test_no_text_takes_long(
    diff: Callable[[str, str], object], row: Callable[[int], tuple[str, str]]
) -> None:
    before, after = ("\n".join(side) for side in zip(*map(row, range(ROWS)), strict=True))
    began = time.process_time()
    diff(before, after)
    assert time.process_time() - began < LONG


def patched(before: str, diff: str) -> str:
    """The text after a unified diff; every line must fit the text before."""
    old = before.split("\n") if before else []
    new: list[str] = []
    at = 0
    for line in diff.split("\n") if diff else []:
        if line.startswith("@@"):
            start, _, length = line.split()[1].removeprefix("-").partition(",")
            first = int(start) - (length != "0")
            assert at <= first
            new += old[at:first]
            at = first
            continue
        if line[0] in " -":
            assert old[at] == line[1:]
            at += 1
        if line[0] in " +":
            new.append(line[1:])
    return "\n".join(new + old[at:])


@given(seed=st.integers(), kinds=st.integers(1, 200))
def test_a_diff_turns_one_text_into_the_other(seed: int, kinds: int) -> None:
    choice = random.Random(seed)
    old = [f"{choice.randrange(kinds)}" for _ in range(choice.randrange(60))]
    new = [line for line in old if choice.random() > 0.1]
    for _ in range(choice.randrange(9)):
        new.insert(choice.randint(0, len(new)), f"{choice.randrange(kinds)}")
    before, after = "\n".join(old), "\n".join(new)
    assert patched(before, line_diff(before, after)) == after
    lines = diff_lines(before, after, whole=True)
    assert "\n".join(line.text for line in lines if line.mark in " -") == before
    assert "\n".join(line.text for line in lines if line.mark in " +") == after
