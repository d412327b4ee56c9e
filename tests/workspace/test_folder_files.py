"""Files below a plain folder."""

from __future__ import annotations

import builtins
from pathlib import Path
from random import Random

import pytest

from tk_ai_extension.model.errors import Conflict, FileMissing, NotReadable, PathRefused
from tk_ai_extension.workspace import files as workspace_files
from tk_ai_extension.workspace.files import FileEntry, FolderFiles, Walk


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
    "path", ["../outside.txt", "link.txt", "data/.hidden", "/etc/passwd", "a\0b"]
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


@pytest.mark.parametrize("seed", range(5))
async def test_a_walk_lists_everything_or_says_what_it_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    choice = Random(seed)
    monkeypatch.setattr(workspace_files, "MAX_DEPTH", choice.choice([2, 9]))
    monkeypatch.setattr(workspace_files, "MAX_ENTRIES", choice.choice([15, 99]))
    folders, there = [tmp_path], set[str]()
    for number in range(20):
        place = choice.choice(folders) / f"{number}"
        there.add(f"{place.relative_to(tmp_path)}")
        if choice.random() < 0.5:
            folders.append(place)
            place.mkdir()
        else:
            place.touch()
    unreadable = {f"{choice.randrange(20)}" for _ in range(choice.randrange(3))}

    class Guarded(FolderFiles):
        async def list(self, path: str) -> builtins.list[FileEntry]:
            if path.rpartition("/")[2] in unreadable:
                raise PathRefused("Permission denied.")
            return await super().list(path)

    walk = Walk(Guarded(tmp_path), "", recursive=True)
    found = {entry.path async for entry in walk}
    assert found <= there
    assert (found == there) or walk.left_out
    missing = {each for each in there - found if len(found) < workspace_files.MAX_ENTRIES}
    for path in missing:
        assert any(f"`{parent}`" in walk.left_out[-1] for parent in Path(path).parents)
