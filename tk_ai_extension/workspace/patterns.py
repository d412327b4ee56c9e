"""Regular expressions from callers, which must not hold the server up.

The standard library's ``re`` cannot be stopped and holds the interpreter while it backtracks: one
careless pattern would stall every kernel and every user. ``regex`` stops in time and lets go of the
interpreter meanwhile.
"""

from __future__ import annotations

import time

import regex

from tk_ai_extension.model.errors import InvalidArguments

MAX_PATTERN = 1_000
"""Characters of a pattern."""
SECONDS = 10.0
"""How long one pattern may search in all."""


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
        """Whether the pattern is found anywhere in a line.

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
        self._left -= time.monotonic() - began
        return found is not None
