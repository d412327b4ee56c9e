"""The cell-marked text format: a notebook's sources as one text that a model edits and writes back.

```
# %% notebook: analysis.ipynb rev:9f2c41d0aa17
# %% [code] @318a
import pandas as pd
# %% [markdown] @77b0
## Load
```

Each marker line starts a cell. The source is the text up to the next marker, without the final
newline. A source line that begins with ``# %%`` is escaped by one more ``%``. Markers have no hash:
the revision in the header applies to all sources below it. This module renders and parses the text;
`model.three_way_merge` merges it into the notebook.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast, get_args

from tk_ai_extension.model.cells import Cell, CellType, Snapshot
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.index_ranges import format_ranges, parse_ranges

MARK = "# %%"
WARNING = "Warning: "
"""The beginning of a line that tools print above the header."""
MORE_CELLS = "[more cells: "
"""The beginning of the line below a text that shows only some cells."""
ESCAPED = MARK + "%"

_HEADER = re.compile(
    r"# %% notebook: (?P<path>.*) rev:(?P<revision>\S+?)(?: cells:(?P<cells>\S*))?\s*\Z"
)
_MARKER = re.compile(r"# %% \[(?P<type>\w+)\](?:\s+(?P<ref>@\S+|cell:\d{1,9}))?\s*\Z")
_PLAIN_ID = re.compile(r"[\w-]+\Z")
_NUMBERED = re.compile(r"cell:(\d{1,9})\Z")


@dataclass(frozen=True, slots=True)
class CellReference:
    """The cell that a marker refers to, by a prefix of its id or by its index.

    Attributes:
        text: The reference as written, for messages.
        prefix: The id or a prefix of it, for ``@`` references.
        number: The index N, from 0, for ``cell:N`` references.
    """

    text: str
    prefix: str | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class ParsedCell:
    """A cell of the text. ``ref`` is None for a new cell; ``line`` is the marker's line, from 1."""

    type: CellType
    source: str
    ref: CellReference | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class ParsedText:
    """A parsed cell-marked text.

    Attributes:
        cells: The cells, in order.
        path: The notebook from the header; None without a header.
        revision: The revision at which the text was read, or None.
        ranges: The cells that the text contained when it was read (`ranges.parse_ranges`); None for
            all.
    """

    cells: tuple[ParsedCell, ...]
    path: str | None = None
    revision: str | None = None
    ranges: str | None = None


# --- rendering


def render(
    snapshot: Snapshot, indices: Sequence[int] | None = None, *, versioned: bool = False
) -> str:
    """Return the text of a notebook, or of some of its cells.

    Args:
        snapshot: The notebook.
        indices: The indices of the cells, ascending; None for all. If given, the header has the
            range.
        versioned: Whether to print versioned addresses (``@318a.9f2c41d0``) in the markers.
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
    """Return the marker line of a cell: ``# %% [code] @318a``, or ``cell:N`` without a usable id."""
    if cell.id is None or cell.key != cell.id or not _PLAIN_ID.match(cell.id):
        ref = f"cell:{snapshot.index(cell)}"
    else:
        ref = f"@{snapshot.address(cell) if versioned else snapshot.short_keys[cell.key]}"
    return f"{MARK} [{cell.type}] {ref}"


def escape(source: str) -> str:
    """Return the source with lines that look like markers escaped by one more ``%``."""
    if MARK not in source:
        return source
    return "\n".join(
        ESCAPED + line[len(MARK) :] if line.startswith(MARK) else line
        for line in source.split("\n")
    )


# --- parsing


def parse(text: str) -> ParsedText:
    r"""Parse a cell-marked text.

    A byte order mark is dropped, and so are the lines that tools print around the text: warnings above
    the header, and a last line that names the cells that are not shown. If the first line ends in ``\r\n``,
    the transport has converted all newlines, and they are converted back.

    >>> parse("# %% [code]\nx = 1\n# %% [markdown] @77b0\nText\n").cells[1].ref.prefix
    '77b0'

    Raises:
        InvalidArguments: The text does not start with a marker, or a line that begins with ``# %%`` is
            neither a marker nor escaped.
    """
    text = text.removeprefix("\ufeff")
    if text.partition("\n")[0].endswith("\r"):
        text = text.replace("\r\n", "\n")
    lines = text.removesuffix("\n").split("\n")
    above = next((n for n, line in enumerate(lines) if not line.startswith(WARNING)), 0)
    header = _HEADER.match(lines[above])
    if header is not None and header["cells"] and lines[-1].startswith(MORE_CELLS):
        lines.pop()
    cells: list[ParsedCell] = []
    for start, line, body in _sections(lines, above + 1 if header else 0):
        cell_type, ref = _parse_marker(line, start)
        cells.append(ParsedCell(cell_type, "\n".join(body), ref, start))
    if header is None:
        return ParsedText(tuple(cells))
    return ParsedText(tuple(cells), header["path"], header["revision"], header["cells"])


def _sections(lines: Sequence[str], begin: int) -> Iterator[tuple[int, str, list[str]]]:
    """Yield each marker's line number (from 1), the marker, and its unescaped source lines."""
    opened: tuple[int, str, list[str]] | None = None
    for number, line in enumerate(lines[begin:], begin + 1):
        if line.startswith(MARK) and not line.startswith(ESCAPED):
            if opened is not None:
                yield opened
            opened = (number, line, [])
        elif opened is None:
            raise InvalidArguments(
                f"Line {number} is before the first cell marker: {line[:60]!r}.",
                hint="Begin the text with a marker line such as `# %% [code]`; see read_notebook.",
            )
        else:
            opened[2].append(MARK + line[len(ESCAPED) :] if line.startswith(ESCAPED) else line)
    if opened is not None:
        yield opened


def _parse_marker(line: str, number: int) -> tuple[CellType, CellReference | None]:
    match = _MARKER.match(line)
    if match is None or match["type"] not in get_args(CellType):
        raise InvalidArguments(
            f"Line {number} is not a cell marker: {line[:80]!r}.",
            hint="Use `# %% [code]`, `[markdown]` or `[raw]`, followed by `@id` or `cell:N` for an "
            "existing cell. Escape a source line that begins with `# %%` as `# %%%`.",
        )
    cell_type = cast("CellType", match["type"])
    ref: str | None = match["ref"]
    if ref is None:
        return cell_type, None
    if numbered := _NUMBERED.match(ref):
        return cell_type, CellReference(ref, number=int(numbered[1]))
    return cell_type, CellReference(ref, prefix=ref[1:])


def select_lines(text: str, spec: str) -> str:
    """Return the lines of a text that a spec such as ``10-20,31`` selects, counted from 1.

    `parse` does not accept the result's header: otherwise the other cells would count as deleted.

    Raises:
        InvalidArguments: See `ranges.parse_ranges`.
    """
    if text.startswith(f"{MARK} notebook:"):
        text = "#" + text.removeprefix(MARK)
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return "".join(f"{lines[index]}\n" for index in parse_ranges(spec, len(lines), first=1))
