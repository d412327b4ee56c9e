"""Read pages of a text with lines of any length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import IO

from tk_ai_extension.notebooks.files.opening import open_regular
from tk_ai_extension.workspace.patterns import Pattern

LINE = 2_000
"""Maximum characters of a line. A longer line is read as several lines."""
PAGE = 20_000
"""Default maximum characters of a page."""


@dataclass(frozen=True, slots=True)
class ArtifactPage:
    """Some lines of an artifact or of another text.

    Attributes:
        text: The lines. With a pattern, each begins with its number and a colon.
        offset: The number of the first line, from 0.
        next_offset: The offset of the next page; None at the end.
        total_lines: The number of lines of the whole text.
        matches: The number of matching lines in the whole text; None without a pattern.
    """

    text: str
    offset: int
    next_offset: int | None
    total_lines: int
    matches: int | None = None


def read_page(
    path: Path,
    *,
    offset: int,
    limit: int,
    pattern: Pattern | None = None,
    max_chars: int = PAGE,
) -> ArtifactPage:
    """Read a page of a text file (see `Artifacts.read`) without loading the whole file.

    Raises:
        InvalidArguments: The search takes too long.
    """
    data = BufferedReader(open_regular(path))
    with TextIOWrapper(data, encoding="utf-8", errors="replace", newline="\n") as file:
        return page_of(file, offset=offset, limit=limit, pattern=pattern, max_chars=max_chars)


def page_of(
    file: IO[str],
    *,
    offset: int,
    limit: int,
    pattern: Pattern | None = None,
    max_chars: int = PAGE,
) -> ArtifactPage:
    """Return a page of a text, which is read to its end.

    Raises:
        InvalidArguments: The search takes too long.
    """
    shown: list[str] = []
    size = matches = total = 0
    next_offset: int | None = None
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
        matches=None if pattern is None else matches,
    )


def _lines(file: IO[str]) -> Iterator[str]:
    """Yield the lines of a text without line ends; lines longer than `LINE` are split."""
    cut = False
    while piece := file.readline(LINE):
        if cut and piece == "\n":  # The end of a line whose length is a multiple of `LINE`.
            cut = False
            continue
        cut = not piece.endswith("\n")
        yield piece.removesuffix("\n")
