"""Output of a chat's turn on a terminal: text, calls, diffs and the end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tk_ai_extension.cli.pictures import picture
from tk_ai_extension.cli.proposals import lines_of
from tk_ai_extension.cli.terminal import Terminal, harmless
from tk_ai_extension.tools.context import Image

MAX_ARGUMENTS = 120
"""Maximum length of a call's arguments in the output, in characters."""

GREEN, RED, YELLOW, DIM = "32", "31", "33", "2"
"""ANSI colour codes."""
_MARKS = {"+": GREEN, "-": RED, "@": DIM, "title": YELLOW, "note": DIM}
"""Colour of each kind of line of a diff or a proposal."""


class ChatPrinter:
    """Prints events: Claude's text to standard output, everything else to standard error.

    Args:
        terminal: The terminal.
        coloured: Whether to use colours.
        as_json: Print each event as a line of JSON.
    """

    def __init__(self, terminal: Terminal, *, coloured: bool, as_json: bool) -> None:
        self._terminal = terminal
        self._coloured = coloured
        self._json = as_json
        self._block: int | None = None
        self._in_line = False

    def print_event(self, event: Mapping[str, Any]) -> None:
        """Print an event."""
        if self._json:
            self._terminal.out(json.dumps(event) + "\n")
            return
        match event["kind"]:
            case "text":
                self._text(event)
            case "tool_call":
                self._beside(f"● {event['tool']}{_arguments(event['arguments'])}", DIM)
            case "tool_result":
                self._result(event)
            case "cell_change":
                self._change(event)
            case "done":
                self._end_line()
            case _:
                if said := _note(event):
                    self.note(said)

    def note(self, text: str) -> None:
        """Print a note."""
        if not self._json:
            self._beside(text, YELLOW)

    def preview(self, event: Mapping[str, Any]) -> None:
        """Print the proposal of a call that needs approval."""
        if not self._json:
            where = f" in {event['notebook']}" if event["notebook"] else ""
            self._beside(f"Claude wants to run {event['tool']}{where}", YELLOW)
            for line, kind in lines_of(event["proposal"]):
                self._beside(f"  {line}", _MARKS.get(kind, ""))

    def _text(self, event: Mapping[str, Any]) -> None:
        if event["block"] != self._block:
            self._end_line()
            self._block = event["block"]
        text = harmless(event["text"])
        self._terminal.out(text)
        self._in_line = not text.endswith("\n")

    def _result(self, event: Mapping[str, Any]) -> None:
        took = f"{event['tool']}  {event['seconds']:.1f} s"
        if event["ok"]:
            self._beside(f"✔ {took}", GREEN)
        else:
            first = str(event["text"]).strip().partition("\n")[0]
            self._beside(f"✘ {took}  {first}", RED)
        for image in event["images"]:
            shown = Image(image["data"], image["mime"])
            self._terminal.err(picture(shown, self._terminal.info))

    def _change(self, event: Mapping[str, Any]) -> None:
        self._beside(f"  {event['action']} @{event['cell'][:8]} in {event['notebook']}", DIM)
        self._diff(event["diff"])

    def _diff(self, diff: str) -> None:
        for line in diff.splitlines():
            self._beside(f"  {line}", _MARKS.get(line[:1], ""))

    def _beside(self, line: str, colour: str) -> None:
        self._end_line()
        text = harmless(line)
        if self._coloured and colour:
            text = f"\x1b[{colour}m{text}\x1b[0m"
        self._terminal.err(f"{text}\n")

    def _end_line(self) -> None:
        if self._in_line:
            self._terminal.out("\n")
            self._in_line = False
        self._block = None


def _note(event: Mapping[str, Any]) -> str:
    """Return the note for an event that is not part of the response; empty for none."""
    match event["kind"]:
        case "discarded":
            return "Model connection lost; the last response will be repeated."
        case "message" if event["waits"]:
            return f"Queued behind {event['waits']} other messages of this chat."
        case "retry":
            count = f"{event['attempt']} of {event['attempts']}"
            return f"Retrying ({count}): {event['reason']}"
        case "notice":
            return str(event["text"])
        case _:
            return ""


def _arguments(arguments: Mapping[str, Any]) -> str:
    """Return a call's arguments, shortened."""
    shown = ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items()
    )
    cut = shown if len(shown) <= MAX_ARGUMENTS else f"{shown[:MAX_ARGUMENTS]}…"
    return f"({cut})"
