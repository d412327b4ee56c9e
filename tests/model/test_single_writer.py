"""A private file has one writer at a time, among threads and among processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tk_ai_extension.model import file_locks
from tk_ai_extension.model.private_files import write_private
from tk_ai_extension.model.single_writer import single_writer

COUNTING = """
import sys
from pathlib import Path
from tk_ai_extension.model.private_files import write_private
from tk_ai_extension.model.single_writer import single_writer

path = Path(sys.argv[1])
for _ in range(int(sys.argv[2])):
    with single_writer(path):
        write_private(path, str(int(path.read_text()) + 1), sync=False)
"""
TIMES = 30


def count(path: Path) -> None:
    with single_writer(path):
        write_private(path, str(int(path.read_text()) + 1), sync=False)


def test_no_change_of_several_processes_and_threads_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "count"
    write_private(path, "0")
    command = [sys.executable, "-c", COUNTING, str(path), str(TIMES)]
    others = [subprocess.Popen(command) for _ in range(2)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: count(path), range(TIMES)))
    assert [other.wait(30) for other in others] == [0, 0]
    assert path.read_text() == str(3 * TIMES)
    assert sorted(each.name for each in tmp_path.iterdir()) == [".count.lock", "count"]
    if os.name != "nt":
        assert (tmp_path / ".count.lock").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("why", ["no folder", "no locks", "a link"])
def test_threads_exclude_one_another_where_no_lock_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    path = tmp_path / ("missing" if why == "no folder" else ".") / "file"

    def fails(_: int) -> None:
        raise OSError(37, "No locks available")

    if why == "no locks":
        monkeypatch.setattr(file_locks, "lock", fails)
    if why == "a link":
        (tmp_path / ".file.lock").symlink_to(tmp_path / "other")
    entered = threading.Event()

    def enter() -> None:
        with single_writer(path):
            entered.set()

    thread = threading.Thread(target=enter)
    with single_writer(path):
        thread.start()
        assert not entered.wait(0.1)
    thread.join(10)
    assert entered.is_set()
    assert not (tmp_path / "other").exists()


def test_it_ends_with_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), single_writer(tmp_path / "file"):
        raise KeyError
    with single_writer(tmp_path / "file"):
        pass
