"""Rules of a comparison: what is replaced in texts before they are compared, and tolerances."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import regex

from tk_ai_extension.model.errors import InvalidArguments

SECONDS = 5.0
"""Maximum seconds of one replacement: patterns come from files of other people."""
MAX_PATTERN = 2_000
"""Maximum characters of a pattern."""

_PAIR = re.compile(r"^regex:[ ]?(.*)\n^replace:[ ]?(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Sanitizer:
    r"""A pattern and its replacement, in the syntax of ``re.sub``.

    >>> Sanitizer(r"\d+ ms", "TIME").apply("took 12 ms")
    'took TIME'
    """

    pattern: str
    replacement: str

    def apply(self, text: str) -> str:
        """Return the text with all matches replaced.

        Raises:
            InvalidArguments: The replacement took too long.
        """
        began = time.monotonic()
        try:
            return regex.sub(self.pattern, self.replacement, text, timeout=SECONDS, concurrent=True)
        except TimeoutError:
            raise InvalidArguments(
                f"The sanitizer `{self.pattern}` took longer than {time.monotonic() - began:.0f} s.",
                hint="Use a simpler pattern, without nested repetitions.",
            ) from None


ADDRESSES: Final = Sanitizer(r"\b0x[0-9a-fA-F]{4,}\b", "0xADDRESS")
"""Addresses in memory, as in ``<object at 0x7f0c2a10>``."""

_ALWAYS: Final = (
    ADDRESSES,
    # The files that ipykernel and IPython name for a cell.
    Sanitizer(r"""[^\s'"<>]*ipykernel_\d+[/\\]\d+\.py(?::\d+)?""", "CELL"),
    Sanitizer(r"<ipython-input-\d+-[0-9a-f]+>", "CELL"),
    Sanitizer(r"\bdisplay_id=[0-9a-f]{32}\b", "display_id=ID"),
)

_MARKUP: Final = (
    Sanitizer(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", "ID"),
    Sanitizer(r"\b[0-9a-f]{32}\b", "ID"),
    # Tables of pandas' Styler, and dates and ids in SVG files of Matplotlib.
    Sanitizer(r"\bT_[0-9a-f]{5}", "T_ID"),
    Sanitizer(r"<dc:date>[^<]*</dc:date>", ""),
    Sanitizer(r"""(?<=id="|href="#|url\(#)[mp][0-9a-f]{10}""", "ID"),
)

_NUMBER = r"\d+(?:\.\d+)?(?:e[-+]?\d+)?"
_UNIT = r"(?:ns|us|µs|μs|ms|s|sec(?:onds?)?|min(?:utes?)?|h(?:ours?)?)\b"
TIMES: Final = (
    Sanitizer(
        r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?", "DATE"
    ),
    Sanitizer(r"\b\d\d?:\d\d:\d\d(?:[.,]\d+)?\b", "TIME"),
    Sanitizer(rf"\b{_NUMBER} ?{_UNIT}(?: ?(?:±|\+-) ?{_NUMBER} ?{_UNIT})?", "DURATION"),
)
"""Dates, times of day and durations: off unless they are asked for."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of a comparison.

    Attributes:
        sanitizers: Replacements of the caller, applied before the built-in ones.
        ignore_times: Whether dates, times of day and durations are ignored.
        relative: Relative tolerance of numbers in tables and JSON.
        absolute: Absolute tolerance of numbers in tables and JSON, for what rounding leaves of zero; none
            if the relative tolerance is 0.
        image: Share of an image's pixels that may differ visibly, from 0 to 1.
        lax: Whether only cells that ask for it are compared (``nbval-check-output``).
    """

    sanitizers: tuple[Sanitizer, ...] = field(default=())
    ignore_times: bool = False
    relative: float = 1e-5
    absolute: float = 1e-15
    image: float = 0.001
    lax: bool = False

    def text(self, text: str, *, markup: bool = False) -> str:
        """Return a text as it is compared.

        Args:
            text: The text.
            markup: Whether it is HTML or SVG, where generated ids are replaced as well.
        """
        for sanitizer in self._all(markup=markup):
            text = sanitizer.apply(text)
        return text

    def _all(self, *, markup: bool) -> Iterable[Sanitizer]:
        yield from self.sanitizers
        yield from _ALWAYS
        if markup:
            yield from _MARKUP
        if self.ignore_times:
            yield from TIMES


DEFAULT: Final = Rules()
"""The rules unless others are asked for."""


def sanitizers_in(text: str, name: str = "the file") -> tuple[Sanitizer, ...]:
    r"""Return the sanitizers of a file in nbval's format: sections with ``regex`` and ``replace``.

    >>> sanitizers_in("[dates]\nregex: \\d{4}-\\d\\d\nreplace: MONTH\n")
    (Sanitizer(pattern='\\d{4}-\\d\\d', replacement='MONTH'),)

    Args:
        text: The text of the file.
        name: Its name, for errors.

    Raises:
        InvalidArguments: It has none, or a pattern is invalid.
    """
    found = tuple(
        Sanitizer(pattern, new) for pattern, new in _PAIR.findall(text.replace("\r\n", "\n"))
    )
    if not found:
        raise InvalidArguments(
            f"{name} has no sanitizer.",
            hint="Each one is a line `regex: PATTERN`, followed by a line `replace: TEXT`.",
        )
    for each in found:
        _check(each, name)
    return found


def _check(sanitizer: Sanitizer, name: str) -> None:
    """Raise InvalidArguments if a sanitizer cannot be used."""
    if len(sanitizer.pattern) > MAX_PATTERN:
        raise InvalidArguments(f"{name}: a pattern has more than {MAX_PATTERN:,} characters.")
    try:
        regex.compile(sanitizer.pattern)
        # The replacement is parsed at the first match: here, of the alternative that is empty.
        regex.sub(f"(?:{sanitizer.pattern})|", sanitizer.replacement, "", timeout=SECONDS)
    except (regex.error, IndexError, TimeoutError) as error:
        raise InvalidArguments(
            f"{name}: `{sanitizer.pattern}` with `{sanitizer.replacement}` is not valid: {error}."
        ) from None
