"""Text files that cannot or may not be replaced: they are compared and written in place."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jupyter_server.services.contents.filemanager import FileContentsManager
from jupyter_server_fileid.manager import LocalFileIdManager

from tests.harness import ToolHarness, backend, documents, harness, jp_server_config
from tests.support.document_faults import NOBODY, another_user, no_file_larger_than
from tk_ai_extension.model.errors import Conflict, DiskFull, ReadOnly, SaveFailed
from tk_ai_extension.notebooks.atomic_file import FileVersion
from tk_ai_extension.server.files import ContentsFiles
from tk_ai_extension.workspace.file_writes import replace_on_disk
from tk_ai_extension.workspace.files import Files
from tk_ai_extension.workspace.folder_files import FolderFiles

__all__ = ["backend", "documents", "harness", "jp_server_config"]

pytestmark = pytest.mark.proves("perm:agent-actions")

NAME = "notes.py"
NEW = ("longer than before", "short", "")


def failing(number: int) -> Callable[..., Any]:
    """A function of the system that always fails."""

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


def fail_to_open(
    monkeypatch: pytest.MonkeyPatch, number: int, which: Callable[[int], bool]
) -> None:
    """Have files with some flags not be opened."""
    real = os.open

    def opened(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if which(flags):
            failing(number)()
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", opened)


def names_in(folder: Path) -> set[str]:
    """What a folder has, hidden files too."""
    return {each.name for each in folder.iterdir()}


def writers(harness: ToolHarness) -> list[Files]:
    """Those of a server and of another program."""
    return [harness.workspace.files, FolderFiles(harness.root)]


def put(folder: Path) -> Path:
    """Write a text file."""
    file = folder / NAME
    file.write_text("old text")
    return file


def without_atomic_writing(harness: ToolHarness) -> None:
    """Configure the server so."""
    manager: Any = harness.app.contents_manager
    manager.use_atomic_writing = False


async def written(files: Files, folder: Path) -> None:
    """Write a file several times: it stays the same one, and only an expected content is replaced."""
    file, before = put(folder), "old text"
    inode = file.stat().st_ino
    for after in NEW:
        with pytest.raises(Conflict):
            await files.replace(NAME, f"{before}?", after)
        await files.replace(NAME, before, after)
        assert file.read_text() == after
        before = after
    assert file.stat().st_ino == inode
    assert names_in(folder) == {NAME}


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
async def test_a_file_is_created_where_there_are_no_hard_links(
    harness: ToolHarness, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "link", failing(number))
    for step, files in enumerate(writers(harness)):
        name = f"new{step}.py"
        tried = [files.replace(name, None, text) for text in ("a", "b", "c")]
        results = await asyncio.gather(*tried, return_exceptions=True)
        assert [type(each) for each in results if each] == [Conflict, Conflict]
        (index,) = [number for number, result in enumerate(results) if result is None]
        assert (harness.root / name).read_text() == "abc"[index]
        await files.replace(name, "abc"[index], "changed")
        assert (harness.root / name).read_text() == "changed"
    await harness.call("create_notebook", notebook="n.ipynb")
    assert names_in(harness.root) == {"new0.py", "new1.py", "n.ipynb"}


async def test_a_mount_point_is_written_in_place(
    harness: ToolHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "replace", failing(errno.EBUSY))
    for files in writers(harness):
        await written(files, harness.root)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
async def test_a_writable_file_in_a_read_only_folder_is_written_in_place(
    harness: ToolHarness, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    fail_to_open(monkeypatch, number, lambda flags: bool(flags & os.O_CREAT))
    for files in writers(harness):
        await written(files, harness.root)
        with pytest.raises(ReadOnly):
            await files.replace("new.py", None, "new")


@pytest.mark.proves("fault:disk-full")
@pytest.mark.parametrize("mode", [0o555, 0o111])
async def test_the_file_itself_decides_whether_it_is_written(tmp_path: Path, mode: int) -> None:
    """In a folder that another user owns, and that may not be readable, so that it has no lock."""
    (folder := tmp_path / "folder").mkdir()
    file, files = folder / NAME, FolderFiles(folder)
    file.write_text("old text")
    os.chown(file, NOBODY if os.geteuid() == 0 else -1, -1)
    with another_user(folder, mode):
        tried = [files.replace(NAME, "old text", text) for text in NEW]
        results = await asyncio.gather(*tried, return_exceptions=True)
        assert sum(result is None for result in results) == 1
        file.chmod(0o444)
        with pytest.raises(ReadOnly):
            await files.replace(NAME, file.read_text(), "new")
        with pytest.raises(ReadOnly):
            await files.replace(NAME, file.read_text(), None)
    folder.chmod(0o755)
    assert file.read_text() in NEW


# --- where a server must not replace a file


async def test_without_atomic_writing_a_file_is_written_in_place(harness: ToolHarness) -> None:
    without_atomic_writing(harness)
    await written(harness.workspace.files, harness.root)


async def test_a_file_keeps_its_id_where_ids_are_bound_to_inodes(
    harness: ToolHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = LocalFileIdManager(root_dir=str(harness.root), db_path=str(tmp_path / "ids.db"))
    monkeypatch.setitem(harness.app.web_app.settings, "file_id_manager", ids)
    put(harness.root)
    found = str(ids.index(NAME))
    await written(harness.workspace.files, harness.root)
    on_save: Any = ids.get_handlers_by_action()["save"]
    on_save({"path": NAME})
    assert ids.get_path(found) == NAME


async def test_each_hard_link_gets_the_new_content(harness: ToolHarness, tmp_path: Path) -> None:
    file, other = put(harness.root), tmp_path / "other.py"
    other.hardlink_to(file)
    for files in writers(harness):
        await written(files, harness.root)
        assert file.samefile(other)


async def test_a_file_of_somebody_else_stays_theirs(
    harness: ToolHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    somebody_else = os.geteuid() + 1
    for files in writers(harness):
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: somebody_else)
            await written(files, harness.root)


async def test_a_manager_with_writing_of_its_own_writes_the_file(tmp_path: Path) -> None:
    used: list[str] = []

    class Own(FileContentsManager):
        def atomic_writing(self, os_path: str, *args: Any, **kwargs: Any) -> Any:
            used.append(os_path)
            return super().atomic_writing(os_path, *args, **kwargs)

    files = ContentsFiles(Own(root_dir=str(tmp_path)), lambda path: path, lambda path: path)
    await files.replace(NAME, None, "new")
    with pytest.raises(Conflict):
        await files.replace(NAME, None, "newer")
    assert used == [str(tmp_path / NAME)]


# --- one step


@pytest.mark.parametrize("clock", ["fine", "coarse"])
@pytest.mark.parametrize("seed", range(4))
async def test_no_write_in_place_or_beside_one_is_lost(
    harness: ToolHarness, monkeypatch: pytest.MonkeyPatch, seed: int, clock: str
) -> None:
    """Some of the programs replace the file, others overwrite it, and all in one tick of the clock."""
    if clock == "coarse":
        monkeypatch.setattr(
            FileVersion, "of", lambda status: FileVersion(1, 1, status.st_size, 0, 0)
        )
    random, file = Random(seed), harness.root / NAME
    texts = [each * 3_000 for each in "abcdefg"]
    file.write_text(text := "0" * 3_000)

    def rule(which: bool) -> Callable[[Path], bool]:
        return lambda _: which

    for _ in range(20):
        old, tried = text.encode(), random.sample([each for each in texts if each != text], 5)
        results = await asyncio.gather(
            *(
                asyncio.to_thread(
                    replace_on_disk, file, NAME, old, new.encode(), rule(random.random() < 0.5)
                )
                for new in tried
            ),
            return_exceptions=True,
        )
        assert all(isinstance(each, Conflict) for each in results if each is not None)
        done = [new for new, each in zip(tried, results, strict=True) if each is None]
        assert done == [file.read_text()]
        text = done[0]


@pytest.mark.proves("fault:disk-full")
async def test_a_full_disk_leaves_the_old_content(harness: ToolHarness) -> None:
    without_atomic_writing(harness)
    file = harness.root / NAME
    for old in ("x" * 900, "precious\n" * 1_000):
        file.write_text(old)
        with no_file_larger_than(1_000), pytest.raises(DiskFull):
            await harness.workspace.files.replace(NAME, old, "y" * 20_000)
        assert file.read_text() == old


@pytest.mark.proves("fault:disk-full")
@pytest.mark.parametrize("after", NEW)
async def test_an_old_content_is_restored_or_the_error_says_that_it_is_not(
    harness: ToolHarness, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    """The disk accepts the new content and fails when it stores it."""
    without_atomic_writing(harness)
    file, real, failures = put(harness.root), os.fsync, [errno.ENOSPC]

    def fsync(fd: int) -> None:
        if failures:
            failing(failures.pop())()
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(DiskFull) as restored:
        await harness.workspace.files.replace(NAME, "old text", after)
    assert "Nothing was changed" in restored.value.hint
    assert file.read_text() == "old text"
    failures[:] = [errno.ENOSPC, errno.EIO]
    with pytest.raises(SaveFailed, match="could not be restored") as lost:
        await harness.workspace.files.replace(NAME, "old text", after)
    assert "Nothing was changed" not in lost.value.hint
