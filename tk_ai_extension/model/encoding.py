r"""The one rule for text that is no Unicode: it is replaced where it comes in.

JSON can hold half a surrogate pair (``"\ud83d"``), and no encoder of text can write one. Files,
kernels and clients send it all the same. What is read is made Unicode at the boundary, the half pair
a replacement character; inside, every text can be encoded. Bytes that nobody edits stay in the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, cast

MALFORMED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What reading JSON of others raises where it is not of the form that the code expects.

Catch these around the reading alone, and raise a typed error: anywhere else they are defects of ours.
"""

_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE_BYTES = re.compile(rb"\\u[dD][89a-fA-F]")


def encodable_text(text: str) -> str:
    """The text with half surrogate pairs replaced; two halves beside each other become their sign."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def encodable(value: Any) -> Any:
    """A JSON value with each text in it as `encodable_text` has it, keys too."""
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
    """Whether JSON text names a surrogate, alone or as one of a pair."""
    found = _ESCAPE.search(text) if isinstance(text, str) else _ESCAPE_BYTES.search(text)
    return found is not None


def loads(text: str | bytes) -> Any:
    """The value of JSON text, every text in it encodable.

    Raises:
        ValueError: it is no JSON.
    """
    value = json.loads(encodable_text(text) if isinstance(text, str) else text)
    return encodable(value) if may_escape(text) else value


def dumps(value: Any) -> str:
    """JSON that can be encoded, whatever texts the value holds; dataclasses are objects."""
    return encodable_text(json.dumps(value, ensure_ascii=False, default=asdict))
