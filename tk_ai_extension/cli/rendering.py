"""Rendering of results for a terminal with rich: tables, boxes, colours."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

from rich.box import ROUNDED, SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from tk_ai_extension.cli.permission_results import PendingRequest, PendingRequests
from tk_ai_extension.cli.proposals import lines_of
from tk_ai_extension.cli.terminal import harmless
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.context import Result
from tk_ai_extension.tools.execution_results import CellRun, ExecutionResult

SYMBOLS = {
    "queued": ("○", "dim"),
    "running": ("●", "yellow"),
    "ok": ("✔", "green"),
    "skipped": ("·", "dim"),
}
"""Symbol and colour of each state of a cell; every other state is a failure."""
FAILED = ("✘", "red")

STATES = {
    "fresh": "green",
    "edited": "yellow",
    "stale": "yellow",
    "error": "red",
    "running": "cyan",
}
"""Colour of a cell's state in a list."""

MAX_DEPTH = 6
"""Maximum depth of a tree of JSON."""
MAX_BRANCHES = 50
"""Maximum number of members of one value."""

HEADINGS = {"execution_count": "count"}
"""Short headings for columns with short values."""

KEPT = ("index", "cell", "id", "execution_id", "kernel_id", "name", "time", "state")
"""Columns that are always shown."""

SHORT = 20
"""Maximum width of a column that is never shortened, in characters."""
NARROWEST = 20
"""Minimum width of a longer column, in characters; other columns are omitted for it."""
GAP = 3
"""Gap between columns, in characters."""


def render_result(result: Result) -> RenderableType:
    """Render a tool's result by its kind: an execution, a cell, a notebook, rows, or text."""
    if isinstance(result, ExecutionResult):
        return _execution(result)
    if isinstance(result, PendingRequests) and result.permissions:
        return Group(*map(_asked, result.permissions))
    fields = result.model_dump(mode="json", exclude_none=True, exclude={"notices"})
    if isinstance(fields.get("source"), str) and "cell_type" in fields:
        return _cell(fields)
    if isinstance(fields.get("text"), str) and "revision" in fields:
        return _code(fields["text"].rstrip("\n"))
    lists = [name for name, value in fields.items() if _is_rows(value)]
    if len(lists) == 1:
        return _rows(lists[0], fields)
    return plain(result.as_text())


def _code(text: str) -> RenderableType:
    """Render code in the terminal's own colours and background."""
    return Syntax(
        harmless(text), "python", theme="ansi_dark", background_color="default", word_wrap=True
    )


def render_error(error: ToolError) -> RenderableType:
    """Render an error with its hint."""
    # A conflict also shows the current source, which counts as read from then on.
    more = error.as_text().removeprefix(ToolError.as_text(error)).strip("\n")
    body = Group(
        plain(error.message),
        plain(error.hint, "dim"),
        *([plain(more)] if more else []),
    )
    return Panel(body, title=error.code, title_align="left", border_style="red", box=ROUNDED)


def plain(text: str, style: str = "") -> Text:
    """Return text without interpreting markup."""
    return Text(harmless(text), style)


_MARKS = {"title": "bold", "note": "dim", "+": "green", "-": "red", "@": "dim"}
"""Style of each kind of line of a proposal."""


def _asked(asked: PendingRequest) -> RenderableType:
    shown = Text()
    for line, kind in lines_of(asked.proposal):
        shown.append(harmless(line) + "\n", _MARKS.get(kind))
    shown.rstrip()
    box = Panel(
        shown,
        title=plain(asked.heading()),
        title_align="left",
        border_style="yellow",
        box=ROUNDED,
    )
    return Group(box, plain(asked.ways(), "dim"))


def _execution(result: ExecutionResult) -> RenderableType:
    parts: list[RenderableType] = []
    for run in result.runs:
        parts += _run(run)
    if result.prompt is not None:
        parts.append(
            plain(f"input() asked {result.prompt!r}; no answer is possible here", "yellow")
        )
    if result.skipped:
        were = "cell was" if result.skipped == 1 else "cells were"
        parts.append(Text(f"· {result.skipped} more {were} not run", "dim"))
    if result.status in ("queued", "running"):
        parts.append(Text(f"Still {result.status}: nb watch {result.execution_id}", "yellow"))
    return Group(*parts)


def _run(run: CellRun) -> Iterable[RenderableType]:
    head = _head(run)
    if run.output and run.status not in SYMBOLS:
        yield Panel(
            plain(run.output), title=head, title_align="left", border_style="red", box=ROUNDED
        )
        return
    if run.output:
        yield plain(run.output)
    for value in run.data:
        tree = Tree(plain("JSON", "dim"), guide_style="dim")
        _grow(tree, value, MAX_DEPTH)
        yield tree
    yield head


def _grow(tree: Tree, value: Any, depth: int) -> None:
    """Add a JSON value to a tree, its members and items as branches."""
    members: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        members = list(cast("dict[str, Any]", value).items())
    elif isinstance(value, list):
        members = [(str(number), item) for number, item in enumerate(cast("list[Any]", value))]
    else:
        tree.add(plain(json.dumps(value, ensure_ascii=False)))
    for name, member in members[:MAX_BRANCHES]:
        if isinstance(member, (dict, list)) and member:
            branch = tree.add(plain(name, "bold"))
            if depth:
                _grow(branch, member, depth - 1)
            else:
                branch.add(plain("…"))
        else:
            tree.add(Text.assemble(plain(f"{name}: ", "bold"), plain(json.dumps(member))))
    if len(members) > MAX_BRANCHES:
        tree.add(plain(f"… {len(members) - MAX_BRANCHES} more", "dim"))


def _head(run: CellRun) -> Text:
    """Render the line with a cell's status."""
    sign, style = SYMBOLS.get(run.status, FAILED)
    words = (
        sign,
        f"@{run.cell}" if run.cell else "",
        f"[{run.execution_count}]" if run.execution_count is not None else "",
        run.status if run.status != "ok" else "",
        f"{run.duration:.2f} s" if run.duration is not None else "",
        run.message or "",
    )
    return plain(" ".join(word for word in words if word), style)


def _cell(fields: dict[str, Any]) -> RenderableType:
    count = f" [{fields['execution_count']}]" if "execution_count" in fields else ""
    title = f"@{fields['address']} cell {fields['index']} {fields['cell_type']}{count}"
    if fields["cell_type"] == "markdown":
        from rich.markdown import Markdown

        source: RenderableType = Markdown(harmless(fields["source"]))
    else:
        source = _code(fields["source"])
    state = fields.get("state", "")
    box = Panel(source, title=plain(title), subtitle=state, title_align="left", box=ROUNDED)
    return Group(box, plain(fields["output"])) if fields.get("output") else box


def _rows(name: str, fields: dict[str, Any]) -> RenderableType:
    table = Rows(fields.pop(name))
    scalars = ", ".join(
        f"{key.replace('_', ' ')}: {value}"
        for key, value in fields.items()
        if value and isinstance(value, str | int | float)
    )
    return Group(plain(scalars, "dim"), table) if scalars else table


class Rows:
    """Table that fits the terminal: columns of long texts share the remaining width.

    If that is too little, the last columns that are not in `KEPT` are omitted.

    Args:
        rows: Values by column.
    """

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._rows = rows
        # Omit columns without values, and the id beside a versioned address that starts with it.
        self._columns = [
            key
            for key in dict.fromkeys(key for row in rows for key in row)
            if key != "address" and any(row.get(key) for row in rows)
        ]
        self._widths = {
            column: max(
                len(_heading(column)),
                *(_shown(column, row.get(column)).cell_len for row in rows),
            )
            for column in self._columns
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table; called by rich."""
        widths = self.widths(options.max_width)
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
        for column, width in widths.items():
            number = all(isinstance(row.get(column, 0), int | float) for row in self._rows)
            table.add_column(
                _heading(column),
                width=width,
                justify="right" if number else "left",
                overflow="ellipsis",
                no_wrap=True,
            )
        for row in self._rows:
            table.add_row(*(_shown(column, row.get(column)) for column in widths))
        yield table

    def widths(self, available: int) -> dict[str, int]:
        """Return the width of each visible column, for a total width in characters."""
        columns = list(self._columns)
        elastic = [column for column in columns if self._widths[column] > SHORT]
        optional = [column for column in columns if column not in (*KEPT, *elastic[:1])]
        while True:
            room = available - GAP * (len(columns) - 1)
            room -= sum(self._widths[column] for column in columns if column not in elastic)
            if room >= NARROWEST * len(elastic) or not optional:
                break
            gone = optional.pop()
            columns.remove(gone)
            elastic = [column for column in elastic if column != gone]
        widths = {column: self._widths[column] for column in columns}
        # The shortest first: the others share the width that it does not need.
        elastic.sort(key=lambda column: self._widths[column])
        for number, column in enumerate(elastic):
            share = room // (len(elastic) - number)
            widths[column] = max(min(self._widths[column], share), 1)
            room -= widths[column]
        return widths


def _heading(column: str) -> str:
    return HEADINGS.get(column, column.replace("_", " "))


def _is_rows(value: Any) -> bool:
    rows = cast("list[object]", value) if isinstance(value, list) else []
    return bool(rows) and all(isinstance(row, dict) for row in rows)


def _shown(column: str, value: Any) -> Text:
    if value is None:
        return Text("")
    if column == "state":
        return Text(str(value), style=STATES.get(str(value), "dim"))
    if isinstance(value, bool):
        return Text("✔" if value else "")
    if column.endswith("_id"):
        return Text(str(value)[:8])
    if isinstance(value, int):
        return Text(f"{value:,}")
    if isinstance(value, float):
        return Text(f"{value:,.3g}")
    if isinstance(value, list):
        return plain(", ".join(map(str, cast("list[object]", value))))
    return plain(str(value))
