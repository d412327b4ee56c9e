r"""Replace lone surrogates in text where it enters the program.

JSON can hold a lone surrogate (``"\ud83d"``), which no text encoding can write. Files, kernels and
clients send them. They are replaced by U+FFFD at the boundary, so that all text inside can be encoded.
Bytes of a file that nobody edits stay unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, cast

MALFORMED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Exceptions of code that reads foreign JSON of an unexpected form.

Catch them only around that code and raise a typed error. Anywhere else they are bugs.
"""

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
    """Return a JSON value with `encodable_text` applied to all its strings and keys."""
    if isinstance(value, str):
        return encodable_text(value)
    if isinstance(value, dict):
        found = cast("dict[Any, Any]", value)
        return {
            encodable_text(key) if isinstance(key, str) else key: encodable(item)
            for key, item in found.items()
        }
    if isinstance(value, list | tuple):
        return [encodable(item) for item in cast("Sequence[Any]", value)]
    return value


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
