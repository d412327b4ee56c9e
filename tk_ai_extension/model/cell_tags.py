"""The tags of cells, which say whether a cell runs, may fail, and has outputs to compare."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tk_ai_extension.model.cells import Cell

_MARKER = re.compile(
    r"^[^\S\n]*#[^\S\n]*(NBVAL_[A-Z_]+|PYTEST_VALIDATE_IGNORE_OUTPUT)[^\S\n]*$", re.MULTILINE
)
_BY_COMMENT: Mapping[str, str] = {
    "NBVAL_IGNORE_OUTPUT": "nbval-ignore-output",
    "PYTEST_VALIDATE_IGNORE_OUTPUT": "nbval-ignore-output",
    "NBVAL_CHECK_OUTPUT": "nbval-check-output",
    "NBVAL_RAISES_EXCEPTION": "raises-exception",
    "NBVAL_SKIP": "nbval-skip",
}


def tags_of(cell: Cell) -> frozenset[str]:
    """Return a cell's tags, and those that nbval's comments in its source stand for."""
    stored = cell.metadata.get("tags")
    tags = {str(tag) for tag in stored} if isinstance(stored, list) else set[str]()  # pyrefly: ignore[unknown-argument-type, unknown-variable-type]
    tags |= {_BY_COMMENT[name] for name in _MARKER.findall(cell.source) if name in _BY_COMMENT}
    if "nbval-raises-exception" in tags:
        tags.add("raises-exception")
    if "skip-execution" in tags:
        tags.add("nbval-skip")
    return frozenset(tags)


def runnable(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells that a run of several runs: those with code that no tag excludes."""
    code = (cell for cell in cells if cell.type == "code" and cell.source.strip())
    return [cell for cell in code if "nbval-skip" not in tags_of(cell)]


def may_fail(cell: Cell) -> bool:
    """Return whether an exception of a cell does not count as a failure."""
    return "raises-exception" in tags_of(cell)
