"""How answers look: for a person at a terminal with colour, tables and pictures; plain in a pipe."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from io import StringIO
from typing import Any, cast

from rich.box import ROUNDED, SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.json import JSON
from rich.markdown import Markdown
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from tk_ai_extension.cli.pictures import picture
from tk_ai_extension.cli.terminal import Terminal
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.following import CellRun, ExecutionResult
from tk_ai_extension.tools.results import Result

SYMBOLS = {
    "queued": ("○", "dim"),
    "running": ("●", "yellow"),
    "ok": ("✔", "green"),
    "skipped": ("·", "dim"),
}
"""The sign and colour of each state of a cell; every other state is a failure."""
FAILED = ("✘", "red")

STATES = {
    "fresh": "green",
    "edited": "yellow",
    "stale": "yellow",
    "error": "red",
    "running": "cyan",
}
"""The colour of a cell's state in a list."""

SHORT = 14
"""Characters of a column that keeps its width."""

_WHOLE = re.compile(r"(\[[^\[\]\n]*)read_output (?=[\w-]{12}\])")
"""Where an answer points to what was too long to show."""

_CLEAR = "\r\x1b[2K"


class Screen:
    """Shows answers on one terminal.

    Args:
        terminal: Where.
        live: Whether a person looks on.
    """

    def __init__(self, terminal: Terminal, *, live: bool) -> None:
        self.live = live
        self._terminal = terminal
        self._began = time.monotonic()
        self._line = False
        self._shown: dict[tuple[str | None, int | None], str] = {}

    async def progress(self, message: str) -> None:
        """Shows what a running call is doing, on a line that gives way to what comes next."""
        if self.live:
            width = max(self._terminal.surroundings.columns - 3, 20)
            line = " ".join(message.split())[:width]
            self._terminal.err(f"{_CLEAR}\x1b[33m●\x1b[0m {line}")
            self._line = True

    def clear_progress(self) -> None:
        """Takes the line of progress away."""
        if self._line:
            self._terminal.err(_CLEAR)
            self._line = False

    def show(self, result: Result) -> None:
        """Shows an answer."""
        if not self.live:
            text = _in_words(result.full_text())
            self._terminal.out(text if text.endswith("\n") else text + "\n")
            return
        for notice in result.notices:
            self._print(Text(f"Note: {notice}", style="yellow"))
        self._print(self._drawn(result))
        for image in result.images:
            self._terminal.out(picture(image, self._terminal.surroundings))

    def show_part(self, result: ExecutionResult) -> None:
        """Shows what is new in an execution that goes on."""
        for run in result.runs:
            if run.output:
                self._print(self._output(run.output))
        for image in result.images:
            self._terminal.out(picture(image, self._terminal.surroundings))

    def refuse(self, error: ToolError) -> None:
        """Shows an error: what is wrong, and what to do."""
        if not self.live:
            self._terminal.err(f"{error.as_text()}\n")
            return
        body = Group(Text(error.message), Text(error.hint, style="dim"))
        panel = Panel(body, title=error.code, title_align="left", border_style="red", box=ROUNDED)
        self._terminal.err(self._rendered(panel))

    # --- how each answer is drawn

    def _drawn(self, result: Result) -> RenderableType:
        if isinstance(result, ExecutionResult):
            return self._execution(result)
        fields = result.model_dump(mode="json", exclude_none=True, exclude={"notices"})
        if isinstance(fields.get("source"), str) and "cell_type" in fields:
            return self._cell(fields)
        if isinstance(fields.get("text"), str) and "revision" in fields:
            return Syntax(fields["text"].rstrip("\n"), "python", word_wrap=True)
        lists = [name for name, value in fields.items() if _is_rows(value)]
        if len(lists) == 1:
            return self._rows(lists[0], fields)
        return Text.from_ansi(result.as_text())

    def _execution(self, result: ExecutionResult) -> RenderableType:
        parts: list[RenderableType] = []
        for run in result.runs:
            parts += self._run(run)
        if result.prompt is not None:
            parts.append(Text(f"input() asked {result.prompt!r}; nobody could answer", "yellow"))
        if result.skipped:
            parts.append(Text(f"· {result.skipped} more cells were not run", style="dim"))
        if result.status in ("queued", "running"):
            parts.append(Text(f"Still {result.status}: nb watch {result.execution_id}", "yellow"))
        return Group(*parts)

    def _run(self, run: CellRun) -> Iterable[RenderableType]:
        sign, style = SYMBOLS.get(run.status, FAILED)
        count = f"[{run.execution_count}]" if run.execution_count is not None else ""
        took = f"{run.duration:.2f} s" if run.duration is not None else ""
        name = f"@{run.cell}" if run.cell else ""
        words = (
            sign,
            name,
            count,
            run.status if run.status != "ok" else "",
            took,
            run.message or "",
        )
        head = Text(" ".join(word for word in words if word), style=style)
        failed = run.status not in SYMBOLS
        if failed and run.output:
            yield Panel(
                self._output(run.output),
                title=head,
                title_align="left",
                border_style="red",
                box=ROUNDED,
            )
            return
        if run.output:
            yield self._output(run.output)
        for value in run.data:
            yield JSON.from_data(value)
        yield head

    def _cell(self, fields: dict[str, Any]) -> RenderableType:
        count = f" [{fields['execution_count']}]" if "execution_count" in fields else ""
        title = f"@{fields['address']} cell {fields['index']} {fields['cell_type']}{count}"
        source: RenderableType = (
            Markdown(fields["source"])
            if fields["cell_type"] == "markdown"
            else Syntax(fields["source"], "python", word_wrap=True)
        )
        state = fields.get("state", "")
        parts = [Panel(source, title=title, subtitle=state, title_align="left", box=ROUNDED)]
        if fields.get("output"):
            return Group(*parts, self._output(fields["output"]))
        return Group(*parts)

    def _rows(self, name: str, fields: dict[str, Any]) -> RenderableType:
        rows: list[dict[str, Any]] = fields.pop(name)
        # What says nothing in any row takes no room; a versioned address begins with the id beside it.
        columns = [
            key
            for key in dict.fromkeys(key for row in rows for key in row)
            if key != "address" and any(row.get(key) for row in rows)
        ]
        table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for column in columns:
            number = all(isinstance(row.get(column, 0), int | float) for row in rows)
            heading = column.replace("_", " ")
            widest = max(len(heading), *(len(_shown(column, row.get(column))) for row in rows))
            table.add_column(
                heading,
                # Where there is too little room, the long ones give way.
                min_width=widest if widest <= SHORT else None,
                justify="right" if number else "left",
                overflow="ellipsis",
                no_wrap=True,
            )
        for row in rows:
            table.add_row(*(_shown(column, row.get(column)) for column in columns))
        scalars = ", ".join(
            f"{key.replace('_', ' ')}: {value}"
            for key, value in fields.items()
            if value and isinstance(value, str | int | float)
        )
        return Group(Text(scalars, style="dim"), table) if scalars else table

    def _output(self, text: str) -> RenderableType:
        return Text.from_ansi(_in_words(text))

    def _print(self, what: RenderableType) -> None:
        self._terminal.out(self._rendered(what))

    def _rendered(self, what: RenderableType) -> str:
        around = self._terminal.surroundings
        file = StringIO()
        console = Console(
            file=file,
            width=max(around.columns, 40),
            force_terminal=True,
            color_system=_colours(around.env),
            no_color="NO_COLOR" in around.env,
            highlight=False,
            legacy_windows=False,
        )
        console.print(what)
        return file.getvalue()


def _in_words(text: str) -> str:
    """The same text, with what it says of whole outputs as a command."""
    return _WHOLE.sub(r"\1nb output ", text)


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
        return Text(", ".join(map(str, cast("list[object]", value))))
    return Text(str(value))


def _colours(env: Any) -> Any:
    if env.get("TERM") == "dumb":
        return None
    if env.get("COLORTERM") in ("truecolor", "24bit"):
        return "truecolor"
    return "256" if "256" in env.get("TERM", "") else "standard"
