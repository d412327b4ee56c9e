"""Output of results: rendered on a terminal, plain text in a pipe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import StringIO
from typing import TYPE_CHECKING, Literal

from tk_ai_extension.cli.pictures import picture
from tk_ai_extension.cli.terminal import Terminal, harmless
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.context import Result
from tk_ai_extension.tools.execution_results import ExecutionResult

if TYPE_CHECKING:
    from rich.console import RenderableType

_WHOLE = re.compile(r"(\[[^\[\]\n]*)read_output (?=[\w-]{12}\])")
"""Matches the reference to an output that was too long."""

_FOLLOW = re.compile(r'(Still \w+: follow it with )wait_execution\("(\w+)"\)')
"""Matches the reference to a running execution."""

_CLEAR = "\r\x1b[2K"


class Screen:
    """Shows results on a terminal.

    Args:
        terminal: The terminal.
        live: Whether the output is a terminal.
    """

    def __init__(self, terminal: Terminal, *, live: bool) -> None:
        self.live = live
        self._terminal = terminal
        self._line = False

    async def progress(self, message: str) -> None:
        """Show the progress of a running call, on a line that later output replaces."""
        if self.live:
            width = max(self._terminal.info.columns - 3, 20)
            line = harmless(" ".join(message.split())[:width])
            self._terminal.err(f"{_CLEAR}\x1b[33m●\x1b[0m {line}")
            self._line = True

    def clear_progress(self) -> None:
        """Clear the line of progress."""
        if self._line:
            self._terminal.err(_CLEAR)
            self._line = False

    def show(self, result: Result) -> None:
        """Show a result."""
        if not self.live:
            text = _with_commands(result.full_text())
            self._terminal.out(text if text.endswith("\n") else text + "\n")
            return
        from tk_ai_extension.cli import rendering  # slow to import, and not needed in a pipe

        for notice in result.notices:
            self._print(rendering.plain(f"Note: {notice}", "yellow"))
        self._print(rendering.render_result(result))
        self._show_images(result)

    def print_text(self, text: str) -> None:
        """Print a part of a result as plain text."""
        self._terminal.out(_with_commands(text).rstrip("\n") + "\n")

    def show_part(self, result: ExecutionResult) -> None:
        """Show new output of a running execution."""
        from tk_ai_extension.cli import rendering

        for run in result.runs:
            if run.output:
                self._print(rendering.plain(run.output))
        self._show_images(result)

    def refuse(self, error: ToolError) -> None:
        """Show an error with its hint."""
        if self.live:
            from tk_ai_extension.cli import rendering

            self._terminal.err(self._rendered(rendering.render_error(error)))
        else:
            # Standard error may be a terminal even if the output is not.
            self._terminal.err(f"{harmless(error.as_text())}\n")

    def _show_images(self, result: Result) -> None:
        for image in result.images:
            self._terminal.out(picture(image, self._terminal.info))

    def _print(self, what: RenderableType) -> None:
        self._terminal.out(_with_commands(self._rendered(what)))

    def _rendered(self, what: RenderableType) -> str:
        from rich.console import Console

        around = self._terminal.info
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


def _with_commands(text: str) -> str:
    """Replace references to tools by commands."""
    return _FOLLOW.sub(r"\1nb watch \2", _WHOLE.sub(r"\1nb output ", text))


def _colours(env: Mapping[str, str]) -> Literal["standard", "256", "truecolor"] | None:
    """Return the number of colours that a terminal reports."""
    if env.get("TERM") == "dumb":
        return None
    if env.get("COLORTERM") in ("truecolor", "24bit"):
        return "truecolor"
    return "256" if "256" in env.get("TERM", "") else "standard"
