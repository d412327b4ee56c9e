"""Private files are replaced as a whole, also by several writers at the same time."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tk_ai_extension.model.private_files import make_private, write_private

AT_ONCE = 8


def test_of_several_writers_at_once_a_reader_gets_one_of_the_texts(tmp_path: Path) -> None:
    path = tmp_path / "file"
    texts = [f"{number}\n" * 5_000 for number in range(AT_ONCE)]
    write_private(path, texts[0])

    def write_and_read(text: str) -> list[tuple[bool, int]]:
        seen: list[tuple[bool, int]] = []
        for turn in range(20):
            write_private(path, text, sync=turn == 0)
            seen.append((path.read_text() in texts, stat.S_IMODE(path.stat().st_mode)))
        return seen

    with ThreadPoolExecutor(AT_ONCE) as threads:
        seen = [each for part in threads.map(write_and_read, texts) for each in part]
    assert set(seen) == {(True, 0o600)}
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("other")
    path = tmp_path / "file"
    path.symlink_to(other)
    write_private(path, "mine")
    assert other.read_text() == "other"
    assert path.read_text() == "mine"
    assert not path.is_symlink()


def test_a_text_that_cannot_be_written_leaves_the_old_one_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_private(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_private(path, "new")
    with pytest.raises(UnicodeEncodeError):
        write_private(path, "\ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_all_folders_that_are_created_are_private(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b")}
    assert modes == {0o700}
