"""Showing answers on a terminal: drawn for a person who looks on, plain in a pipe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import StringIO
from typing import TYPE_CHECKING, Literal

from tk_ai_extension.cli.pictures import picture
from tk_ai_extension.cli.terminal import Terminal, harmless
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.execution_results import ExecutionResult
from tk_ai_extension.tools.results import Result

if TYPE_CHECKING:
    from rich.console import RenderableType

_WHOLE = re.compile(r"(\[[^\[\]\n]*)read_output (?=[\w-]{12}\])")
"""Where an answer points to what was too long to show."""

_FOLLOW = re.compile(r'(Still \w+: follow it with )wait_execution\("(\w+)"\)')
"""Where an answer says how to follow what goes on."""

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
        self._line = False

    async def progress(self, message: str) -> None:
        """Shows what a running call is doing, on a line that gives way to what comes next."""
        if self.live:
            width = max(self._terminal.info.columns - 3, 20)
            line = harmless(" ".join(message.split())[:width])
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
        from tk_ai_extension.cli import drawing  # takes long to import, and a pipe does without

        for notice in result.notices:
            self._print(drawing.plain(f"Note: {notice}", "yellow"))
        self._print(drawing.answer(result))
        self._show_images(result)

    def print_text(self, text: str) -> None:
        """Prints a part of an answer, where nobody looks on."""
        self._terminal.out(_in_words(text).rstrip("\n") + "\n")

    def show_part(self, result: ExecutionResult) -> None:
        """Shows what is new in an execution that goes on."""
        from tk_ai_extension.cli import drawing

        for run in result.runs:
            if run.output:
                self._print(drawing.plain(run.output))
        self._show_images(result)

    def refuse(self, error: ToolError) -> None:
        """Shows an error: what is wrong, and what to do."""
        if self.live:
            from tk_ai_extension.cli import drawing

            self._terminal.err(self._rendered(drawing.refusal(error)))
        else:
            # Standard error may be a terminal though the output is not.
            self._terminal.err(f"{harmless(error.as_text())}\n")

    def _show_images(self, result: Result) -> None:
        for image in result.images:
            self._terminal.out(picture(image, self._terminal.info))

    def _print(self, what: RenderableType) -> None:
        self._terminal.out(_in_words(self._rendered(what)))

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


def _in_words(text: str) -> str:
    """The same text, with what it says of whole outputs and of what goes on as commands."""
    return _FOLLOW.sub(r"\1nb watch \2", _WHOLE.sub(r"\1nb output ", text))


def _colours(env: Mapping[str, str]) -> Literal["standard", "256", "truecolor"] | None:
    """How many colours a terminal has, as far as it says."""
    if env.get("TERM") == "dumb":
        return None
    if env.get("COLORTERM") in ("truecolor", "24bit"):
        return "truecolor"
    return "256" if "256" in env.get("TERM", "") else "standard"
