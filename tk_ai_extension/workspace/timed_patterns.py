"""Regular expressions from callers, with a time limit.

The standard library's ``re`` has no timeout and holds the GIL while it backtracks, so one pattern could
block the whole server. ``regex`` has a timeout and releases the GIL.
"""

from __future__ import annotations

import re
import time

import regex

from tk_ai_extension.model.errors import InvalidArguments

MAX_PATTERN = 1_000
"""Maximum characters of a search pattern."""
SECONDS = 10.0
"""Maximum seconds of all searches with one pattern."""

_CALL = re.compile(r"\\.|\[(?:\\.|[^\]])+(?:\]|\Z)|(\(\?(?:R|\d+|&\w+|P>\w+)\))", re.DOTALL)
"""Matches a recursive group in group 1; escapes and sets, which may look like one, without a group.

``re`` has no recursive groups. Endless ones take hundreds of megabytes before the timeout.
"""


class TimedPattern:
    """A regular expression with a limit on the total time of its searches.

    >>> TimedPattern("d[fg]").found_in("df.head()")
    True

    Args:
        text: The pattern, in the syntax of ``re``.
        seconds: Maximum seconds of all searches together.

    Raises:
        InvalidArguments: The pattern is not a valid regular expression, or is too long.
    """

    def __init__(self, text: str, *, seconds: float = SECONDS) -> None:
        if len(text) > MAX_PATTERN:
            raise InvalidArguments(f"The pattern has more than {MAX_PATTERN:,} characters.")
        if any(found[1] for found in _CALL.finditer(text)):
            raise InvalidArguments(
                f"`{text}` has a recursive group, which is not supported.",
                hint="Escape literal characters, for example `\\(`.",
            )
        try:
            self._pattern = regex.compile(text)
        except regex.error as error:
            raise InvalidArguments(
                f"`{text}` is not a valid regular expression: {error}.",
                hint="Escape literal characters, for example `\\(`.",
            ) from None
        self._text = text
        self._seconds = self._left = seconds

    def found_in(self, line: str) -> bool:
        """Return whether the pattern matches anywhere in a line.

        Raises:
            InvalidArguments: The searches took too long or need too much memory.
        """
        began = time.monotonic()
        try:
            found = self._pattern.search(line, timeout=max(self._left, 0.001), concurrent=True)
        except TimeoutError:
            raise InvalidArguments(
                f"The search for `{self._text}` took longer than {self._seconds:g} s.",
                hint="Use a simpler pattern, without nested repetitions.",
            ) from None
        except (MemoryError, RecursionError):
            raise InvalidArguments(
                f"The search for `{self._text}` needs too much memory.",
                hint="Use a simpler pattern, without recursive groups.",
            ) from None
        self._left -= time.monotonic() - began
        return found is not None
