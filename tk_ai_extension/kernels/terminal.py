r"""The text of a stream output as JupyterLab shows it, with carriage returns and backspaces applied.

A stream is what a terminal would receive. JupyterLab (``OutputAreaModel.processText``) keeps the
displayed text and a cursor in it:

- a line feed is appended to the text and moves the cursor to its end;
- a carriage return moves the cursor to the start of its line;
- a backspace deletes the character before the cursor (and, inside a line, the one under it);
- any other character overwrites the one under the cursor.

>>> text = TerminalText()
>>> text.write("10%\r20%\nspinner |\b/")
>>> text.value
'20%\nspinner /'
"""

from __future__ import annotations

import re

_PIECES = re.compile(r"[\n\r\b]|[^\n\r\b]+")
_MOVES = re.compile(r"[\r\b]")


class TerminalText:
    """A text that grows at its end and changes only in its last line.

    The cursor is always in the last line, so the lines above are never read again: the cost of `write`
    is linear in what is written, however long the text is.
    """

    def __init__(self) -> None:
        self._drained: list[str] = []
        self._fresh: list[str] = []
        self._start = 0  # index from which the text differs from what was drained
        self._drained_length = 0  # length at the last drain
        self._behind = 0  # distance of the cursor from the end
        self.length = 0
        """Characters of the whole text."""

    @property
    def value(self) -> str:
        """The whole text."""
        self._drained = ["".join(self._drained)]
        return self._drained[0] + "".join(self._fresh)

    def write(self, text: str) -> None:
        """Add what the kernel printed."""
        if self._behind == 0 and not _MOVES.search(text):
            self._append(text)
            return
        line = self._take_line()
        cursor = len(line) - self._behind
        for piece in _PIECES.findall(text):
            if piece == "\b":
                if cursor > 0:
                    line = line[: cursor - 1] + line[cursor + 1 :]
                    cursor -= 1
            elif piece == "\r":
                cursor = 0
            elif piece == "\n":
                self._append(line + "\n")
                line, cursor = "", 0
            else:
                line = line[:cursor] + piece + line[cursor + len(piece) :]
                cursor += len(piece)
        self._append(line)
        self._behind = len(line) - cursor

    def drain(self) -> tuple[int, str] | None:
        """Return ``(start, new)`` such that the text is now ``text[:start] + new``; None if unchanged."""
        if not self._fresh and self._start == self._drained_length:
            return None
        start, new = self._start, "".join(self._fresh)
        if new:
            self._drained.append(new)
        self._fresh.clear()
        self._start = self._drained_length = self.length
        return start, new

    def _append(self, text: str) -> None:
        if text:
            self._fresh.append(text)
            self.length += len(text)

    def _take_line(self) -> str:
        """Remove the last line from the parts and return it."""
        taken: list[str] = []
        for parts in (self._fresh, self._drained):
            while parts:
                part = parts.pop()
                end = part.rfind("\n") + 1
                taken.append(part[end:])
                if end:
                    parts.append(part[:end])
                    break
            if parts:
                break
        line = "".join(reversed(taken))
        self.length -= len(line)
        # The part of the line that was drained already is drained again.
        self._start = min(self._start, self.length)
        return line
