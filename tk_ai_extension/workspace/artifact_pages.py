"""Pages of a text file, however long its lines are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tk_ai_extension.workspace.patterns import Pattern

LINE = 2_000
"""Characters of a line; a longer one is read as several."""
PAGE = 20_000
"""Characters of a page, unless the caller says otherwise."""


@dataclass(frozen=True, slots=True)
class ArtifactPage:
    """Some lines of an artifact.

    Attributes:
        text: The lines; those that a pattern found begin with their number and a colon.
        offset: The number of the first line looked at, from 0.
        next_offset: Where the next page begins; None at the end.
        total_lines: Lines of the whole artifact.
        total_bytes: Bytes of the whole artifact.
        matches: How many lines of the whole artifact the pattern finds; None without one.
    """

    text: str
    offset: int
    next_offset: int | None
    total_lines: int
    total_bytes: int
    matches: int | None = None


def read_page(
    path: Path,
    *,
    offset: int,
    limit: int,
    pattern: Pattern | None = None,
    max_chars: int = PAGE,
) -> ArtifactPage:
    """Read a page of a text file; see `Artifacts.read`. Takes memory for a page, not for the file.

    Raises:
        InvalidArguments: the pattern takes too long.
    """
    shown: list[str] = []
    size = matches = total = 0
    next_offset: int | None = None
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        for number, line in enumerate(_lines(file)):
            total = number + 1
            if pattern is not None:
                if not pattern.found_in(line):
                    continue
                matches += 1
            if number < offset or next_offset is not None:
                continue
            text = line if pattern is None else f"{number}: {line}"
            if shown and (len(shown) == limit or size + len(text) > max_chars):
                next_offset = number
                continue
            shown.append(text)
            size += len(text) + 1
    return ArtifactPage(
        text="\n".join(shown),
        offset=offset,
        next_offset=next_offset,
        total_lines=total,
        total_bytes=path.stat().st_size,
        matches=None if pattern is None else matches,
    )


def _lines(file: IO[str]) -> Iterator[str]:
    """The lines of a text, without their ends; one longer than `LINE` comes in pieces."""
    cut = False
    while piece := file.readline(LINE):
        if cut and piece == "\n":  # the end of a line whose pieces fill it exactly
            cut = False
            continue
        cut = not piece.endswith("\n")
        yield piece.removesuffix("\n")
