"""Showing a turn below the cell that asks: as Markdown that grows, or as plain text."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tk_ai_extension.magics.safe_markdown import harmless

EVERY = 0.1
"""Seconds between two looks of a text that grows; each carries the whole of it."""
MAX_LINE = 200
"""Characters of a line about a call."""


class Screen(Protocol):
    """Shows what happens in a turn."""

    @property
    def late(self) -> float | None:
        """Seconds after which `look` is to be called where nothing happens; None for never."""
        ...

    def look(self) -> None:
        """Shows what was not shown yet."""
        ...

    def text(self, block: int, start: int, piece: str) -> None:
        """A piece of a block of Claude's text begins at this character."""
        ...

    def discard(self, block: int) -> None:
        """The blocks from this number on are void."""
        ...

    def call(self, call: str, line: str, *, over: bool) -> None:
        """How a call is, in a line that takes the place of the one before; whether it has ended."""
        ...

    def note(self, line: str) -> None:
        """Something to know besides."""
        ...

    def finish(self) -> None:
        """Shows all there is: the turn is over, or a person is asked."""
        ...


class _Part:
    """A display whose content is replaced as it grows."""

    def __init__(self, show: Show) -> None:
        self.content = ""
        self.is_shown = True
        self.is_over = False
        """Whether nothing more comes."""
        self._show = show
        self._id: str | None = None

    def put(self, content: str) -> None:
        """Has it show this when it is looked at next."""
        self.content = content
        self.is_shown = False

    def look(self) -> None:
        """Shows its content, unless that is what it shows."""
        if not self.is_shown:
            self.is_shown = True
            self._id = self._show(self.content, self._id)


Show = Callable[[str, str | None], str]
"""Shows Markdown as a new display, or in the place of the one with this id; the display's id."""


class Rich:
    """Displays of Markdown, one for each block and each call, that change as they grow.

    Args:
        show: Shows one.
        live: Whether the client lets displays change; else each is shown when it is whole.
        clock: Seconds.
    """

    def __init__(
        self, show: Show, *, live: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._show = show
        self._live = live
        self._clock = clock
        self._looked = clock() - EVERY
        self._blocks: dict[int, _Part] = {}
        self._calls: dict[str, _Part] = {}
        # While nothing has come, a display says so; the first one takes its place.
        self._first: _Part | None = _Part(show) if live else None
        if self._first is not None:
            self._first.put("…")
        self.look()

    @property
    def late(self) -> float | None:
        """Seconds until what has grown is to be shown."""
        if not self._live or all(part.is_shown for part in self._parts()):
            return None
        return max(self._looked + EVERY - self._clock(), 0)

    def look(self) -> None:
        """Shows what has grown."""
        self._looked = self._clock()
        for part in self._parts():
            if self._live or part.is_over:
                part.look()

    def finish(self) -> None:
        """Shows everything, whole or not."""
        for part in self._parts():
            part.is_over = True
        self.look()

    def text(self, block: int, start: int, piece: str) -> None:
        """A piece of text; shown at once, unless another was shown just now."""
        part = self._blocks.get(block)
        is_new = part is None
        if part is None:
            self._end_texts()
            part = self._blocks[block] = self._new()
        part.put(part.content[:start] + piece)
        if is_new or self.late == 0:
            self.look()

    def discard(self, block: int) -> None:
        """Empties the void blocks."""
        for number in [number for number in self._blocks if number >= block]:
            part = self._blocks.pop(number)
            part.put("")
            if self._live:
                part.look()

    def call(self, call: str, line: str, *, over: bool) -> None:
        """A line about a call."""
        self._end_texts()
        part = self._calls.get(call)
        if part is None:
            part = self._calls[call] = self._new()
        part.put(_code(line))
        part.is_over = over
        self.look()

    def note(self, line: str) -> None:
        """A line by itself."""
        self._end_texts()
        part = self._new()
        part.put(f"*{line}*")
        part.look()

    def _end_texts(self) -> None:
        """The texts so far are whole: something else begins."""
        for part in self._blocks.values():
            part.is_over = True
        self.look()

    def _new(self) -> _Part:
        first, self._first = self._first, None
        return first or _Part(self._show)

    def _parts(self) -> list[_Part]:
        first = [] if self._first is None else [self._first]
        return [*first, *self._blocks.values(), *self._calls.values()]


class Plain:
    """Text as it comes, where nothing can change that was shown.

    Args:
        write: Takes text.
    """

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self._write = write or _write
        self._in_line = False
        self._lengths: dict[int, int] = {}

    @property
    def late(self) -> float | None:
        """Never: all is written as it comes."""
        return None

    def look(self) -> None:
        """All is shown already."""

    def text(self, block: int, start: int, piece: str) -> None:
        """Writes what is new of it."""
        if block not in self._lengths:
            self.finish()
        known = self._lengths.get(block, 0)
        self._lengths[block] = max(known, start + len(piece))
        self._put(piece[max(known - start, 0) :])

    def discard(self, block: int) -> None:
        """Says so: it is written already."""
        self._lengths = {known: size for known, size in self._lengths.items() if known < block}
        self.note("The line to the model was cut; it begins anew.")

    def call(self, call: str, line: str, *, over: bool) -> None:  # noqa: ARG002 - a line each
        """Writes the line."""
        self.note(line)

    def note(self, line: str) -> None:
        """Writes the line."""
        self.finish()
        self._put(f"{line}\n")

    def finish(self) -> None:
        """Ends the line."""
        if self._in_line:
            self._put("\n")

    def _put(self, text: str) -> None:
        if text:
            self._write(text)
            self._in_line = not text.endswith("\n")


def display_of(ipython: Any) -> Show:
    """Shows Markdown below the running cell of an IPython kernel."""

    def show(text: str, shown: str | None) -> str:
        display_id = shown or f"tk-{time.time_ns():x}"
        bundle = {"text/markdown": harmless(text), "text/plain": text}
        ipython.display_pub.publish(
            bundle, transient={"display_id": display_id}, update=shown is not None
        )
        return display_id

    return show


def screen_for(ipython: Any, *, plain: bool, live: bool) -> Screen:
    """The screen of an IPython shell: plain in a terminal, and where that is asked for."""
    if plain or type(ipython).__name__ == "TerminalInteractiveShell":
        return Plain()
    return Rich(display_of(ipython), live=live)


def describe(event: Mapping[str, Any]) -> str:
    """The line about a call that an event tells of."""
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
            raise ValueError(f"{kind} tells of no call")


def _code(line: str) -> str:
    """A line as code in Markdown, whatever it holds."""
    return f"`{' '.join(line.replace('`', chr(39)).split())}`"


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
