"""Regular expressions from callers, which must not hold the server up.

The standard library's ``re`` cannot be stopped and holds the interpreter while it backtracks: one
careless pattern would stall every kernel and every user. ``regex`` stops in time and lets go of the
interpreter meanwhile.
"""

from __future__ import annotations

import re
import time

import regex

from tk_ai_extension.model.errors import InvalidArguments

MAX_PATTERN = 1_000
"""Characters of a pattern."""
SECONDS = 10.0
"""How long one pattern may search in all."""

_CALL = re.compile(r"\\.|\[(?:\\.|[^\]])+\]|(\(\?(?:R|\d+|&\w+|P>\w+)\))", re.DOTALL)
"""A group that contains itself, in group 1; else what only looks like one.

``re`` has no such groups, and those that never end take hundreds of megabytes before time is up.
"""


class Pattern:
    """A regular expression with a bound on the time that all its searches take together.

    Args:
        text: The pattern, in the syntax of ``re``.
        seconds: The bound.

    Raises:
        InvalidArguments: it is no regular expression, or too long.
    """

    def __init__(self, text: str, *, seconds: float = SECONDS) -> None:
        if len(text) > MAX_PATTERN:
            raise InvalidArguments(f"The pattern has more than {MAX_PATTERN:,} characters.")
        if any(found[1] for found in _CALL.finditer(text)):
            raise InvalidArguments(
                f"`{text}` calls a group from a pattern, which is not supported.",
                hint="Escape characters that stand for themselves, such as `\\(`.",
            )
        try:
            self._pattern = regex.compile(text)
        except regex.error as error:
            raise InvalidArguments(
                f"`{text}` is no regular expression: {error}.",
                hint="Escape characters that stand for themselves, such as `\\(`.",
            ) from None
        self._text = text
        self._seconds = self._left = seconds

    def found_in(self, line: str) -> bool:
        """Return whether the pattern is found anywhere in a line.

        Raises:
            InvalidArguments: the searches took too long.
        """
        began = time.monotonic()
        try:
            found = self._pattern.search(line, timeout=max(self._left, 0.001), concurrent=True)
        except TimeoutError:
            raise InvalidArguments(
                f"`{self._text}` took longer than {self._seconds:g} s to search.",
                hint="Use a simpler pattern, without a repetition inside a repetition.",
            ) from None
        except (MemoryError, RecursionError):
            raise InvalidArguments(
                f"`{self._text}` needs too much memory to search.",
                hint="Use a pattern that does not contain itself.",
            ) from None
        self._left -= time.monotonic() - began
        return found is not None
