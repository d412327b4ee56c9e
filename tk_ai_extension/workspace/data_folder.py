"""The folders of the journal and artifacts of each root folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

from jupyter_core.paths import jupyter_data_dir


def default_data_folder() -> Path:
    """Return this package's folder in Jupyter's data folder."""
    return Path(jupyter_data_dir()) / "tk-ai-extension"


def root_data_path(data: Path, root: Path | None) -> Path:
    """Return the folder of a root's journal and artifacts, which may not exist.

    Roots have separate folders, because their notebooks may have the same paths. A server and the
    command line with the same root share one history.
    """
    name = hashlib.blake2b(str(root or "").encode(), digest_size=8).hexdigest()
    return data / name


def root_data_folder(data: Path, root: Path | None) -> Path:
    """Create the folder of `root_data_path` with mode 0700, and return it.

    Raises:
        OSError: It cannot be created, or its mode cannot be set.
    """
    # The start of Jupyter Server needs `default_data_folder` alone.
    from tk_ai_extension.model.private_files import make_private

    folder = root_data_path(data, root)
    make_private(folder)
    folder.chmod(0o700)
    return folder
