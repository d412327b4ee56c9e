"""Paths relative to the root folder, with slashes, as Jupyter has them."""

from __future__ import annotations


def moved(path: str, old: str, new: str) -> str | None:
    """Where ``path`` is once ``old`` (it or a folder above it) became ``new``; None: untouched.

    >>> moved("a/b.ipynb", "a", "c")
    'c/b.ipynb'
    >>> moved("ab.ipynb", "a", "c") is None
    True
    """
    if path == old:
        return new
    return f"{new}/{path.removeprefix(old + '/')}" if path.startswith(f"{old}/") else None
