"""Check whether another library still has the private members that this package uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def missing_members(kind: type[Any], names: Iterable[str]) -> list[str]:
    """Return the names that a class does not have, as ``Class.name``.

    Instance attributes are searched for in the code of ``__init__``, without creating an instance.
    """
    return [f"{kind.__name__}.{name}" for name in names if not _has(kind, name)]


def _has(kind: type[Any], name: str) -> bool:
    if hasattr(kind, name):
        return True
    codes = (getattr(vars(base).get("__init__"), "__code__", None) for base in kind.__mro__)
    return any(code is not None and name in code.co_names for code in codes)
