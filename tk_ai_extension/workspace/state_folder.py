"""Where a root folder's journal and artifacts are kept."""

from __future__ import annotations

import hashlib
from pathlib import Path

from jupyter_core.paths import jupyter_data_dir


def default_data_folder() -> Path:
    """The folder below Jupyter's data folder that is this package's."""
    return Path(jupyter_data_dir()) / "tk-ai-extension"


def state_path(data: Path, root: Path | None) -> Path:
    """Return the folder of this root's journal and artifacts, whether it exists or not.

    Servers of different roots keep apart what their notebooks are called alike; a server and a
    command line in the same folder have one history.
    """
    name = hashlib.blake2b(str(root or "").encode(), digest_size=8).hexdigest()
    return data / name


def state_folder(data: Path, root: Path | None) -> Path:
    """Create the folder of `state_path` with mode 0700, and return it.

    Raises:
        OSError: it cannot be created, or its mode cannot be set.
    """
    folder = state_path(data, root)
    make_private(folder)
    folder.chmod(0o700)
    return folder


def make_private(folder: Path) -> None:
    """Create a folder, and those above it that are missing, with mode 0700.

    `Path.mkdir(parents=True)` would give the parents the mode of the umask.

    Raises:
        OSError: it cannot be created.
    """
    for part in (*reversed(folder.parents), folder):
        if not part.is_dir():
            part.mkdir(mode=0o700, exist_ok=True)
