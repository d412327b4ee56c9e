"""Shares a project's kernel through a kernelspec, "Python (nb shared kernel)"."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from jupyter_client.kernelspec import KernelSpecManager
from traitlets import TraitError

from tk_ai_extension.kernels.sharing.share import EXTERNAL, SHARES, Share

log = logging.getLogger(__name__)

DISPLAY_NAME = "Python (nb shared kernel)"
METADATA = "tk_ai_extension"
"""The key in a kernelspec's metadata that names its share."""

PREFIX = "nb-shared-"
"""Prefix of the kernelspecs' names; a hash of the share's path follows."""


@dataclass(frozen=True, slots=True)
class InstalledShare:
    """An installed kernelspec for a shared kernel.

    Attributes:
        name: The kernelspec's name: ``jupyter console --kernel NAME``.
        display_name: What people select in VS Code and JupyterLab.
        folder: Where it is installed.
        share: The shared kernel.
    """

    name: str
    display_name: str
    folder: Path
    share: Share


def install_shared_kernelspec(
    share: Share, *, language: str = "python", prefix: str | None = None
) -> InstalledShare:
    """Install the kernelspec through which other programs use a shared kernel.

    There is one for each share; installing is idempotent. It is named `DISPLAY_NAME`, followed by the
    folder's name if another project already uses that name.

    Programs launch its argv, the relay, with this interpreter, so they do not need this package in
    their own environments. A kernelspec of an older version, which named a provisioner, is replaced.

    Args:
        share: The share; a kernel need not be shared yet.
        language: The kernel's language.
        prefix: The environment to install into; the user's data folder by default.

    Returns:
        The installed kernelspec.

    Raises:
        OSError: the folder cannot be written.
    """
    specs = _specs(prefix)
    name = _name(share)
    taken = {
        other.display_name
        for other in shared_kernelspecs(prefix=prefix)
        if other.name != name and not other.share.is_withdrawn()
    }
    display_name = DISPLAY_NAME
    if display_name in taken:
        display_name = f"{DISPLAY_NAME}: {share.folder.parent.name}"
    spec = {
        # -P: a file in the notebook's folder must not shadow a module.
        "argv": [
            *(sys.executable, "-P", "-m", "tk_ai_extension.kernels.sharing"),
            *("--share", str(share.path), "-f", "{connection_file}"),
        ],
        "display_name": display_name,
        "language": language,
        # A signal would reach only the relay.
        "interrupt_mode": "message",
        "metadata": {METADATA: {"share": str(share.path)}},
    }
    with TemporaryDirectory() as folder:
        Path(folder, "kernel.json").write_text(json.dumps(spec, indent=1), encoding="utf-8")
        installed = specs.install_kernel_spec(folder, name, user=prefix is None, prefix=prefix)
    return InstalledShare(name, display_name, Path(installed), share)


def remove_shared_kernelspec(share: Share, *, prefix: str | None = None) -> bool:
    """Remove the kernelspec of a share; return whether there was one."""
    try:
        _specs(prefix).remove_kernel_spec(_name(share))
    except KeyError:
        return False
    return True


def shared_kernelspecs(*, prefix: str | None = None) -> list[InstalledShare]:
    """Return the kernelspecs of shared kernels, including those of other projects."""
    return list(_installed(_specs(prefix)))


def _installed(specs: KernelSpecManager) -> Iterator[InstalledShare]:
    found: dict[str, str] = specs.find_kernel_specs()
    for name in found:
        if not name.startswith(PREFIX):
            continue
        try:
            spec = specs.get_kernel_spec(name)
            share: str = spec.metadata[METADATA]["share"]
        except (OSError, ValueError, KeyError, TypeError, TraitError) as problem:
            # Truncated, or another program's.
            log.warning("The kernelspec %s cannot be read: %r", name, problem)
            continue
        yield InstalledShare(
            name, spec.display_name, Path(spec.resource_dir), Share.at(Path(share))
        )


def _name(share: Share) -> str:
    return PREFIX + hashlib.sha256(str(share.path).encode()).hexdigest()[:12]


def _specs(prefix: str | None) -> KernelSpecManager:
    specs = KernelSpecManager()
    if prefix is not None:
        specs.kernel_dirs = [str(Path(prefix, "share", "jupyter", "kernels"))]
    return specs


LOG = "relay.log"
"""The name of the relays' log, in ``.nb``."""


def share_kernel(
    folder: Path, connection_file: Path, *, language: str = "python"
) -> InstalledShare:
    """Share a project's kernel, replacing the previously shared one.

    Call it again when another kernel replaces this one (not for a restart, which keeps the connection
    file): clients switch to the new kernel when the old one ends.

    Args:
        folder: The project's ``.nb``.
        connection_file: The kernel's connection file.
        language: The kernel's language.

    Returns:
        The kernelspec that people select in their programs.

    Raises:
        NoConnection: the file is not a connection file, or has no key.
        OSError: ``.nb`` or the user's folder of kernelspecs cannot be written.
    """
    share = Share(folder.absolute())
    share.publish(connection_file)
    return install_shared_kernelspec(share, language=language)


def unshare_kernel(folder: Path) -> bool:
    """Stop sharing a project's kernel and remove the project's share files.

    Call it before the kernel is shut down: relays then end at once, with status 0.

    Returns:
        Whether a kernel was shared.

    Raises:
        OSError: a file cannot be removed.
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
