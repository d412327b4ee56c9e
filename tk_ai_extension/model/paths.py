"""API paths as Jupyter defines them: relative to the root folder, with forward slashes."""

from __future__ import annotations


def moved(path: str, old: str, new: str) -> str | None:
    """Return the new path after ``old`` (the path or a parent) was renamed to ``new``; None if unaffected.

    >>> moved("a/b.ipynb", "a", "c")
    'c/b.ipynb'
    >>> moved("ab.ipynb", "a", "c") is None
    True
    """
    if path == old:
        return new
    return f"{new}/{path.removeprefix(old + '/')}" if path.startswith(f"{old}/") else None
