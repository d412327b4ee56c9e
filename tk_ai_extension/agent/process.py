"""The start of an agent's process: its folder, and the imports that it requires."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tk_ai_extension.model.agent_errors import AgentUnavailable
from tk_ai_extension.model.private_files import make_private


@contextmanager
def gc_paused() -> Generator[None]:
    """Pause the garbage collector during imports, then freeze the imported objects.

    Importing many classes triggers several full collections of a third of a second
    each, which hold the GIL and so block the event loop. Classes are never freed anyway.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def make_work_folder(state: Path, name: str) -> Path:
    """Create the folder of this name in a folder of mode 0700, and return it.

    Raises:
        AgentUnavailable: It cannot be created, or its mode cannot be set.
    """
    folder = state / name
    try:
        make_private(folder)
        # In a folder that is private already, a read-only disk is no obstacle.
        if os.name != "nt" and state.stat().st_mode & 0o077:
            state.chmod(0o700)
    except OSError as error:
        raise AgentUnavailable(
            f"The folder {folder} cannot be used: {error.strerror or type(error).__name__}.",
            hint="Free space on its disk, or let the user of the server write there.",
        ) from error
    return folder
