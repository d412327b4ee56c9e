"""Which servers live: known at once, also when one was killed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tk_ai_extension.model.leases import ServerLease

HOLD = """
import sys
from pathlib import Path
from tk_ai_extension.model.leases import ServerLease

lease = ServerLease(Path(sys.argv[1]))
lease.begin()
print(lease.id, flush=True)
sys.stdin.read()
"""


def test_a_server_lives_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    folder = tmp_path / "servers"
    one, other = ServerLease(folder), ServerLease(folder)
    one.begin()
    one.begin()
    assert other.lives(one.id)
    assert one.lives(one.id)
    one.end()
    one.end()
    assert not other.lives(one.id)
    assert list(folder.iterdir()) == []


def test_one_that_was_killed_does_not_live_and_leaves_nothing(tmp_path: Path) -> None:
    watcher = ServerLease(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        server = process.stdout.readline().strip()
        assert watcher.lives(server)
        process.kill()
        process.wait()
        assert not watcher.lives(server)
    assert list(tmp_path.iterdir()) == []


def test_a_beginning_server_removes_the_files_of_those_that_were_killed(tmp_path: Path) -> None:
    killed, lives = tmp_path / ("0" * 24), ServerLease(tmp_path)
    killed.touch()
    (tmp_path / "other").touch()
    lives.begin()
    assert {each.name for each in tmp_path.iterdir()} == {lives.id, "other"}
    another = ServerLease(tmp_path)
    another.begin()
    assert lives.lives(another.id)
    assert another.lives(lives.id)
    lives.end()
    another.end()


def test_servers_that_begin_at_once_keep_their_leases(tmp_path: Path) -> None:
    leases = [ServerLease(tmp_path) for _ in range(16)]
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda each: each.begin(), leases))
    assert all(one.lives(other.id) for one in leases for other in leases)
    for each in leases:
        each.end()
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_no_servers_touches_no_file(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    watcher = ServerLease(tmp_path / "servers")
    for name in ("", "../precious", "nobody", "0" * 24):
        assert not watcher.lives(name)
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EACCES, errno.EIO])
def test_one_that_cannot_be_checked_may_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    (tmp_path / ("0" * 24)).touch()

    def fail(*_arguments: object, **_options: object) -> int:
        raise OSError(code, os.strerror(code))

    function = "os.open" if code == errno.EACCES else "tk_ai_extension.model.file_locks.lock"
    with monkeypatch.context() as patched:
        patched.setattr(function, fail)
        assert ServerLease(tmp_path).lives("0" * 24)
    assert not ServerLease(tmp_path).lives("0" * 24)


def test_a_lease_that_cannot_be_had_leaves_nothing_and_can_be_had_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = ServerLease(tmp_path)
    opened: list[int] = []

    def fail(file: int) -> None:
        opened.append(file)
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patched:
        patched.setattr("tk_ai_extension.model.file_locks.lock", fail)
        with pytest.raises(OSError, match="locks"):
            lease.begin()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(opened[0])
    lease.begin()
    assert ServerLease(tmp_path).lives(lease.id)
    lease.end()
