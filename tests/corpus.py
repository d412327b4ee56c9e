"""Real notebooks for tests: those next to the checkout, and always some of the project's.

The corpus is not part of the project. Where it is missing, tests run on notebooks with the same
features that are made here, and say so.
"""

from __future__ import annotations

import warnings
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "corpus"
OWN = Path(__file__).parent / "data"


class CorpusMissing(UserWarning):
    """The corpus is not next to this checkout; fewer notebooks are tested."""


def notebooks(*folders: str) -> list[Path]:
    """The notebooks of these folders of the corpus and of the project, by name."""
    found = sorted(OWN.glob("*.ipynb"))
    for folder in folders:
        there = sorted((FOLDER / folder).glob("*.ipynb"))
        if not there:
            message = f"shared/corpus/{folder} is not next to this checkout"
            warnings.warn(message, CorpusMissing, stacklevel=2)
        found += there
    return found
