"""A shared kernel: a stable path for its connection file, and the kernelspec that people choose."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from jupyter_client.kernelspec import KernelSpecManager

LINK = "shared-kernel.json"
"""The symbolic link, in ``.nb``, to the connection file of the shared kernel.

It stays the same when the kernel is replaced. No link means that the kernel is no longer shared; a dead
link means that it is gone and may be restarted.
"""

LOG = "relay.log"
"""The name of the relays' log, in ``.nb``."""

DISPLAY_NAME = "Python (nb shared kernel)"
"""What people select, followed by the name of the project's folder."""


def share_kernel(
    folder: Path, connection_file: Path, *, language: str = "python"
) -> dict[str, str]:
    """Share a project's kernel, replacing the previously shared one.

    Programs launch the kernelspec's argv, the relay, with this interpreter, so they do not need this
    package in their environments.

    Args:
        folder: The project's ``.nb``.
        connection_file: The kernel's connection file.
        language: The kernel's language.

    Returns:
        The name of the installed ``kernelspec``, and the ``display_name`` that people select.

    Raises:
        OSError: ``.nb`` or the user's folder of kernelspecs cannot be written.
    """
    link = folder.absolute() / LINK
    # Atomic: readers find the old kernel or the new one.
    aside = link.with_name(f".{uuid4().hex}")
    aside.symlink_to(connection_file.absolute())
    aside.replace(link)
    name, display_name = _name(folder), f"{DISPLAY_NAME}: {link.parent.parent.name}"
    made = {
        # -P: a file in the notebook's folder must not shadow a module.
        "argv": [
            *(sys.executable, "-P", "-m", "tk_ai_extension.kernels.sharing.relay"),
            *(str(link), "{connection_file}"),
        ],
        "display_name": display_name,
        "language": language,
        # A signal would reach only the relay.
        "interrupt_mode": "message",
    }
    with TemporaryDirectory() as made_in:
        Path(made_in, "kernel.json").write_text(json.dumps(made, indent=1), encoding="utf-8")
        KernelSpecManager().install_kernel_spec(made_in, name, user=True)
    return {"kernelspec": name, "display_name": display_name}


def unshare_kernel(folder: Path) -> None:
    """Stop sharing a project's kernel and remove the files of the share.

    New clients are refused; connected ones stay until the kernel ends. Call it before the kernel is shut
    down: relays then end at once, with status 0.

    Raises:
        OSError: a file cannot be removed.
    """
    link = folder.absolute() / LINK
    link.unlink(missing_ok=True)
    with contextlib.suppress(KeyError):
        KernelSpecManager().remove_kernel_spec(_name(folder))
    link.with_name(LOG).unlink(missing_ok=True)


def _name(folder: Path) -> str:
    return "nb-shared-" + hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:12]
