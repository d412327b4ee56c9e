"""What `nb` waits for when it starts a server: another `nb`, a server that stops, the new server."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Nb
from tk_ai_extension.cli import launch
from tk_ai_extension.cli.project import HOST_LOCK, LAUNCH_LOCK, SERVER, Project, Refused

pytestmark = pytest.mark.proves("nb:starts")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project without a server."""
    (tmp_path / ".nb").mkdir(mode=0o700)
    return Project(str(tmp_path))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that end at once."""
    monkeypatch.setattr(launch, "NOTICE", 0.01)
    for name in ("STARTING", "STOPPING"):
        monkeypatch.setattr(launch, name, 0.1)


async def test_a_command_names_the_start_that_it_waits_for(nb: Nb) -> None:
    nb.notebook("a.ipynb", "1")
    path = nb.root / ".nb" / LAUNCH_LOCK
    path.parent.mkdir(mode=0o700)
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(str(os.getpid()))
        held.flush()
        opening = await nb.start("open", "a.ipynb")
        assert opening.stderr is not None
        assert await opening.stderr.readline() == (
            b"nb: waiting for another nb (process %d) to start the server.\n" % os.getpid()
        )
    out, err = await opening.communicate()
    assert (opening.returncode, err) == (0, b""), out
    assert path.read_text() == str(opening.pid)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("noted", [b"4711", b"", b"\xff"])
def test_the_wait_for_another_start_ends(
    project: Project, noted: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(project.folder, LAUNCH_LOCK)
    path.write_bytes(noted)
    with path.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Refused) as refused:
            launch.launch(project)
    who = "another nb (process 4711)" if noted == b"4711" else "another nb"
    assert capsys.readouterr().err == f"nb: waiting for {who} to start the server.\n"
    assert str(refused.value).startswith(f"{who} did not start the server within 0.2 s. ")
    assert ("`kill -CONT 4711` resumes it" in str(refused.value)) == (noted == b"4711")
    assert path.read_bytes() == noted


@pytest.mark.usefixtures("short")
def test_the_wait_for_the_previous_server_ends(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(project.folder, SERVER).write_text('{"pid": 4711, "token": "t"}')
    with Path(project.folder, HOST_LOCK).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Refused, match=r"the previous server \(process 4711\) did not stop"):
            launch.launch(project)
    assert "waiting for the previous server (process 4711) to stop." in capsys.readouterr().err


@pytest.mark.usefixtures("short")
def test_a_server_that_does_not_listen_in_time_is_ended(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "hangs.py").write_text("import signal\nsignal.pause()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    monkeypatch.setattr(launch, "MODULE", "hangs")
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen.__init__

    def noted(process: subprocess.Popen[bytes], *args: object, **options: object) -> None:
        started.append(process)
        start(process, *args, **options)  # pyrefly: ignore[bad-argument-type]

    monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    with pytest.raises(Refused, match=r"did not listen within 0\.1 s.*" + re.escape(project.log)):
        launch.launch(project)
    (process,) = started
    assert process.returncode == -9
