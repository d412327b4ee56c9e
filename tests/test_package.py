"""The published files: an sdist with the panel, and the wheel built from it."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import tk_ai_extension
from tests.proofs import ROOT

NAME = f"tk_ai_extension-{tk_ai_extension.__version__}"


def _run(*command: str | Path, cwd: Path) -> None:
    """Runs it without node, and with no registry for npm's packages."""
    tools = Path(sys.executable).parent
    path = [each for each in os.environ["PATH"].split(os.pathsep) if Path(each) != tools]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join(path),
        "YARN_NPM_REGISTRY_SERVER": "http://127.0.0.1:9",
    }
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, alone in a folder."""
    folder = tmp_path_factory.mktemp("sdist")
    _run("hatchling", "build", "--target", "sdist", "--directory", folder, cwd=ROOT)
    return folder / f"{NAME}.tar.gz"


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    """The wheel that pip builds from the sdist."""
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    _run("pip", "wheel", *options, "--wheel-dir", sdist.parent, sdist, cwd=sdist.parent)
    return sdist.parent / f"{NAME}-py3-none-any.whl"


def test_the_wheel_of_an_sdist_has_the_panel_and_needs_no_npm(sdist: Path, wheel: Path) -> None:
    with tarfile.open(sdist) as archive:
        inside = {name.removeprefix(f"{NAME}/") for name in archive.getnames()}
    assert {"tk_ai_extension/labextension/package.json", "src/index.ts", "LICENSE"} <= inside
    assert not [name for name in inside if name.startswith((".ci", ".venv", "node_modules"))]

    with zipfile.ZipFile(wheel) as archive:
        files = set(archive.namelist())
    data = f"{NAME}.data/data"
    panel = f"{data}/share/jupyter/labextensions/tk-ai-extension"
    assert {
        f"{panel}/package.json",
        f"{panel}/install.json",
        f"{panel}/schemas/tk-ai-extension/panel.json",
        f"{data}/etc/jupyter/jupyter_server_config.d/tk_ai_extension.json",
        "tk_ai_extension/py.typed",
    } <= files
    assert [name for name in files if name.startswith(f"{panel}/static/remoteEntry")] != []
    # The panel is in it once.
    assert not [name for name in files if name.startswith("tk_ai_extension/labextension")]


@pytest.mark.timeout(300)
def test_the_wheel_works_in_an_empty_environment(tmp_path: Path, wheel: Path) -> None:
    programs = tmp_path / "environment" / "bin"
    uv = Path(sys.executable).parent / "uv"
    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    index = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    _done(uv, "venv", "--quiet", "--python", sys.executable, programs.parent)
    _done(
        *(uv, "pip", "install", "--quiet", "--python", programs / "python"),
        *(f"--default-index={each}" for each in index),
        *(wheel, "ipykernel"),
    )
    listed = _done(programs / "jupyter", "server", "extension", "list")
    assert "tk_ai_extension" in listed
    assert "OK" in listed
    pages = programs.parent / "share" / "jupyter" / "labextensions"
    assert (pages / "tk-ai-extension" / "package.json").is_file()
    # jupyter_server_nbmodel's page replaces how JupyterLab runs a person's cells.
    assert not (pages / "@datalayer").exists()
    project = tmp_path / "project"
    project.mkdir()
    try:
        _done(programs / "nb", "open", "new.ipynb", cwd=project)
        assert "42" in _done(programs / "nb", "run", "6 * 7", cwd=project)
    finally:
        _done(programs / "nb", "shutdown", cwd=project)


def _done(*command: str | Path, cwd: Path | None = None) -> str:
    """Return what a command prints, with the user's own configuration out of its way."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
