"""A sandbox to test with: the machine's own bubblewrap, or Debian's package, unpacked and not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "bubblewrap"


def provide() -> None:
    """Puts bubblewrap on the path of this process and its children, where the machine has none.

    It is unpacked once into the environment that the tests run in. Without Debian's tools, or without access
    to its packages, nothing happens: tests that need a sandbox are skipped, which each run reports.
    """
    if shutil.which("bwrap") or not shutil.which("apt-get"):
        return
    folder = Path(sys.prefix) / PACKAGE
    if not folder.exists():
        with tempfile.TemporaryDirectory(prefix=f"{PACKAGE}-", dir=sys.prefix) as making:
            if not _fetch(Path(making)):
                return
            # Where another process was faster, there is one.
            if not folder.exists():
                (Path(making) / "root").rename(folder)
    os.environ["PATH"] = f"{os.environ['PATH']}{os.pathsep}{folder / 'usr' / 'bin'}"


def _fetch(folder: Path) -> bool:
    """Whether the package could be had, by the lists of the machine or by new ones."""
    lists = folder / "lists"
    (lists / "partial").mkdir(parents=True)
    own = ("-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={folder}")
    return any(
        all(_done(command, folder) for command in commands)
        for commands in (
            [("apt-get", "download", PACKAGE)],
            [("apt-get", *own, "update"), ("apt-get", *own, "download", PACKAGE)],
        )
    ) and _done(("dpkg-deb", "-x", *map(str, folder.glob("*.deb")), str(folder / "root")), folder)


def _done(command: tuple[str, ...], folder: Path) -> bool:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
