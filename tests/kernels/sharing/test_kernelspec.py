"""The kernelspec of a shared kernel: what people choose, one for each project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpecManager

from tk_ai_extension.kernels.sharing.kernelspec import (
    DISPLAY_NAME,
    share_kernel,
    unshare_kernel,
)

pytestmark = [pytest.mark.proves("nb:serve")]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))


def _kernel(project: Path) -> Path:
    """The connection file of a kernel, as a project's host keeps it."""
    folder = project / ".nb"
    folder.mkdir(parents=True)
    connection = {f"{name}_port": 1 for name in ("shell", "iopub", "stdin", "hb", "control")}
    connection |= {"transport": "tcp", "ip": "127.0.0.1", "key": "k"}
    connection |= {"signature_scheme": "hmac-sha256"}
    file = folder / "kernel-1.json"
    file.write_text(json.dumps(connection), encoding="utf-8")
    return file


def _installed() -> list[str]:
    return [name for name in KernelSpecManager().find_kernel_specs() if name.startswith("nb-")]


def test_two_projects_have_one_each_and_people_can_distinguish_them(tmp_path: Path) -> None:
    kernels = _kernel(tmp_path / "one"), _kernel(tmp_path / "other")
    shares = (share_kernel(kernels[each].parent, kernels[each]) for each in (0, 1, 0))
    names = [share["display_name"] for share in shares]
    assert names == [f"{DISPLAY_NAME}: {name}" for name in ("one", "other", "one")]
    assert len(_installed()) == 2


@pytest.mark.proves("nb:cleanup")
def test_unsharing_removes_its_own_files_and_no_more(tmp_path: Path) -> None:
    kernel, other = _kernel(tmp_path / "one"), _kernel(tmp_path / "other")
    installed = share_kernel(kernel.parent, kernel)
    share_kernel(other.parent, other)
    assert installed["kernelspec"] in _installed()
    unshare_kernel(kernel.parent)
    assert list(kernel.parent.iterdir()) == [kernel]
    assert installed["kernelspec"] not in _installed()
    assert len(_installed()) == 1
    unshare_kernel(kernel.parent)
