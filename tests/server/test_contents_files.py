"""Files below the root, through the contents manager."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tk_ai_extension.model.errors import FileMissing, NotReadable, PathRefused
from tk_ai_extension.workspace.files import FileEntry, Files


@pytest.fixture
def files(extension: Any, jp_root_dir: Path) -> Files:
    (jp_root_dir / "data" / "deep").mkdir(parents=True)
    (jp_root_dir / "data" / "a.csv").write_text("x,y\n1,ä\n", encoding="utf-8")
    (jp_root_dir / "data" / ".hidden").write_text("secret")
    (jp_root_dir / "plan.ipynb").write_text("{}")
    (jp_root_dir / "picture.bin").write_bytes(b"\x89PNG\0\xff")
    (jp_root_dir.parent / "outside.txt").write_text("secret")
    (jp_root_dir / "link.txt").symlink_to(jp_root_dir.parent / "outside.txt")
    return extension.workspace.files


async def test_a_folder_lists_what_is_in_it_but_hidden_files(files: Files) -> None:
    entries = await files.list("")
    assert [(entry.path, entry.kind) for entry in entries if "link" not in entry.path] == [
        ("data", "directory"),
        ("picture.bin", "file"),
        ("plan.ipynb", "notebook"),
    ]
    inner = await files.list("data")
    assert [entry.path for entry in inner] == ["data/a.csv", "data/deep"]
    assert isinstance(inner[0], FileEntry)
    assert inner[0].size == 9
    assert inner[0].modified is not None


async def test_a_text_file_is_read_whole(files: Files) -> None:
    assert await files.read_text("data/a.csv") == "x,y\n1,ä\n"


@pytest.mark.proves("threat:path")
@pytest.mark.parametrize(
    "path",
    ["../outside.txt", "link.txt", "data/.hidden", "/etc/passwd", "data/../../outside.txt", "a\0b"],
)
async def test_a_path_outside_or_hidden_is_refused(files: Files, path: str) -> None:
    with pytest.raises(PathRefused):
        await files.read_text(path)


@pytest.mark.parametrize(
    ("path", "error"),
    [("missing.txt", FileMissing), ("data", NotReadable), ("picture.bin", NotReadable)],
)
async def test_a_file_without_text_is_refused(
    files: Files, path: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await files.read_text(path)


async def test_a_folder_that_is_none_is_refused(files: Files) -> None:
    with pytest.raises(FileMissing):
        await files.list("missing")
    with pytest.raises(PathRefused):
        await files.list("..")
