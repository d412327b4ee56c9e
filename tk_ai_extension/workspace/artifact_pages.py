"""Read pages of a text with lines of any length."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import IO

from tk_ai_extension.notebooks.atomic_file import open_regular
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
        pieces = ((piece, pattern is None or pattern.found_in(piece)) for piece in _pieces(file))
        return _page(
            pieces, offset=offset, limit=limit, numbered=pattern is not None, max_chars=max_chars
        )


def page_of(
    text: str, *, offset: int, limit: int, pattern: Pattern | None = None, max_chars: int = PAGE
) -> ArtifactPage:
    """Return a page of a text. A pattern is searched in whole lines, also if they are shown as several.

    Raises:
        InvalidArguments: The search takes too long.
    """
    pieces = _found_pieces(text, pattern)
    return _page(
        pieces, offset=offset, limit=limit, numbered=pattern is not None, max_chars=max_chars
    )


def _page(
    pieces: Iterable[tuple[str, bool]], *, offset: int, limit: int, numbered: bool, max_chars: int
) -> ArtifactPage:
    """Return a page of lines, each with whether it is to be shown; all of them are read."""
    shown: list[str] = []
    size = matches = total = 0
    next_offset: int | None = None
    for number, (line, is_wanted) in enumerate(pieces):
        total = number + 1
        matches += is_wanted
        if not is_wanted or number < offset or next_offset is not None:
            continue
        text = f"{number}: {line}" if numbered else line
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
        matches=matches if numbered else None,
    )


def _pieces(file: IO[str]) -> Iterator[str]:
    """Yield the lines of a text without line ends; lines longer than `LINE` are split."""
    cut = False
    while piece := file.readline(LINE):
        if cut and piece == "\n":  # The end of a line whose length is a multiple of `LINE`.
            cut = False
            continue
        cut = not piece.endswith("\n")
        yield piece.removesuffix("\n")


def _found_pieces(text: str, pattern: Pattern | None) -> Iterator[tuple[str, bool]]:
    """Yield the lines as `_pieces`, each with whether it matches; at least one of a line that does."""
    for line in io.StringIO(text, newline=None):
        whole = line.removesuffix("\n")
        pieces = [whole[at : at + LINE] for at in range(0, len(whole), LINE)] or [""]
        is_found = pattern is None or pattern.found_in(whole)
        if pattern is None or len(pieces) == 1 or not is_found:
            yield from ((piece, is_found) for piece in pieces)
            continue
        found = [pattern.found_in(piece) for piece in pieces]
        found[0] = found[0] or not any(found)
        yield from zip(pieces, found, strict=True)
