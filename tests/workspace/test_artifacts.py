"""Long outputs are put aside whole, read page by page by their user alone, and bounded."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import resource
import stat
from bisect import bisect_right
from collections.abc import Generator
from contextlib import contextmanager
from io import FileIO
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tk_ai_extension.model.errors import (
    DiskFull,
    InvalidArguments,
    LimitReached,
    NotFound,
    NotReadable,
)
from tk_ai_extension.workspace.artifacts import LINE, Artifacts, page_of
from tk_ai_extension.workspace.patterns import Pattern

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


async def whole(artifacts: Artifacts, artifact_id: str, *, limit: int, max_chars: int) -> str:
    """All pages of an artifact, one after the other."""
    pages: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = await artifacts.read(
            "ada", artifact_id, offset=offset, limit=limit, max_chars=max_chars
        )
        assert page.offset == offset
        assert page.next_offset is None or page.next_offset > offset
        pages.append(page.text)
        offset = page.next_offset
    return "\n".join(pages)


async def test_a_text_is_kept_whole_and_says_its_lines_and_bytes(artifacts: Artifacts) -> None:
    kept = await artifacts.write("ada", "ä\nb\nc")
    assert (kept.size, kept.lines, kept.mime) == (6, 3, "text/plain")
    assert await artifacts.data("ada", kept.id) == ("ä\nb\nc".encode(), "text/plain")
    page = await artifacts.read("ada", kept.id)
    assert (page.text, page.next_offset) == ("ä\nb\nc", None)
    assert page.total_lines == 3


async def test_pages_follow_each_other_by_their_offsets(artifacts: Artifacts) -> None:
    kept = await artifacts.write("ada", "".join(f"line {n}\n" for n in range(10)))
    first = await artifacts.read("ada", kept.id, limit=4)
    assert first.text == "line 0\nline 1\nline 2\nline 3"
    assert (first.next_offset, first.total_lines) == (4, 10)
    last = await artifacts.read("ada", kept.id, offset=8, limit=4)
    assert (last.text, last.next_offset) == ("line 8\nline 9", None)
    beyond = await artifacts.read("ada", kept.id, offset=10)
    assert (beyond.text, beyond.next_offset) == ("", None)


async def test_a_page_is_bounded_in_characters_but_never_empty(artifacts: Artifacts) -> None:
    kept = await artifacts.write("ada", "aaaa\nbbbb\ncccc\n")
    page = await artifacts.read("ada", kept.id, max_chars=9)
    assert (page.text, page.next_offset) == ("aaaa\nbbbb", 2)
    page = await artifacts.read("ada", kept.id, offset=1, max_chars=1)
    assert (page.text, page.next_offset) == ("bbbb", 2)


async def test_a_line_without_end_is_read_in_pieces(artifacts: Artifacts) -> None:
    kept = await artifacts.write("ada", "é" * (2 * LINE + 1) + "\nend\n")
    page = await artifacts.read("ada", kept.id)
    assert [len(line) for line in page.text.split("\n")] == [LINE, LINE, 1, 3]
    assert page.total_lines == 4
    assert kept.lines == 2


async def test_a_line_that_fills_its_pieces_exactly_is_followed_by_no_empty_one(
    artifacts: Artifacts,
) -> None:
    kept = await artifacts.write("ada", "x" * LINE + "\n" + "y" * (2 * LINE) + "\n\nend")
    page = await artifacts.read("ada", kept.id)
    assert [line[:1] for line in page.text.split("\n")] == ["x", "y", "y", "", "e"]


async def test_lines_are_found_by_a_pattern_with_their_numbers(artifacts: Artifacts) -> None:
    text = "".join(f"{'error' if n % 3 == 0 else 'ok'} {n}\n" for n in range(10))
    kept = await artifacts.write("ada", text)
    page = await artifacts.read("ada", kept.id, grep=r"^err")
    assert page.text == "0: error 0\n3: error 3\n6: error 6\n9: error 9"
    assert (page.matches, page.next_offset, page.total_lines) == (4, None, 10)
    page = await artifacts.read("ada", kept.id, grep="error", offset=1, limit=1)
    assert (page.text, page.next_offset, page.matches) == ("3: error 3", 6, 4)
    page = await artifacts.read("ada", kept.id, grep="nothing like it")
    assert (page.text, page.next_offset, page.matches) == ("", None, 0)


@pytest.mark.parametrize("wrong", [{"grep": "("}, {"offset": -1}, {"limit": 0}])
async def test_a_bad_pattern_or_number_is_refused(
    artifacts: Artifacts, wrong: dict[str, int | str]
) -> None:
    kept = await artifacts.write("ada", "text")
    with pytest.raises(InvalidArguments):
        await artifacts.read("ada", kept.id, **wrong)  # pyrefly: ignore[bad-argument-type]


@pytest.mark.proves("threat:other-user")
async def test_only_its_user_can_read_an_artifact(artifacts: Artifacts) -> None:
    kept = await artifacts.write("ada", "secret")
    for user in ("bob", "", "Ada", "ada/", "../ada"):
        with pytest.raises(NotFound) as error:
            await artifacts.read(user, kept.id)
        assert error.value.status == 404
        with pytest.raises(NotFound):
            await artifacts.data(user, kept.id)


@pytest.mark.proves("threat:path")
@pytest.mark.parametrize(
    "name",
    ["", "*", "????????????", "../x", "a/b", ".", "\0", "x" * 12, "x" * 5000, "ümlaut123456"],
)
async def test_an_id_is_never_a_path_or_a_pattern(artifacts: Artifacts, name: str) -> None:
    await artifacts.write("ada", "text")
    with pytest.raises(NotFound):
        await artifacts.read("ada", name)


async def test_files_and_folders_are_for_the_server_alone(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "artifacts"
    artifacts = Artifacts(folder)
    await artifacts.write("../../etc/passwd", "text")
    (file,) = files(tmp_path)
    assert file.parent.parent == folder
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent, folder)]
    assert [oct(mode) for mode in modes] == ["0o600", "0o700", "0o700"]


async def test_bytes_keep_their_mime_type_and_are_not_paged(artifacts: Artifacts) -> None:
    kept = await artifacts.write("ada", b"\x89PNG\xff", mime="image/png")
    assert (kept.lines, kept.mime) == (0, "image/png")
    assert await artifacts.data("ada", kept.id) == (b"\x89PNG\xff", "image/png")
    with pytest.raises(NotReadable, match="image/png"):
        await artifacts.read("ada", kept.id)


@pytest.mark.parametrize("mime", ["text/html", "application/json", "image/svg+xml"])
async def test_text_mime_types_are_paged(artifacts: Artifacts, mime: str) -> None:
    kept = await artifacts.write("ada", "<b>\n", mime=mime)
    assert (await artifacts.read("ada", kept.id)).text == "<b>"
    assert (await artifacts.data("ada", kept.id))[1] == mime


@pytest.mark.parametrize(
    "mime", ["", "text", "../../x", "text/../x", "text/pl\0ain", "a/" + "b" * 99]
)
async def test_an_invalid_mime_type_is_refused(artifacts: Artifacts, mime: str) -> None:
    with pytest.raises(InvalidArguments):
        await artifacts.write("ada", "text", mime=mime)


@pytest.mark.proves("out:sanitize")
async def test_text_that_no_file_can_hold_is_kept_as_far_as_it_can_be(artifacts: Artifacts) -> None:
    kept = await artifacts.write("ada", "half a pair: \ud800.\x00\x1b")
    assert (await artifacts.read("ada", kept.id)).text == "half a pair: ?.\x00\x1b"
    broken = await artifacts.write("ada", b"caf\xe9\n")
    assert (await artifacts.read("ada", broken.id)).text == "caf\ufffd"


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]) | st.just("\n"), max_size=200),
    limit=st.integers(1, 10),
    max_chars=st.integers(1, 50),
)
def test_whatever_is_written_comes_back_in_pages(
    artifacts: Artifacts, text: str, limit: int, max_chars: int
) -> None:
    async def run() -> None:
        kept = await artifacts.write("ada", text)
        assert await artifacts.data("ada", kept.id) == (text.encode(), "text/plain")
        assert kept.lines == len(text.removesuffix("\n").split("\n")) if text else kept.lines == 0
        read = await whole(artifacts, kept.id, limit=limit, max_chars=max_chars)
        assert read == text.removesuffix("\n")

    asyncio.run(run())


async def test_an_output_without_text_is_an_empty_artifact(artifacts: Artifacts) -> None:
    kept = await artifacts.write("ada", "")
    assert (kept.size, kept.lines) == (0, 0)
    page = await artifacts.read("ada", kept.id)
    assert (page.text, page.total_lines, page.next_offset) == ("", 0, None)


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


async def test_many_write_and_read_at_once(artifacts: Artifacts) -> None:
    kept = await asyncio.gather(*(artifacts.write("ada", f"text {n}") for n in range(50)))
    assert len({artifact.id for artifact in kept}) == 50
    assert all(re.fullmatch(r"[\w-]{12}", artifact.id) for artifact in kept)
    pages = await asyncio.gather(*(artifacts.read("ada", artifact.id) for artifact in kept))
    assert [page.text for page in pages] == [f"text {n}" for n in range(50)]


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


async def test_the_same_content_may_be_written_by_several_at_once(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path / "artifacts")
    written = await asyncio.gather(*(artifacts.write("ada", "x\n" * 1_000) for _ in range(8)))
    assert len(set(written)) == 1
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize("limit", [8 * BLOCK, 10_000_000])
async def test_whatever_code_puts_into_the_folder_long_outputs_are_kept(
    tmp_path: Path, limit: int
) -> None:
    """Code in kernels gets the folder's path: what it leaves there is not the store's to remove."""
    artifacts = Artifacts(tmp_path / "artifacts", max_bytes_total=limit, keep_seconds=100)
    folder = artifacts.folder_of("ada")
    outside = tmp_path / "outside.txt"
    outside.write_text("kept")
    (folder / "plots" / "more").mkdir(parents=True)
    (folder / "link").symlink_to(outside)
    os.mkfifo(folder / "fifo")
    (folder.parent / "alone").write_text("x")
    for path in [*folder.rglob("*"), *folder.parent.iterdir()]:
        os.utime(path, (0, 0), follow_symlinks=False)
    old = await artifacts.write("ada", "expired\n" * BLOCK)
    age(tmp_path / "artifacts", old.id, 1_000)
    for number in range(6):
        artifacts._next_prune = 0.0
        kept = await artifacts.write("ada", f"{number}\n" * BLOCK)
        assert (await artifacts.read("ada", kept.id)).text.startswith(f"{number}\n")
    with pytest.raises(NotFound):
        await artifacts.read("ada", old.id)
    assert outside.read_text() == "kept"
    assert (folder / "plots" / "more").is_dir()


async def test_a_folder_that_cannot_be_used_is_a_typed_error_where_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    assert not Artifacts(tmp_path / "file" / "artifacts").folder_of("ada").exists()
    artifacts = Artifacts(tmp_path / "artifacts")
    kept = await artifacts.write("ada", "text")

    def refused(_path: Path) -> FileIO:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tk_ai_extension.workspace.artifacts.open_regular", refused)
    monkeypatch.setattr("tk_ai_extension.workspace.artifacts.open_regular", refused)
    for read in (artifacts.read, artifacts.data):
        with pytest.raises(NotReadable, match="Permission denied"):
            await read("ada", kept.id)


@given(
    st.lists(st.tuples(st.integers(0, 2 * LINE + 3), st.sampled_from(["", "a", "ab", "b"]))),
    st.sampled_from(["ab", "^a", "b$", "x.*ab"]),
)
def test_a_pattern_is_found_in_whole_lines(parts: list[tuple[int, str]], pattern: str) -> None:
    """Also where a long line is shown as several: a match may be across a cut."""
    lines = ["x" * length + end for length, end in parts]
    text = "".join(f"{line}\n" for line in lines)
    page = page_of(text, offset=0, limit=5_000, pattern=Pattern(pattern), max_chars=10**9)
    starts = list(accumulate((max(-(-len(line) // LINE), 1) for line in lines), initial=0))
    shown = [int(line.partition(":")[0]) for line in page.text.splitlines()]
    found = {bisect_right(starts, number) - 1 for number in shown}
    assert found == {place for place, line in enumerate(lines) if re.search(pattern, line)}
    assert page.total_lines == starts[-1]
