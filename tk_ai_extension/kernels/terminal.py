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

_PARTS = re.compile(r"\r+|[\b]+|[^\r\b]+")

_Slice = tuple[str, int, int]  # a string, and the start and end of the part of it that counts


class TerminalText:
    """A text that grows at its end and changes only in its last line.

    The text is two stacks of slices, before and after the cursor, so that no step copies a line: the
    cost of `write` is linear in what is written, however long the text or its last line is.
    """

    def __init__(self) -> None:
        self._before: list[_Slice] = []
        self._after: list[_Slice] = []  # the last slice is the one at the cursor
        self._behind = 0  # characters after the cursor
        self._column = 0  # characters of the last line before the cursor
        self._start = 0  # index from which the text differs from what was drained
        self._drained_length = 0  # length at the last drain
        self.length = 0
        """Characters of the whole text."""

    @property
    def value(self) -> str:
        """The whole text."""
        return self._join(0)

    def write(self, text: str) -> None:
        """Add what the kernel printed."""
        for match in _PARTS.finditer(text):
            part = match[0]
            if part[0] == "\b":
                self._erase(len(part))
            elif part[0] == "\r":
                self._return()
            else:
                self._put(part)

    def drain(self) -> tuple[int, str] | None:
        """Return ``(start, new)`` such that the text is now ``text[:start] + new``; None if unchanged."""
        if self._start == self._drained_length == self.length:
            return None
        start = min(self._start, self._cursor)
        new = self._join(start)
        self._start = self._drained_length = self.length
        return start, new

    @property
    def _cursor(self) -> int:
        return self.length - self._behind

    def _put(self, text: str) -> None:
        """Write text without carriage returns and backspaces."""
        if self._after:
            text, newline, rest = text.partition("\n")
            self._change_from(self._cursor)
            self._drop_after(len(text))
            self._push(text)
            if not newline:
                return
            while self._after:
                self._before.append(self._after.pop())
            self._behind = 0
            text = newline + rest
        self._push(text)

    def _push(self, text: str) -> None:
        """Insert text at the cursor."""
        if text:
            self._before.append((text, 0, len(text)))
            self.length += len(text)
            last = len(text) - text.rfind("\n") - 1
            self._column = last if last < len(text) else self._column + last

    def _return(self) -> None:
        """Move the cursor to the start of its line."""
        self._behind += self._column
        while self._column:
            text, start, end = self._before.pop()
            at = max(end - self._column, start)
            if at > start:
                self._before.append(_slice(text, start, at))
            self._after.append(_slice(text, at, end))
            self._column -= end - at

    def _erase(self, count: int) -> None:
        """Delete characters before the cursor, and as many after it, within the line."""
        count = min(count, self._column)
        self._column -= count
        self.length -= count
        self._drop_after(count)
        while count:
            text, start, end = self._before.pop()
            at = max(end - count, start)
            if at > start:
                self._before.append(_slice(text, start, at))
            count -= end - at
        self._change_from(self._cursor)

    def _drop_after(self, count: int) -> None:
        """Delete characters after the cursor."""
        count = min(count, self._behind)
        self._behind -= count
        self.length -= count
        while count:
            text, start, end = self._after.pop()
            at = min(start + count, end)
            if at < end:
                self._after.append(_slice(text, at, end))
            count -= at - start

    def _change_from(self, start: int) -> None:
        self._start = min(self._start, start)

    def _join(self, start: int) -> str:
        """Return the text from an index up to the cursor, or less, and make one slice of each side."""
        count, taken = self._cursor - start, list[str]()
        while count:
            text, first, end = self._before.pop()
            at = max(end - count, first)
            if at > first:
                self._before.append(_slice(text, first, at))
            taken.append(text[at:end])
            count -= end - at
        before = "".join(reversed(taken))
        after = "".join(text[first:end] for text, first, end in reversed(self._after))
        if before:
            self._before.append((before, 0, len(before)))
        if after:
            self._after = [(after, 0, len(after))]
        return before + after


def _slice(text: str, start: int, end: int) -> _Slice:
    """Return a slice; a copy if it is so short that the rest of the string would waste memory."""
    if 2 * (end - start) < len(text):
        return text[start:end], 0, end - start
    return text, start, end
