"""Where a root folder's journal and artifacts are kept."""

from __future__ import annotations

import hashlib
from pathlib import Path

from jupyter_core.paths import jupyter_data_dir


def default_data_folder() -> Path:
    """The folder below Jupyter's data folder that is this package's."""
    return Path(jupyter_data_dir()) / "tk-ai-extension"


def state_folder(data: Path, root: Path | None) -> Path:
    """The folder of this root's journal and artifacts, of mode 0700; made if it is not there.

    Servers of different roots keep apart what their notebooks are called alike; a server and a
    command line in the same folder have one history.
    """
    name = hashlib.blake2b(str(root or "").encode(), digest_size=8).hexdigest()
    folder = data / name
    for part in (data, folder):
        part.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder
