"""Show a turn below the cell that asks: as Markdown displays that update, or as plain text."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tk_ai_extension.magics.safe_markdown import escape_active_content

REFRESH_INTERVAL = 0.1
"""Seconds between two updates of a display. Each update sends the whole text."""
MAX_LINE = 200
"""Maximum characters of a line about a tool call."""


class Screen(Protocol):
    """Shows the events of a turn."""

    @property
    def refresh_in(self) -> float | None:
        """Seconds until `refresh` is due if no event arrives; None for never."""
        ...

    def refresh(self) -> None:
        """Show content that is not shown yet."""
        ...

    def text(self, block: int, start: int, piece: str) -> None:
        """Show a piece of text that begins at character ``start`` of a block."""
        ...

    def discard(self, block: int) -> None:
        """Discard the blocks from this number on: the model sends them again."""
        ...

    def call(self, call: str, line: str, *, ended: bool) -> None:
        """Show the status of a tool call in one line, which replaces the previous one."""
        ...

    def note(self, line: str) -> None:
        """Show a note."""
        ...

    def finish(self) -> None:
        """Show all content: the turn has ended, or the user is asked."""
        ...


class _Display:
    """A display whose content is replaced as it grows."""

    def __init__(self, show: Show) -> None:
        self.content = ""
        self.is_shown = True
        self.is_complete = False
        """Whether the content will not change any more."""
        self._show = show
        self._id: str | None = None

    def put(self, content: str) -> None:
        """Set the content to show at the next refresh."""
        self.content = content
        self.is_shown = False

    def refresh(self) -> None:
        """Show the content if it is not shown yet."""
        if not self.is_shown:
            self.is_shown = True
            self._id = self._show(self.content, self._id)


Show = Callable[[str, str | None], str]
"""Shows Markdown as a new display, or replaces the one with this id; returns the display id."""


class RichScreen:
    """Markdown displays, one for each block of text and each tool call, updated as they grow.

    Args:
        show: Shows or updates a display.
        live: Whether the client renders display updates. If not, each display is shown once, when
            it is complete.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self, show: Show, *, live: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._show = show
        self._live = live
        self._clock = clock
        self._refreshed = clock() - REFRESH_INTERVAL
        self._blocks: dict[int, _Display] = {}
        self._calls: dict[str, _Display] = {}
        # A placeholder until the first content arrives, which replaces it.
        self._first: _Display | None = _Display(show) if live else None
        if self._first is not None:
            self._first.put("…")
        self.refresh()

    @property
    def refresh_in(self) -> float | None:
        """Seconds until changed displays are due for a refresh."""
        if not self._live or all(display.is_shown for display in self._displays()):
            return None
        return max(self._refreshed + REFRESH_INTERVAL - self._clock(), 0)

    def refresh(self) -> None:
        """Show the displays that changed."""
        self._refreshed = self._clock()
        for display in self._displays():
            if self._live or display.is_complete:
                display.refresh()

    def finish(self) -> None:
        """Show all displays, complete or not."""
        for display in self._displays():
            display.is_complete = True
        self.refresh()

    def text(self, block: int, start: int, piece: str) -> None:
        """Add a piece of text; updates are throttled to one per `REFRESH_INTERVAL`."""
        display = self._blocks.get(block)
        is_new = display is None
        if display is None:
            self._complete_texts()
            display = self._blocks[block] = self._new()
        display.put(display.content[:start] + piece)
        if is_new or self.refresh_in == 0:
            self.refresh()

    def discard(self, block: int) -> None:
        """Empty the discarded blocks."""
        for number in [number for number in self._blocks if number >= block]:
            display = self._blocks.pop(number)
            display.put("")
            if self._live:
                display.refresh()

    def call(self, call: str, line: str, *, ended: bool) -> None:
        """Show the status of a tool call."""
        self._complete_texts()
        display = self._calls.get(call)
        if display is None:
            display = self._calls[call] = self._new()
        display.put(_code(line))
        display.is_complete = ended
        self.refresh()

    def note(self, line: str) -> None:
        """Show a note in a display of its own."""
        self._complete_texts()
        display = self._new()
        display.put(f"*{line}*")
        display.refresh()

    def _complete_texts(self) -> None:
        """Mark the texts so far as complete: something else begins."""
        for display in self._blocks.values():
            display.is_complete = True
        self.refresh()

    def _new(self) -> _Display:
        first, self._first = self._first, None
        return first or _Display(self._show)

    def _displays(self) -> list[_Display]:
        first = [] if self._first is None else [self._first]
        return [*first, *self._blocks.values(), *self._calls.values()]


class PlainScreen:
    """Plain text, written as it arrives, for clients that cannot update displays.

    Args:
        write: Writes text; standard output unless given.
    """

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self._write = write or _write
        self._in_line = False
        self._lengths: dict[int, int] = {}

    @property
    def refresh_in(self) -> float | None:
        """None: text is written as it arrives."""
        return None

    def refresh(self) -> None:
        """Do nothing: text is written as it arrives."""

    def text(self, block: int, start: int, piece: str) -> None:
        """Write the part of the piece that is new."""
        if block not in self._lengths:
            self.finish()
        known = self._lengths.get(block, 0)
        self._lengths[block] = max(known, start + len(piece))
        self._put(piece[max(known - start, 0) :])

    def discard(self, block: int) -> None:
        """Write a note: the discarded text is written already."""
        self._lengths = {known: size for known, size in self._lengths.items() if known < block}
        self.note("The connection to the model was lost. The answer starts again.")

    def call(self, call: str, line: str, *, ended: bool) -> None:  # noqa: ARG002 - one line for each
        """Write the line."""
        self.note(line)

    def note(self, line: str) -> None:
        """Write the line."""
        self.finish()
        self._put(f"{line}\n")

    def finish(self) -> None:
        """End the current line."""
        if self._in_line:
            self._put("\n")

    def _put(self, text: str) -> None:
        if text:
            self._write(text)
            self._in_line = not text.endswith("\n")


def display_of(ipython: Any) -> Show:
    """Return a function that shows Markdown below the running cell of an IPython kernel."""

    def show(text: str, shown: str | None) -> str:
        display_id = shown or f"tk-{time.time_ns():x}"
        bundle = {"text/markdown": escape_active_content(text), "text/plain": text}
        ipython.display_pub.publish(
            bundle, transient={"display_id": display_id}, update=shown is not None
        )
        return display_id

    return show


def screen_for(ipython: Any, *, plain: bool, live: bool) -> Screen:
    """Return the screen for an IPython shell: plain in a terminal or on request."""
    if plain or type(ipython).__name__ == "TerminalInteractiveShell":
        return PlainScreen()
    return RichScreen(display_of(ipython), live=live)


def describe(event: Mapping[str, Any]) -> str:
    """Return the line that describes an event of a tool call."""
    match event["kind"]:
        case "tool_call":
            return f"● {event['tool']}"
        case "tool_progress":
            return f"● {event['message']}"[:MAX_LINE]
        case "tool_result":
            name = f"{event['tool']}  {event['seconds']:.1f} s"
            if event["ok"]:
                return f"✔ {name}"
            first = str(event["text"]).strip().partition("\n")[0]
            return f"✘ {name}  {first}"[:MAX_LINE]
        case kind:
            raise ValueError(f"{kind} is not an event of a tool call")


def _code(line: str) -> str:
    """Return a line as inline code in Markdown."""
    return f"`{' '.join(line.replace('`', chr(39)).split())}`"


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
