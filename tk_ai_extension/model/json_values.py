r"""JSON values, without those that cannot be written again: lone surrogates, NaN, infinity.

JSON can hold a lone surrogate (``"\ud83d"``), which no text encoding can write. Python's parser also
accepts NaN and infinity, which are not JSON: a browser cannot parse a file with them. Files, kernels and
clients send them. At the boundary a surrogate becomes U+FFFD and such a number becomes null. Bytes of a
file that is not edited stay unchanged.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, cast

Json = dict[str, Any]
"""A JSON object; its values are JSON values."""

MALFORMED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Exceptions of code that reads foreign JSON of an unexpected form.

Catch them only around that code and raise a typed error. Anywhere else they are bugs.
"""

UNSAFE = 1 << 53
"""The first integer that JavaScript cannot distinguish from a neighbour."""
UNSHAREABLE = 1 << 63
"""The first integer that a shared document cannot have."""

_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE_BYTES = re.compile(rb"\\u[dD][89a-fA-F]")


def encodable_text(text: str) -> str:
    """Return the text with lone surrogates replaced; a pair becomes its character."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def encodable(value: Any) -> Any:
    """Return a JSON value with `encodable_text` applied to its strings and keys, and null for NaN.

    >>> encodable({"a": [1.5, float("inf")]})
    {'a': [1.5, None]}
    """
    if isinstance(value, str):
        return encodable_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        found = cast("dict[Any, Any]", value)
        return {
            encodable_text(key) if isinstance(key, str) else key: encodable(item)
            for key, item in found.items()
        }
    if isinstance(value, (list, tuple)):
        return [encodable(item) for item in cast("Sequence[Any]", value)]
    return value


def shareable(value: Any, limit: int = UNSHAREABLE) -> Any:
    """Return a JSON value with numbers that a document shared with pages can have.

    Integers from the limit on become floats; those beyond the floats become strings. NaN and infinity
    become null, because jupyter-ydoc cannot save them.

    Args:
        value: The value.
        limit: The first integer that is converted. pycrdt panics for one of more than 64 bits. Pages get
            one of more than 53 bits as a BigInt, which JSON.stringify refuses: with `UNSAFE` it is
            rounded, as in any notebook that JupyterLab saves.

    >>> shareable([2**64, 10**400 == int(shareable(10**400)), float("nan"), 2**60, True])
    [1.8446744073709552e+19, True, None, 1152921504606846976, True]
    """
    if isinstance(value, int):
        return _as_float(value) if abs(value) >= limit else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: shareable(item, limit) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [shareable(item, limit) for item in cast("Sequence[Any]", value)]
    return value


def _as_float(value: int) -> float | str:
    try:
        return float(value)
    except OverflowError:
        return str(value)


def may_escape(text: str | bytes) -> bool:
    """Return whether JSON text has an escape of a surrogate, lone or in a pair."""
    found = _ESCAPE.search(text) if isinstance(text, str) else _ESCAPE_BYTES.search(text)
    return found is not None


def loads(text: str | bytes) -> Any:
    """Parse JSON text; all strings in the result can be encoded.

    Raises:
        ValueError: The text is not JSON.
    """
    value = json.loads(encodable_text(text) if isinstance(text, str) else text)
    return encodable(value) if may_escape(text) else value


def dumps(value: Any) -> str:
    """Return a value as JSON text that can be encoded; dataclasses become objects."""
    return encodable_text(json.dumps(value, ensure_ascii=False, default=asdict))
