"""The cell-marked text: a notebook's sources as one text that a model reads and writes back.

```
# %% notebook: analysis.ipynb rev:9f2c41d0aa17
# %% [code] @318a
import pandas as pd
# %% [markdown] @77b0
## Load
```

Each marker line starts a cell; the source is all that follows up to the next marker, without the
newline that ends it. A source line that itself begins with ``# %%`` gains one ``%`` on the way out
and loses it on the way in. The markers carry no hash: the revision in the header stands for every
source below it. This module renders and parses; `model.merging` writes back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast, get_args

from tk_ai_extension.model.cells import Cell, CellType, Snapshot
from tk_ai_extension.model.errors import InvalidText
from tk_ai_extension.model.ranges import format_ranges, parse_ranges

MARK = "# %%"
ESCAPED = MARK + "%"

_HEADER = re.compile(
    r"# %% notebook: (?P<path>.*) rev:(?P<revision>\S+?)(?: cells:(?P<cells>\S*))?\s*\Z"
)
_MARKER = re.compile(r"# %% \[(?P<type>\w+)\](?:\s+(?P<ref>@\S+|cell:\d{1,9}))?\s*\Z")
_PLAIN_ID = re.compile(r"[\w-]+\Z")
_NUMBERED = re.compile(r"cell:(\d{1,9})\Z")


@dataclass(frozen=True, slots=True)
class CellRef:
    """What a marker names: a cell by the beginning of its id, or the Nth cell from 0.

    Attributes:
        text: As it was written, for messages.
        prefix: The id or a beginning of it, for ``@`` references.
        number: N, for ``cell:N`` references.
    """

    text: str
    prefix: str | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class ParsedCell:
    """A cell of the text; ``ref`` is None for a new one, ``line`` (from 1) is its marker's."""

    type: CellType
    source: str
    ref: CellRef | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class ParsedText:
    """A cell-marked text, taken apart.

    Attributes:
        cells: In order.
        path: The notebook that the header names, or None where the text has no header.
        revision: The revision at which it was read, or None.
        ranges: The cells that the view contained (`ranges.parse_ranges`), or None for all.
    """

    cells: tuple[ParsedCell, ...]
    path: str | None = None
    revision: str | None = None
    ranges: str | None = None


# --- rendering


def render(
    snapshot: Snapshot, indices: Sequence[int] | None = None, *, versioned: bool = False
) -> str:
    """The text of a notebook, or of some of its cells.

    Args:
        snapshot: The notebook.
        indices: The cells to show, ascending; None for all. A part carries its range in the header.
        versioned: Print versioned addresses (``@318a.9f2c41d0``) in the markers.
    """
    header = f"{MARK} notebook: {snapshot.path} rev:{snapshot.revision}"
    if indices is None:
        shown: Sequence[Cell] = snapshot.cells
    else:
        shown = [snapshot.cells[index] for index in indices]
        header += f" cells:{format_ranges(indices)}"
    parts = [header, "\n"]
    for cell in shown:
        parts += [marker(snapshot, cell, versioned=versioned), "\n"]
        if cell.source:
            parts += [escape(cell.source), "\n"]
    return "".join(parts)


def marker(snapshot: Snapshot, cell: Cell, *, versioned: bool = False) -> str:
    """The marker line of a cell: ``# %% [code] @318a``, or ``cell:N`` where it has no usable id."""
    if cell.id is None or cell.key != cell.id or not _PLAIN_ID.match(cell.id):
        ref = f"cell:{cell.index}"
    else:
        ref = f"@{snapshot.address(cell) if versioned else snapshot.short_keys[cell.key]}"
    return f"{MARK} [{cell.type}] {ref}"


def escape(source: str) -> str:
    """The source with one more ``%`` on each line that begins like a marker."""
    if MARK not in source:
        return source
    return "\n".join(
        ESCAPED + line[len(MARK) :] if line.startswith(MARK) else line
        for line in source.split("\n")
    )


# --- parsing


def parse(text: str) -> ParsedText:
    r"""Takes a cell-marked text apart.

    A byte order mark is dropped, and where the first line ends in ``\r\n`` the text came through a
    channel that turned every newline into that, so it is turned back.

    Raises:
        InvalidText: it does not start with a marker (a blank line is enough), or a line that begins
            with ``# %%`` is neither a marker nor escaped.
    """
    text = text.removeprefix("\ufeff")
    if text.partition("\n")[0].endswith("\r"):
        text = text.replace("\r\n", "\n")
    lines = text.removesuffix("\n").split("\n")
    header = _HEADER.match(lines[0])
    cells: list[ParsedCell] = []
    for start, line, body in _sections(lines, 1 if header else 0):
        cell_type, ref = _parse_marker(line, start)
        cells.append(ParsedCell(cell_type, "\n".join(body), ref, start))
    if header is None:
        return ParsedText(tuple(cells))
    return ParsedText(tuple(cells), header["path"], header["revision"], header["cells"])


def _sections(lines: Sequence[str], begin: int) -> Iterator[tuple[int, str, list[str]]]:
    """Each marker's line number (from 1), the marker, and the source lines below it, unescaped."""
    opened: tuple[int, str, list[str]] | None = None
    for number, line in enumerate(lines[begin:], begin + 1):
        if line.startswith(MARK) and not line.startswith(ESCAPED):
            if opened is not None:
                yield opened
            opened = (number, line, [])
        elif opened is None:
            raise InvalidText(f"Line {number} is text before the first cell marker: {line[:60]!r}.")
        else:
            opened[2].append(MARK + line[len(ESCAPED) :] if line.startswith(ESCAPED) else line)
    if opened is not None:
        yield opened


def _parse_marker(line: str, number: int) -> tuple[CellType, CellRef | None]:
    match = _MARKER.match(line)
    if match is None or match["type"] not in get_args(CellType):
        raise InvalidText(
            f"Line {number} is not a cell marker: {line[:80]!r}.",
            hint="A marker is `# %% [code]`, `[markdown]` or `[raw]`, then `@id` or `cell:N` for a "
            "cell that exists. A source line that begins with `# %%` is written `# %%%`.",
        )
    cell_type = cast("CellType", match["type"])
    ref: str | None = match["ref"]
    if ref is None:
        return cell_type, None
    if numbered := _NUMBERED.match(ref):
        return cell_type, CellRef(ref, number=int(numbered[1]))
    return cell_type, CellRef(ref, prefix=ref[1:])


def select_lines(text: str, spec: str) -> str:
    """The lines of a text that a spec such as ``10-20,31`` names, numbered from 1.

    Raises:
        InvalidArguments: see `ranges.parse_ranges`.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return "".join(f"{lines[index]}\n" for index in parse_ranges(spec, len(lines), first=1))
