"""Pytest plug-in: `pytest --nb-verify` collects notebooks and verifies each as one test.

Pytest imports this module at each start. Without the option it imports only the options.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tk_ai_extension.verification.options import OPTIONS

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
    for name, described in OPTIONS.items():
        group.addoption(f"--nb-verify-{name}", **described)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a notebook."""
    if file_path.suffix != ".ipynb" or not parent.config.getoption("nb_verify"):
        return None
    if ".ipynb_checkpoints" in file_path.parts:
        return None
    from tk_ai_extension.verification.pytest_items import NotebookFile

    return NotebookFile.from_parent(parent, path=file_path)
