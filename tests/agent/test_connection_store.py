"""The stored connection: who can read it, what survives a failure, and what a hostile folder gets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tk_ai_extension.agent.claude.providers import ADDRESS, ANTHROPIC, KEYS, StoredConnection
from tk_ai_extension.agent.claude.user_connection import FILE, ConnectionStore
from tk_ai_extension.model.errors import ReadOnly
from tk_ai_extension.model.private_files import PrivateFileError

KEY = "sk-ant-canary-0123456789"
MINE = StoredConnection({ADDRESS: ANTHROPIC, KEYS[0]: KEY}, models=("claude-a", "claude-b"))
OTHER = StoredConnection({ADDRESS: ANTHROPIC, KEYS[0]: "another-key-987654321"})


@pytest.fixture
def store(tmp_path: Path) -> ConnectionStore:
    return ConnectionStore(tmp_path / "tk-ai-extension" / FILE)


def left(store: ConnectionStore) -> list[str]:
    return [path.name for path in store.file.parent.iterdir()]


@pytest.mark.proves("connect:store")
def test_a_connection_is_kept_for_its_user_alone(store: ConnectionStore) -> None:
    old = os.umask(0)
    try:
        store.save(MINE)
    finally:
        os.umask(old)
    assert store.file.stat().st_mode & 0o777 == 0o600
    assert store.file.parent.stat().st_mode & 0o777 == 0o700
    assert store.read() == MINE
    assert KEY not in repr(MINE)
    assert left(store) == [FILE]
    store.save(None)
    store.save(None)
    assert store.read() is None
    assert left(store) == []


@pytest.mark.proves("connect:store")
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_the_present_connection_and_no_copy(
    store: ConnectionStore, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store.save(MINE)

    def fails(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if step == "fsync" else Path, step, fails)
    with pytest.raises(ReadOnly) as caught:
        store.save(OTHER)
    monkeypatch.undo()
    assert "No space left" in caught.value.message
    assert "another" not in repr(caught.value.as_dict())
    assert store.read() == MINE
    assert left(store) == [FILE]


@pytest.mark.proves("connect:store")
def test_a_link_in_its_place_is_not_followed(store: ConnectionStore, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine", encoding="utf-8")
    target.chmod(0o600)
    store.file.parent.mkdir(mode=0o700)
    store.file.symlink_to(target)
    with pytest.raises(PrivateFileError, match="symbolic link"):
        store.read()
    store.save(MINE)
    assert not store.file.is_symlink()
    assert target.read_text("utf-8") == "mine"
    assert store.read() == MINE


@pytest.mark.proves("connect:store")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_can_read_or_write_is_not_used(
    store: ConnectionStore, mode: int
) -> None:
    store.save(MINE)
    store.file.chmod(mode)
    with pytest.raises(PrivateFileError, match="chmod 600") as caught:
        store.read()
    assert KEY not in str(caught.value)
    store.save(MINE)
    assert store.file.stat().st_mode & 0o777 == 0o600


@pytest.mark.proves("connect:store")
def test_a_file_that_is_no_connection_is_not_shown(store: ConnectionStore) -> None:
    store.save(MINE)
    for text in ("{", "[]", f'{{"provider": "anthropic", "key": "{KEY}", "models": []}}'):
        store.file.write_text(text, encoding="utf-8")
        with pytest.raises(PrivateFileError, match="Connect a model again") as caught:
            store.read()
        assert caught.value.__suppress_context__
        assert KEY not in str(caught.value)


@pytest.mark.proves("connect:store")
def test_nothing_is_written_into_a_folder_that_others_can_write(store: ConnectionStore) -> None:
    store.file.parent.mkdir()
    store.file.parent.chmod(0o777)
    with pytest.raises(ReadOnly, match="not private"):
        store.save(MINE)
    assert left(store) == []
