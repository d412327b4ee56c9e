"""Compare values: numbers by tolerance, JSON, tables cell by cell, and images pixel by pixel."""

from __future__ import annotations

import base64
import binascii
import io
import math
import re
import warnings
from collections.abc import Iterator
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple, cast

from tk_ai_extension.model.digest import cut
from tk_ai_extension.verification.rules import Rules

MAX_DEPTH = 200
"""Maximum nesting of JSON that is compared value by value."""
MAX_PIXELS = 50_000_000
"""Maximum pixels of an image that is decoded."""
MAX_VALUE = 60
"""Maximum characters of a value or a key in a sentence."""
VISIBLE = 24
"""Difference in one channel, of 255, from which a pixel counts as different."""

_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d*)?(?:[eE][-+]?\d+)?%?\Z")
_CODE = re.compile(r"[-+]?0[\d,]")
"""Matches the start of a code, such as ``01234``: its leading zeros belong to it."""
_MASKED = ("model_id",)
"""Members that name objects of a kernel."""


def close(stored: float, new: float, rules: Rules) -> bool:
    """Return whether two numbers are equal, within the tolerance unless both are integers.

    Not-a-number equals itself.

    >>> close(1.0, 1.000001, Rules()), close(1.0, 1.1, Rules()), close(math.nan, math.nan, Rules())
    (True, False, True)
    >>> close(20260101, 20260131, Rules()), close(10**400, 1.0, Rules())
    (False, False)
    """
    if isinstance(stored, int) and isinstance(new, int):
        return stored == new
    try:
        return _close(stored, new, rules)
    except OverflowError:  # An integer beyond all floats.
        return False


def _close(stored: float, new: float, rules: Rules) -> bool:
    if math.isnan(stored) or math.isnan(new):
        return math.isnan(stored) and math.isnan(new)
    absolute = rules.absolute if rules.relative else 0.0
    return math.isclose(stored, new, rel_tol=rules.relative, abs_tol=absolute)


def number(text: str) -> float | None:
    """Return the number that a cell of a table shows; None for anything else.

    >>> number(" 1,234.50 "), number("12%"), number("1.2.3"), number(""), number("01234")
    (1234.5, 12, None, None, None)
    >>> number("12e400")
    """
    text = text.strip().replace("\N{MINUS SIGN}", "-")
    if not any(map(str.isdecimal, text)) or not _NUMBER.match(text) or _CODE.match(text):
        return None
    try:
        text = text.replace(",", "").rstrip("%")
        if text.lstrip("+-").isdecimal():
            return int(text)
        value = float(text)
    except ValueError:
        return None
    # Beyond all floats, as a hash such as 12e400 may be, every number would equal every other.
    return value if math.isfinite(value) else None


def same_text_cell(stored: str, new: str, rules: Rules) -> bool:
    """Return whether two cells of tables are equal: as numbers if both are, else as texts."""
    if stored == new:
        return True
    numbers = number(stored), number(new)
    if numbers[0] is None or numbers[1] is None:
        return False
    return stored.strip().endswith("%") == new.strip().endswith("%") and close(
        numbers[0], numbers[1], rules
    )


class JsonDifference(NamedTuple):
    """A value that differs: one sentence with its place, and the two values as lines of a diff."""

    message: str
    lines: tuple[str, ...]


def json_differences(
    stored: Any,
    new: Any,
    rules: Rules,
    place: str = "$",
    depth: int = 0,
    *,
    markup: bool = False,
) -> Iterator[JsonDifference]:
    """Yield each value of two JSON values that differs.

    With ``markup``, generated ids in strings are ignored (`Rules.text`).

    >>> [each.message for each in json_differences({"a": [1, 2.0]}, {"a": [1, 2.5], "b": 0}, Rules())]
    ['$.a[1]: 2.0 is now 2.5', '$.b: new']
    >>> next(json_differences({"a": 1}, {"a": 2}, Rules())).lines
    ('-$.a: 1', '+$.a: 2')
    """
    if depth > MAX_DEPTH:
        if stored != new:
            yield JsonDifference(f"{place}: differs", (f"-{place}", f"+{place}"))
    elif isinstance(stored, dict) and isinstance(new, dict):
        before, after = cast("dict[str, Any]", stored), cast("dict[str, Any]", new)
        yield from _members(before, after, rules, place, depth + 1, markup=markup)
    elif isinstance(stored, list) and isinstance(new, list):
        ours, theirs = cast("list[Any]", stored), cast("list[Any]", new)
        if len(ours) != len(theirs):
            yield JsonDifference(
                f"{place}: {len(ours)} items are now {len(theirs)}",
                (f"-len({place}): {len(ours)}", f"+len({place}): {len(theirs)}"),
            )
        for index, (one, other) in enumerate(zip(ours, theirs, strict=False)):
            inside = f"{place}[{index}]"
            yield from json_differences(one, other, rules, inside, depth + 1, markup=markup)
    elif not _same_scalar(stored, new, rules, markup=markup):
        before, after = _short(stored), _short(new)
        yield JsonDifference(
            f"{place}: {before} is now {after}", (f"-{place}: {before}", f"+{place}: {after}")
        )


def _members(
    stored: dict[str, Any],
    new: dict[str, Any],
    rules: Rules,
    place: str,
    depth: int,
    *,
    markup: bool,
) -> Iterator[JsonDifference]:
    for key in (*stored, *(key for key in new if key not in stored)):
        inside = f"{place}.{cut(key, MAX_VALUE)}"
        if key in _MASKED:
            continue
        if key not in new:
            yield JsonDifference(f"{inside}: missing", (f"-{inside}",))
        elif key not in stored:
            yield JsonDifference(f"{inside}: new", (f"+{inside}",))
        else:
            yield from json_differences(stored[key], new[key], rules, inside, depth, markup=markup)


def _same_scalar(stored: Any, new: Any, rules: Rules, *, markup: bool) -> bool:
    if isinstance(stored, str) and isinstance(new, str):
        compared = partial(rules.text, markup=markup)
        return stored == new or compared(stored) == compared(new)
    if isinstance(stored, bool) or isinstance(new, bool):
        return stored is new
    if isinstance(stored, int | float) and isinstance(new, int | float):
        return stored == new or close(stored, new, rules)
    return type(stored) is type(new) and stored == new


def _short(value: Any) -> str:
    return cut(repr(value), MAX_VALUE)


def table_differences(stored: list[str], new: list[str], rules: Rules) -> list[str]:
    """Return a sentence for each cell of two tables that differs.

    Args:
        stored: The rows of the stored table, cells separated by ``|``.
        new: The rows of the new table.
        rules: The tolerance of numbers.
    """
    found: list[str] = []
    for row, (before, after) in enumerate(zip_longest(stored, new), 1):
        if before is None or after is None:
            found.append(f"row {row} is new" if before is None else f"row {row} is missing")
            continue
        cells = _cells(before), _cells(after)
        if len(cells[0]) != len(cells[1]):
            found.append(f"row {row}: {len(cells[0])} cells are now {len(cells[1])}")
            continue
        found += [
            f"row {row}, column {column}: {_short(one)} is now {_short(other)}"
            for column, (one, other) in enumerate(zip(*cells, strict=True), 1)
            if not same_text_cell(one, other, rules)
        ]
    return found


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.split("|")]


def image_difference(stored: str, new: str, rules: Rules) -> str | None:
    """Return how two images in base64 differ; None if they are the same within the tolerance."""
    if stored == new:
        return None
    first, second = _decoded(stored), _decoded(new)
    for each in (first, second):
        if isinstance(each, str):
            return each
    if first.size != second.size:
        return f"{_size(first)} pixels are now {_size(second)}"
    from PIL import Image, ImageChops  # Imported late: most notebooks need no decoding.

    largest: Any = None
    for channel in ImageChops.difference(first, second).split():
        largest = channel if largest is None else ImageChops.lighter(largest, channel)
    assert isinstance(largest, Image.Image)
    counts: list[int] = largest.histogram()
    share = sum(counts[VISIBLE:]) / (first.size[0] * first.size[1])
    if share <= rules.image:
        return None
    shown = f"{share:.1%}" if share >= 0.001 else f"{100 * share:.2g}%"
    return f"{shown} of the pixels differ"


def _size(image: Any) -> str:
    return f"{image.size[0]} x {image.size[1]}"


def _decoded(data: str) -> Any:
    """Return an image with red, green, blue and alpha; a sentence if pixels cannot be compared."""
    import PIL.Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", PIL.Image.DecompressionBombWarning)
            with PIL.Image.open(io.BytesIO(base64.b64decode(data))) as picture:
                if getattr(picture, "is_animated", False):
                    return "the images differ, and one of them is animated"
                if picture.size[0] * picture.size[1] > MAX_PIXELS:
                    return "the images differ, and one of them is too large to compare its pixels"
                return picture.convert("RGBA")
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning):
        return "the images differ, and one of them is too large to compare its pixels"
    except (binascii.Error, ValueError, OSError, SyntaxError):
        return "the images differ, and one of them cannot be decoded"
