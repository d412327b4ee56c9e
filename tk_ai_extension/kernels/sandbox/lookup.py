"""Report whether ``nb`` sandboxes a folder's kernels, for code that would trust the folder's content."""

from __future__ import annotations

import json
from pathlib import Path

SETTINGS = Path(".nb", "project.json")


def has_sandbox(folder: Path) -> bool:
    """Return whether sandboxed code can write a folder: its project, or one above, has a sandbox.

    Settings that cannot be read count as asking for a sandbox.
    """
    inside = folder.resolve()
    return any(_asks_for_sandbox(each / SETTINGS) for each in (inside, *inside.parents))


def _asks_for_sandbox(file: Path) -> bool:
    try:
        known = json.loads(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    match known:
        case {"sandbox": False}:
            return False
        case _:
            return True
