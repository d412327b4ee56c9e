"""Which `.nb` folder a command works with, and which it does not trust: anybody may have made it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Nb
from tk_ai_extension.cli.project import SOCKET, Project

SOMEBODY = 12345
"""The id of another user."""

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def made(root: Path, sandbox: bool | None = None) -> Path:
    """The `.nb` of a project, as `nb` has left it."""
    folder = root / ".nb"
    folder.mkdir(mode=0o700, parents=True)
    if sandbox is not None:
        (folder / "project.json").write_text(json.dumps({"sandbox": sandbox, "shared": None}))
    return folder


class TestWhichOne:
    """`Project.find`."""

    def test_the_nearest_one_upwards(self, tmp_path: Path) -> None:
        inner = tmp_path / "a" / "b"
        made(tmp_path)
        made(tmp_path / "a", sandbox=True)
        found = Project.find(str(inner))
        assert (found.root, found.notice) == (str(tmp_path / "a"), "")

    @pytest.mark.proves("nb:sandbox")
    @pytest.mark.parametrize("says", [b'{"sandbox": true, "shared": null}', b"{", b"[]", b"{}"])
    def test_one_with_a_sandbox_governs_what_is_below_it(self, tmp_path: Path, says: bytes) -> None:
        (made(tmp_path) / "project.json").write_bytes(says)
        made(tmp_path / "a", sandbox=True)
        made(tmp_path / "a" / "b", sandbox=False)
        found = Project.find(str(tmp_path / "a" / "b"))
        assert found.root == str(tmp_path)
        assert f"using {tmp_path}" in found.notice
        assert str(tmp_path / "a" / "b") in found.notice

    def test_one_without_leaves_those_below_alone(self, tmp_path: Path) -> None:
        made(tmp_path, sandbox=False)
        made(tmp_path / "a")
        found = Project.find(str(tmp_path / "a"))
        assert (found.root, found.notice) == (str(tmp_path / "a"), "")

    @only_root
    def test_somebody_elses_is_passed_over(self, tmp_path: Path) -> None:
        os.chown(made(tmp_path, sandbox=True), SOMEBODY, SOMEBODY)
        (tmp_path / "a").mkdir()
        found = Project.find(str(tmp_path / "a"))
        assert (found.root, found.notice) == (str(tmp_path / "a"), "")
        here = Project.find(str(tmp_path))
        assert here.root == str(tmp_path)
        assert f"belongs to another user (uid {SOMEBODY})" in here.notice
        assert not here.is_open()


@only_root
def test_a_project_of_another_user_above_is_ignored(nb: Nb) -> None:
    os.chown(made(nb.root.parent, sandbox=True), SOMEBODY, SOMEBODY)
    nb.notebook("a.ipynb", "1")
    assert nb("cells", "a.ipynb").err == ""
    nb("open", "a.ipynb")
    assert nb("status", "--json").json["project"] == str(nb.root)


@pytest.mark.parametrize("target", [".", "elsewhere"])
def test_a_link_is_no_project_and_nothing_is_written_through_it(nb: Nb, target: str) -> None:
    nb.notebook("a.ipynb", "1")
    (nb.root / "elsewhere").mkdir()
    (nb.root / ".nb").symlink_to(target)
    before = sorted(nb.root.rglob("*"))
    read = nb("cells", "a.ipynb")
    assert "1 cells" in read.out
    assert "is a symbolic link" in read.err
    # What shares a kernel starts none, and there is none to share.
    for words, status in ((["open", "a.ipynb"], 2), (["mcp"], 2), (["serve", "a.ipynb"], 3)):
        assert "is a symbolic link" in nb(*words, status=status).err
    assert "0 kernels stopped" in nb("shutdown").out
    assert sorted(nb.root.rglob("*")) == before


@pytest.mark.parametrize("name", ["host.log", "launch.lock", "kernels", "kernels/notebooks.json"])
def test_a_link_in_it_is_not_followed(nb: Nb, tmp_path: Path, name: str) -> None:
    nb.notebook("a.ipynb", "1")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    link = made(nb.root) / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(victim)
    refused = nb("open", "a.ipynb", status=2).err
    assert f"{link} is a symbolic link" in refused
    assert victim.read_text() == "precious"
    assert "1 cells" in nb("cells", "a.ipynb").out


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Somebody who waits for tokens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.mark.proves("threat:secrets")
def test_a_server_that_the_project_names_itself_is_not_spoken_to(
    nb: Nb, listener: socket.socket
) -> None:
    nb.notebook("a.ipynb", "1")
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    planted = {"server": [address, "planted"], "sandbox": False, "shared": None}
    (made(nb.root) / "project.json").write_text(json.dumps(planted))
    nb.environment["JUPYTER_TOKEN"] = "precious"
    assert "1 cells" in nb("cells", "a.ipynb").out
    nb("open", "a.ipynb")
    assert "server" not in nb("status", "--json").json
    listener.settimeout(0)
    with pytest.raises(BlockingIOError):
        listener.accept()


@only_root
def test_a_socket_on_which_somebody_else_listens_is_not_spoken_to(tmp_path: Path) -> None:
    made(tmp_path).chmod(0o777)
    tmp_path.chmod(0o755)
    program = (
        "import os, socket, sys\n"
        f"os.chdir({str(tmp_path / '.nb')!r})\n"
        f"os.setuid({SOMEBODY})\n"
        "listening = socket.socket(socket.AF_UNIX)\n"
        f"listening.bind({SOCKET!r}); os.chmod({SOCKET!r}, 0o777); listening.listen()\n"
        "print('listens', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"listens\n"
        assert Project(str(tmp_path)).connect() is None
        other.communicate()
