"""Pytest plug-in: `pytest --nb-verify` collects notebooks and verifies each as one test.

Pytest imports this module at each start. Without the option it imports nothing else of the package.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("nb-verify", "notebooks")
    group.addoption(
        "--nb-verify",
        action="store_true",
        help="run each notebook in a fresh kernel and compare its outputs with the stored ones",
    )
    group.addoption(
        "--nb-verify-sanitize-with",
        action="append",
        default=[],
        metavar="FILE",
        help="replace text before comparing, as nbval does",
    )
    group.addoption(
        "--nb-verify-ignore-times", action="store_true", help="ignore dates, times and durations"
    )
    group.addoption(
        "--nb-verify-lax",
        action="store_true",
        help="compare only cells with the tag nbval-check-output; run all",
    )
    group.addoption(
        "--nb-verify-strict", action="store_true", help="hidden state is a failure, too"
    )
    group.addoption("--nb-verify-kernel", metavar="NAME", help="kernelspec, not the notebook's own")
    group.addoption(
        "--nb-verify-timeout", type=float, metavar="SECONDS", help="for each cell (default: none)"
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a notebook."""
    if file_path.suffix != ".ipynb" or not parent.config.getoption("nb_verify"):
        return None
    if ".ipynb_checkpoints" in file_path.parts:
        return None
    from tk_ai_extension.verification.pytest_items import NotebookFile

    return NotebookFile.from_parent(parent, path=file_path)
