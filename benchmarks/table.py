"""The table of the results, as plain text and as markdown."""

from __future__ import annotations

from collections.abc import Sequence

from measure import Row

HEADS = ("work", "median", "floor", "ratio", "goal", "met")


def number(value: float | None, unit: str) -> str:
    """A number with its unit, with as many digits as mean something."""
    if value is None:
        return ""
    digits = 0 if unit == "characters" or value >= 1_000 else 1 if value >= 100 else 2
    return f"{value:,.{digits}f} {unit}"


def cells(row: Row) -> tuple[str, ...]:
    """The fields of a row."""
    if row.skipped:
        return (row.work, f"not measured: {row.skipped}", "", "", "", "")
    met = {True: "yes", False: "NO", None: ""}[row.met]
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return (
        row.work,
        number(row.value, row.unit),
        number(row.floor, row.unit),
        ratio,
        row.goal,
        met,
    )


def text_table(rows: Sequence[Row]) -> str:
    """Aligned columns for a terminal."""
    lines = [HEADS, *map(cells, rows)]
    measured = [
        line for line, row in zip(lines, [None, *rows], strict=True) if not row or not row.skipped
    ]
    widths = [max(len(line[at]) for line in measured) for at in range(len(HEADS))]
    widths[0] = max(len(line[0]) for line in lines)

    def shown(line: Sequence[str]) -> str:
        first, *others, goal, met = line
        middle = (text.rjust(width) for text, width in zip(others, widths[1:4], strict=True))
        return "  ".join([first.ljust(widths[0]), *middle, goal.ljust(widths[4]), met]).rstrip()

    return "\n".join(shown(line) for line in lines)


def markdown_table(rows: Sequence[Row]) -> str:
    """The same for a page."""
    body = ["| " + " | ".join(cells(row)) + " |" for row in rows]
    return "\n".join(
        ["| " + " | ".join(HEADS) + " |", "|---|---:|---:|---:|---|---|", *body],
    )
