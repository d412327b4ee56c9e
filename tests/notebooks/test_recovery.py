"""What an interrupted save left is recovered only if certainly no save is in progress."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from jupyter_server.services.contents.fileio import atomic_writing

from tk_ai_extension.model.errors import InvalidNotebook
from tk_ai_extension.notebooks.files import recovery
from tk_ai_extension.notebooks.files.recovery import copy_beside, recover
from tk_ai_extension.notebooks.router import NotebookRouter
from tk_ai_extension.workspace.paths import notebook_path

pytestmark = pytest.mark.proves("fault:emptied-notebook")

_control = fcntl.fcntl


def notebook(source: str) -> str:
    return nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]))


def emptied(folder: Path) -> Path:
    """Return a notebook that a killed save emptied a minute ago."""
    file = folder / "a.ipynb"
    copy_beside(file).write_text(notebook("kept"))
    file.write_bytes(b"")
    quiet_for_a_minute(file)
    return file


def quiet_for_a_minute(file: Path) -> None:
    before = file.stat().st_mtime - 60
    os.utime(file, (before, before))


def without_leases(code: int, fd: int, command: int, argument: int) -> Any:
    if command == fcntl.F_SETLEASE:
        raise OSError(code, os.strerror(code))
    return _control(fd, command, argument)


@pytest.mark.parametrize("lacking", ["system", "file system", "owner"])
async def test_without_leases_a_save_that_takes_long_is_not_taken_for_an_interrupted_one(
    lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacking == "system":
        monkeypatch.setattr(recovery, "sys", SimpleNamespace(platform="darwin"))
    else:
        code = errno.EINVAL if lacking == "file system" else errno.EACCES
        monkeypatch.setattr("fcntl.fcntl", partial(without_leases, code))
    file = tmp_path / "a.ipynb"
    old = notebook("old")
    file.write_text(old)
    document = await NotebookRouter(
        tmp_path, partial(notebook_path, tmp_path), warn=pytest.fail
    ).open("a.ipynb")
    with atomic_writing(str(file)) as saving:
        quiet_for_a_minute(file)
        with pytest.raises(InvalidNotebook) as caught:
            await document.read()
        assert copy_beside(file).read_text() == old
        saving.write(notebook("new"))
    assert caught.value.details["copy"] == ".~a.ipynb"
    for part in (".~a.ipynb", "may still be in progress", "rename it to a.ipynb"):
        assert part in caught.value.hint
    assert [cell.source for cell in (await document.read()).cells] == ["new"]
    assert not copy_beside(file).exists()


async def test_a_save_that_starts_during_the_recovery_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = emptied(tmp_path)
    replace_file = recovery.replace_file
    writers: list[Any] = []

    def replace_after_a_save_has_started(*arguments: Any) -> Any:
        writers.append(file.open("w"))
        return replace_file(*arguments)

    monkeypatch.setattr(recovery, "replace_file", replace_after_a_save_has_started)
    assert recover(file) is None
    [saving] = writers
    with saving:
        saving.write("new")
    assert file.read_text() == "new"
    assert copy_beside(file).exists()


async def test_a_program_that_opens_the_file_at_that_moment_does_not_end_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = emptied(tmp_path)
    signals: list[int] = []
    tried: list[int] = []

    def open_meanwhile(fd: int, command: int, argument: int) -> Any:
        if (command, argument) == (fcntl.F_SETLEASE, fcntl.F_UNLCK):
            with pytest.raises(BlockingIOError):
                os.open(file, os.O_WRONLY | os.O_NONBLOCK)
            tried.append(fd)
        return _control(fd, command, argument)

    monkeypatch.setattr("fcntl.fcntl", open_meanwhile)
    before = signal.signal(signal.SIGIO, lambda number, _frame: signals.append(number))
    try:
        assert recover(file) is not None
    finally:
        signal.signal(signal.SIGIO, before)
    assert (len(tried), signals) == (1, [])
    assert signal.getsignal(signal.SIGURG) == signal.SIG_DFL
