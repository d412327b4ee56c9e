"""The kernelspec by which other programs find a shared kernel: "Python (nb shared kernel)"."""

from __future__ import annotations

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

from tk_ai_extension.kernels.sharing.share import Share

log = logging.getLogger(__name__)

DISPLAY_NAME = "Python (nb shared kernel)"
PROVISIONER = "nb-shared"
"""The name of the entry point of `SharedKernelProvisioner`."""

PREFIX = "nb-shared-"
"""How the names of our kernelspecs begin; the rest tells projects apart."""


@dataclass(frozen=True, slots=True)
class InstalledShare:
    """A kernelspec that leads to a shared kernel.

    Attributes:
        name: The kernelspec's name: ``jupyter console --kernel NAME``.
        display_name: What people choose in VS Code and JupyterLab.
        folder: Where it is installed.
        share: What it leads to.
    """

    name: str
    display_name: str
    folder: Path
    share: Share


def install_shared_kernelspec(
    share: Share, *, language: str = "python", prefix: str | None = None
) -> InstalledShare:
    """Installs the kernelspec through which people's programs use a shared kernel.

    It is one per share: doing it again changes nothing but what this version writes. It is called
    `DISPLAY_NAME`; where another project's is called so already, with the folder's name behind.

    Programs of jupyter_client (JupyterLab, nbclient, consoles) attach through the provisioner that
    it names, if they have this package in their environment; VS Code launches its argv, the relay,
    by this interpreter.

    Args:
        share: Of which kernel; it need not be shared yet.
        language: The kernel's language.
        prefix: The environment to install into; the user's own folder where left out.

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
        # -P: a file called like a module of ours, beside the person's notebook, is not imported.
        "argv": [
            *(sys.executable, "-P", "-m", "tk_ai_extension.kernels.sharing"),
            *("--share", str(share.path), "-f", "{connection_file}"),
        ],
        "display_name": display_name,
        "language": language,
        # A signal would reach the relay: who launches argv sends a message.
        "interrupt_mode": "message",
        "metadata": {
            "kernel_provisioner": {
                "provisioner_name": PROVISIONER,
                "config": {"share": str(share.path)},
            }
        },
    }
    with TemporaryDirectory() as folder:
        Path(folder, "kernel.json").write_text(json.dumps(spec, indent=1), encoding="utf-8")
        installed = specs.install_kernel_spec(folder, name, user=prefix is None, prefix=prefix)
    return InstalledShare(name, display_name, Path(installed), share)


def remove_shared_kernelspec(share: Share, *, prefix: str | None = None) -> bool:
    """Removes the kernelspec of a share, no other; returns whether there was one."""
    try:
        _specs(prefix).remove_kernel_spec(_name(share))
    except KeyError:
        return False
    return True


def shared_kernelspecs(*, prefix: str | None = None) -> list[InstalledShare]:
    """The kernelspecs of shared kernels, those of other projects too."""
    return list(_installed(_specs(prefix)))


def _installed(specs: KernelSpecManager) -> Iterator[InstalledShare]:
    found: dict[str, str] = specs.find_kernel_specs()
    for name in found:
        if not name.startswith(PREFIX):
            continue
        try:
            spec = specs.get_kernel_spec(name)
            share: str = spec.metadata["kernel_provisioner"]["config"]["share"]
        except (OSError, ValueError, KeyError, TypeError, TraitError) as problem:
            # Cut off, or somebody else's: it leads to no kernel of ours.
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
