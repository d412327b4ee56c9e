"""Artifacts: long outputs are stored whole, read page by page by their user only, and bounded."""

from __future__ import annotations

import os
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tk_ai_extension.model.errors import (
    DiskFull,
    LimitReached,
    NotFound,
    NotReadable,
)
from tk_ai_extension.workspace.artifacts import Artifacts

pytestmark = pytest.mark.proves("out:artifact")

BLOCK = 4096


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path / "artifacts")


@contextmanager
def files_up_to(size: int) -> Generator[None]:
    """No file of this process may grow beyond this many bytes: a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def files(folder: Path) -> list[Path]:
    """All files below a folder."""
    return [path for path in folder.rglob("*") if path.is_file()]


def age(folder: Path, artifact_id: str, seconds: float) -> None:
    """Makes an artifact look older."""
    (path,) = folder.glob(f"*/{artifact_id}.*")
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


async def exists(artifacts: Artifacts, user: str, artifact_id: str) -> bool:
    try:
        await artifacts.data(user, artifact_id)
    except NotFound:
        return False
    return True


async def test_pages_follow_each_other_by_their_offsets(artifacts: Artifacts) -> None:
    kept = await artifacts.write("ada", "".join(f"line {n}\n" for n in range(10)))
    first = await artifacts.read("ada", kept.id, limit=4)
    assert first.text == "line 0\nline 1\nline 2\nline 3"
    assert (first.next_offset, first.total_lines) == (4, 10)
    last = await artifacts.read("ada", kept.id, offset=8, limit=4)
    assert (last.text, last.next_offset) == ("line 8\nline 9", None)
    beyond = await artifacts.read("ada", kept.id, offset=10)
    assert (beyond.text, beyond.next_offset) == ("", None)


@pytest.mark.proves("threat:path")
@pytest.mark.parametrize(
    "name",
    ["", "*", "????????????", "../x", "a/b", ".", "\0", "x" * 12, "x" * 5000, "ümlaut123456"],
)
async def test_an_id_is_never_a_path_or_a_pattern(artifacts: Artifacts, name: str) -> None:
    await artifacts.write("ada", "text")
    with pytest.raises(NotFound):
        await artifacts.read("ada", name)


async def test_bytes_keep_their_mime_type_and_are_not_paged(artifacts: Artifacts) -> None:
    kept = await artifacts.write("ada", b"\x89PNG\xff", mime="image/png")
    assert (kept.lines, kept.mime) == (0, "image/png")
    assert await artifacts.data("ada", kept.id) == (b"\x89PNG\xff", "image/png")
    with pytest.raises(NotReadable, match="image/png"):
        await artifacts.read("ada", kept.id)


@pytest.mark.proves("out:sanitize")
async def test_text_that_no_file_can_hold_is_kept_with_replacements(artifacts: Artifacts) -> None:
    kept = await artifacts.write("ada", "half a pair: \ud800.\x00\x1b")
    assert (await artifacts.read("ada", kept.id)).text == "half a pair: ?.\x00\x1b"
    broken = await artifacts.write("ada", b"caf\xe9\n")
    assert (await artifacts.read("ada", broken.id)).text == "caf\ufffd"


@pytest.mark.proves("threat:exhaustion")
async def test_one_text_over_its_bound_is_refused(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path / "artifacts", max_bytes_each=10)
    await artifacts.write("ada", "x" * 10)
    with pytest.raises(LimitReached, match="may have 10 bytes; this one has 11"):
        await artifacts.write("ada", "x" * 11)


@pytest.mark.proves("threat:exhaustion")
async def test_over_the_total_the_oldest_go_and_the_newest_stays(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    artifacts = Artifacts(folder, max_bytes_total=10 * BLOCK)
    ids: list[str] = []
    for number in range(10):
        ids.append((await artifacts.write("ada", str(number))).id)
        for known in ids:
            age(folder, known, 10)
    ids.append((await artifacts.write("ada", "x" * 3 * BLOCK)).id)
    assert [await exists(artifacts, "ada", known) for known in ids] == [False] * 4 + [True] * 7
    held = sum(-(-path.stat().st_size // BLOCK) * BLOCK for path in files(folder))
    assert held <= 10 * BLOCK


async def test_an_expired_artifact_is_deleted_although_there_is_space(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    before = Artifacts(folder, keep_seconds=100)
    old = (await before.write("ada", "old")).id
    recent = (await before.write("ada", "recent")).id
    age(folder, old, 1_000)
    # A restarted server checks what the last one left.
    after = Artifacts(folder, keep_seconds=100)
    await after.write("ada", "new")
    assert not await exists(after, "ada", old)
    assert await exists(after, "ada", recent)


async def test_without_room_a_text_is_refused_and_nothing_is_left(
    artifacts: Artifacts, tmp_path: Path
) -> None:
    with files_up_to(100_000), pytest.raises(DiskFull):
        await artifacts.write("ada", "x" * 1_000_000)
    assert files(tmp_path) == []


@pytest.mark.proves("out:artifact", "threat:exhaustion")
async def test_the_same_content_is_one_file_for_its_user_and_stays_as_long_as_it_is_read(
    tmp_path: Path,
) -> None:
    artifacts = Artifacts(tmp_path / "artifacts")
    first = await artifacts.write("ada", "a\nb")
    (path,) = files(tmp_path)
    os.utime(path, (1, 1))
    assert await artifacts.write("ada", "a\nb") == first
    assert files(tmp_path) == [path]
    assert path.stat().st_mtime > 1
    assert (await artifacts.write("ada", "a\nb", mime="text/html")).id != first.id
    await artifacts.write("bob", "a\nb")
    assert len(files(tmp_path)) == 3
