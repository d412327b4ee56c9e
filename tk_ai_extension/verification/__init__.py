"""Verification: run a notebook in a fresh kernel, and compare its outputs with the stored ones."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "kernel": {"metavar": "NAME", "help": "kernelspec, instead of the notebooks'"},
    "timeout": {"type": float, "metavar": "SECONDS", "help": "for each cell (default: none)"},
    "sanitize-with": {
        "action": "append",
        "default": [],
        "metavar": "FILE",
        "help": "replace text before comparing: a file with lines `regex:` and `replace:`, as in nbval",
    },
    "ignore-times": {"action": "store_true", "help": "ignore dates, times of day and durations"},
    "lax": {
        "action": "store_true",
        "help": "compare only cells with the tag nbval-check-output; run all",
    },
}
"""Options of `nb verify`, and with a prefix those of the pytest plug-in: arguments of ``add_argument``."""
