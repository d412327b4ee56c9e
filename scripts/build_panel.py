"""Build the panel for a wheel, if its sources are newer than the last build.

The build's hook calls it (pyproject.toml). An sdist carries the panel, with one time on all of its
files: then nothing is built or fetched.
"""

from __future__ import annotations

from typing import Any

from hatch_jupyter_builder.utils import is_stale, npm_builder

SOURCES = ("src", "style", "schema", "package.json", "yarn.lock")
MADE = "tk_ai_extension/labextension"


def build(target_name: str, version: str, **options: Any) -> None:
    """Build it if any of its sources is newer.

    Args:
        target_name: ``wheel`` or ``sdist``.
        version: ``standard`` or ``editable``.
        options: Those of `npm_builder`.
    """
    if any(is_stale(MADE, source) for source in SOURCES):
        npm_builder(target_name, version, **options)
