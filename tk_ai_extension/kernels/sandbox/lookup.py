"""Read the setting whether a project's kernels run in a sandbox.

Only fast imports: thin commands use this module.
"""

from __future__ import annotations

import json
import os

FOLDER = ".nb"
"""Folder of a project with `nb`'s state."""
SETTINGS = "project.json"
"""File in `FOLDER` with the setting whether kernels run in a sandbox."""


def requires_sandbox(folder: str) -> bool:
    """Return whether the settings in a project's `FOLDER` require a sandbox for kernels.

    Settings that cannot be read count as requiring one; missing ones do not.
    """
    try:
        with open(os.path.join(folder, SETTINGS), "rb") as file:
            known = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError, RecursionError):
        return True
    match known:
        case {"sandbox": False}:
            return False
        case _:
            return True
