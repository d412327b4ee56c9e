"""Files below a plain folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tk_ai_extension.model.errors import Conflict, FileMissing, NotReadable, PathRefused
from tk_ai_extension.workspace.files import FolderFiles


@pytest.fixture
def files(tmp_path: Path) -> FolderFiles:
    root = tmp_path / "root"
    (root / "data" / "deep").mkdir(parents=True)
    (root / "data" / "a.csv").write_text("x,y\n1,ä\n", encoding="utf-8")
    (root / "data" / ".hidden").write_text("secret")
    (root / "plan.ipynb").write_text("{}")
    (root / "picture.bin").write_bytes(b"\x89PNG\0\xff")
    (tmp_path / "outside.txt").write_text("secret")
    (root / "link.txt").symlink_to(tmp_path / "outside.txt")
    (root / "nowhere").symlink_to(root / "gone")
    return FolderFiles(root, max_bytes=20)


async def test_a_folder_lists_what_is_in_it_but_hidden_files_and_links_that_lead_away(
    files: FolderFiles,
) -> None:
    assert [(entry.path, entry.kind) for entry in await files.list("")] == [
        ("data", "directory"),
        ("nowhere", "file"),
        ("picture.bin", "file"),
        ("plan.ipynb", "notebook"),
    ]
    inner = await files.list("data")
    assert [entry.path for entry in inner] == ["data/a.csv", "data/deep"]
    assert inner[0].size == 9
    assert inner[0].modified is not None


async def test_a_text_file_is_read_whole(files: FolderFiles) -> None:
    assert await files.read_text("data/a.csv") == "x,y\n1,ä\n"


@pytest.mark.proves("threat:path")
@pytest.mark.parametrize(
    "path",
    ["../outside.txt", "data/../../outside.txt", "link.txt", "data/.hidden", "/etc/passwd", "a\0b"],
)
async def test_a_path_outside_or_hidden_is_refused(files: FolderFiles, path: str) -> None:
    with pytest.raises(PathRefused):
        await files.read_text(path)


async def test_a_file_without_text_is_refused(files: FolderFiles, tmp_path: Path) -> None:
    (tmp_path / "root" / "long.txt").write_text("a" * 21)
    for path, error in {
        "missing.txt": FileMissing,
        "data": NotReadable,
        "picture.bin": NotReadable,
        "long.txt": NotReadable,
    }.items():
        with pytest.raises(error):
            await files.read_text(path)
    with pytest.raises(FileMissing):
        await files.list("plan.ipynb")


async def test_a_file_is_written_and_removed(tmp_path: Path) -> None:
    files = FolderFiles(tmp_path)
    await files.replace("a.txt", None, "one\r\ntwo")
    assert (tmp_path / "a.txt").read_bytes() == b"one\r\ntwo"
    await files.replace("a.txt", "one\r\ntwo", None)
    assert not (tmp_path / "a.txt").exists()
    with pytest.raises(Conflict):
        await files.replace("a.txt", "one\r\ntwo", None)
    with pytest.raises(FileMissing):
        await files.replace("none/a.txt", None, "")


@pytest.mark.proves("threat:path", "perm:agent-actions")
@pytest.mark.parametrize("path", ["../a.txt", ".hidden", "link.txt", "a.ipynb"])
async def test_a_path_outside_or_hidden_and_a_notebook_are_refused(
    tmp_path: Path, path: str
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link.txt").symlink_to("a.ipynb")
    with pytest.raises(PathRefused):
        await FolderFiles(root).replace(path, None, "")
    with pytest.raises(PathRefused):
        await FolderFiles(root).replace(path, "", None)
    assert [each.name for each in root.iterdir()] == ["link.txt"]
