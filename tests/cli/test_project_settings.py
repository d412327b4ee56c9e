"""What was decided about a project: kept whole or not at all, and where nobody else writes."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import Nb
from tk_ai_extension.cli.project import Refused
from tk_ai_extension.cli.settings import Settings, SettingsFile
from tk_ai_extension.model.errors import SaveFailed

SERVER = ("http://localhost:8888/", "5ec4e7")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project's `.nb`."""
    folder = tmp_path / ".nb"
    folder.mkdir()
    return folder


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """The folder of its history."""
    folder = tmp_path / "private"
    folder.mkdir()
    return folder


@pytest.mark.proves("threat:secrets")
def test_a_token_is_kept_outside_of_the_project_for_its_user_alone(
    folder: Path, private: Path
) -> None:
    settings = SettingsFile(folder, private)
    settings.change(server=SERVER, shared="a.ipynb")
    assert SettingsFile(folder, private).now == Settings(SERVER, shared="a.ipynb")
    assert "5ec4e7" not in (folder / "project.json").read_text()
    assert "5ec4e7" not in repr(settings.now)
    assert {file.stat().st_mode & 0o777 for file in private.iterdir()} == {0o600}
    settings.forget()
    assert settings.now == SettingsFile(folder, private).now == Settings()
    assert [*folder.iterdir(), *private.iterdir()] == []


def test_a_project_without_its_file_works_in_no_server(folder: Path, private: Path) -> None:
    SettingsFile(folder, private).change(server=SERVER)
    (folder / "project.json").unlink()
    assert SettingsFile(folder, private).now == Settings()


def test_the_sandbox_is_not_forgotten(folder: Path, private: Path) -> None:
    settings = SettingsFile(folder, private)
    settings.change(sandbox=True, server=SERVER)
    settings.forget()
    assert settings.now == SettingsFile(folder, private).now == Settings(sandbox=True)


def test_a_setting_that_cannot_be_saved_is_not_applied(folder: Path, private: Path) -> None:
    settings = SettingsFile(folder, private)
    folder.rename(folder.with_name("away"))
    for change in ({"sandbox": True}, {"shared": "a.ipynb"}, {"server": SERVER}):
        with pytest.raises(SaveFailed, match=r"project\.json cannot be saved"):
            settings.change(**change)
    assert settings.now == Settings()
    assert list(private.iterdir()) == []


@pytest.mark.parametrize("says", ["{", "[]", '{"sandbox": 1, "shared": null}', '{"sandbox": true}'])
def test_a_file_that_says_something_else_is_refused(folder: Path, private: Path, says: str) -> None:
    (folder / "project.json").write_text(says)
    with pytest.raises(Refused, match="fix or remove it"):
        SettingsFile(folder, private)


def test_so_is_one_that_names_no_server(folder: Path, private: Path) -> None:
    SettingsFile(folder, private).change(server=SERVER)
    (private / "server.json").write_text('["one"]')
    with pytest.raises(Refused, match="fix or remove it"):
        SettingsFile(folder, private)


@pytest.fixture
def disk(nb: Nb) -> Iterator[Path]:
    """The project's `.nb` on a disk of its own, of one megabyte."""
    folder = nb.root / ".nb"
    folder.mkdir()
    _mounted("-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(folder))
    yield folder
    nb.end()
    _unmount(folder)


def _unmount(folder: Path) -> None:
    # A process that is ending has no command line any more, and may still have files open.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mounted(*arguments: str) -> None:
    run = subprocess.run(["mount", *arguments], capture_output=True, check=False)
    if run.returncode:
        pytest.skip("a disk can be mounted by root alone")


def fill(disk: Path) -> None:
    """Leaves no room."""
    (disk / "full").write_bytes(bytes(shutil.disk_usage(disk).free))
    assert shutil.disk_usage(disk).free == 0


@pytest.mark.proves("fault:disk-full")
def test_a_disk_that_is_full_is_reported_and_nothing_is_shared(nb: Nb, disk: Path) -> None:
    nb("open", "a.ipynb")
    fill(disk)
    refused = nb("serve", "--json", status=2)
    assert refused.json["error"]["code"] == "disk_full"
    assert list(Path(nb.environment["JUPYTER_DATA_DIR"], "kernels").glob("*")) == []
    assert "Nothing was shared" in nb("serve", "--off").out
    nb.notebook("b.ipynb")
    failed = nb("open", "b.ipynb", "--json", status=3).json["error"]
    assert failed["code"] == "kernel_start_failed"
    assert "No space left on device" in failed["message"]
    assert "2" in nb("run", "1 + 1", "-n", "a.ipynb").out
    (disk / "full").unlink()
    nb("serve")
    fill(disk)
    # Whatever cannot be written: kernels and host end.
    nb("shutdown", status=None)
    assert nb.processes() == []


@contextmanager
def read_only(folder: Path) -> Generator[None]:
    """A folder that cannot be written, not even by root."""
    _mounted("--bind", str(folder), str(folder))
    try:
        _mounted("-o", "remount,bind,ro", str(folder))
        yield
    finally:
        _unmount(folder)


@pytest.mark.proves("fault:disk-full")
def test_a_folder_that_became_read_only_is_reported(nb: Nb) -> None:
    nb("open", "a.ipynb")
    with read_only(nb.root / ".nb"):
        assert nb("serve", "--json", status=2).json["error"]["code"] == "read_only"
        assert "2" in nb("run", "1 + 1").out
        assert "Nothing was shared" in nb("serve", "--off").out


def test_a_read_only_folder_without_a_host_is_reported(nb: Nb) -> None:
    nb.notebook("a.ipynb", "1")
    nb("open", "a.ipynb")
    nb("serve")
    for mode in (0o700, 0o755):
        host = psutil.Process(nb.host)
        host.kill()
        host.wait(30)
        (nb.root / ".nb").chmod(mode)
        with read_only(nb.root / ".nb"):
            for words in (["open", "a.ipynb"], ["run", "1"], ["shutdown"]):
                refused = nb(*words, status=2).err
                assert "Read-only file system" in refused
                assert "Traceback" not in refused
        assert "2" in nb("run", "1 + 1").out


def test_kernelspecs_that_cannot_be_installed_are_reported(nb: Nb) -> None:
    nb("open", "a.ipynb")
    Path(nb.environment["JUPYTER_DATA_DIR"], "kernels").write_text("a file in the way")
    refused = nb("serve", "--json", status=2).json["error"]
    assert refused["code"] in ("save_failed", "read_only")
    assert "kernelspec of the shared kernel" in refused["message"]
    assert "Nothing was shared" in nb("serve", "--off").out


def test_a_read_only_project_is_read_and_not_opened(nb: Nb) -> None:
    nb.notebook("a.ipynb", "1")
    with read_only(nb.root):
        assert "1 cells" in nb("cells", "a.ipynb").out
        assert "cannot be written" in nb("open", "a.ipynb", status=2).err
        assert "read_only" in nb("insert", "0", "2", "-n", "a.ipynb", status=2).err


def test_a_share_that_another_program_has_broken_is_passed_over(nb: Nb) -> None:
    nb("open", "a.ipynb")
    spec = Path(nb.environment["JUPYTER_DATA_DIR"], "kernels", "nb-shared-0123456789ab")
    spec.mkdir(parents=True)
    for says in ("{", json.dumps({"argv": ["x"], "display_name": "x", "language": "x"})):
        (spec / "kernel.json").write_text(says)
        nb("serve")
        nb("serve", "--off")
