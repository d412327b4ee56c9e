"""What a project's host does to share a kernel, and to share it no more: ``nb serve``."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tk_ai_extension.kernels.sharing.kernelspec import (
    InstalledShare,
    install_shared_kernelspec,
    remove_shared_kernelspec,
)
from tk_ai_extension.kernels.sharing.share import EXTERNAL, SHARES, Share

LOG = "relay.log"
"""The name of the relays' log, in ``.nb``."""


def share_kernel(
    folder: Path, connection_file: Path, *, language: str = "python"
) -> InstalledShare:
    """Shares a kernel of a project, instead of the one before if there was one.

    To be called again where another kernel takes its place (not for a restart, which keeps the
    connection file): guests go over to it when the one before ends.

    Args:
        folder: The project's ``.nb``.
        connection_file: The kernel's, as its manager keeps it.
        language: The kernel's language.

    Returns:
        What people choose in their programs.

    Raises:
        NoConnection: it is no connection file, or has no key.
        OSError: ``.nb`` or the user's folder of kernelspecs cannot be written.
    """
    share = Share(folder.absolute())
    share.point_at(connection_file)
    return install_shared_kernelspec(share, language=language)


def unshare_kernel(folder: Path) -> bool:
    """Shares a project's kernel no more, and removes all that sharing it has made, no other's.

    To be called before the kernel is shut down: relays then end at once, with status 0.

    Returns:
        Whether a kernel was shared.

    Raises:
        OSError: something of it cannot be removed.
    """
    share = Share(folder.absolute())
    was_shared = not share.is_withdrawn()
    share.withdraw()
    remove_shared_kernelspec(share)
    for name in (SHARES, EXTERNAL):
        with contextlib.suppress(FileNotFoundError):
            (share.folder / name).rmdir()
    (share.folder / LOG).unlink(missing_ok=True)
    return was_shared
