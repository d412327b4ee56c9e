"""The stored connection: who can read it, what survives a failure, and what a hostile folder gets."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from tk_ai_extension.agent.claude import connection_store
from tk_ai_extension.agent.claude.connection_store import (
    FILE,
    Connection,
    ConnectionStore,
    Keyring,
    is_storable,
    system_keyring,
)
from tk_ai_extension.agent.claude.secrets_file import SecretsFileError
from tk_ai_extension.model.errors import ReadOnly

KEY = "sk-ant-canary-0123456789"
VALUES = {"ANTHROPIC_BASE_URL": "https://api.anthropic.com", "ANTHROPIC_API_KEY": KEY}


class FakeKeyring:
    """A backend in memory."""

    priority = 5.0

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], str] = {}
        self.locked = False

    def _open(self) -> None:
        if self.locked:
            raise RuntimeError("locked")

    def get_password(self, service: str, username: str) -> str | None:
        self._open()
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._open()
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._open()
        del self.entries[service, username]


def in_folder(
    folder: Path, keyring: Callable[[], Keyring | None] = lambda: None
) -> ConnectionStore:
    return ConnectionStore(folder / "tk-ai-extension" / FILE, keyring)


@pytest.fixture
def store(tmp_path: Path) -> ConnectionStore:
    return in_folder(tmp_path)


def left(store: ConnectionStore) -> list[str]:
    """The names of the files beside the lock, which stays."""
    names = (path.name for path in store.file.parent.iterdir())
    return [name for name in names if name != f".{FILE}.lock"]


def read(store: ConnectionStore) -> Connection:
    found = store.read()
    assert found is not None
    return found


@pytest.mark.proves("connect:store")
def test_a_connection_is_kept_for_its_user_alone(store: ConnectionStore) -> None:
    old = os.umask(0)
    try:
        store.save("anthropic", VALUES, ("claude-a", "claude-b"))
    finally:
        os.umask(old)
    assert store.file.stat().st_mode & 0o777 == 0o600
    assert store.file.parent.stat().st_mode & 0o777 == 0o700
    found = read(store)
    assert (found.provider, found.values, found.models) == (
        "anthropic",
        VALUES,
        ("claude-a", "claude-b"),
    )
    assert (found.secret, found.ending, found.place) == (KEY, "6789", "file")
    assert left(store) == [FILE]
    # A process was killed while it saved.
    store.file.with_name(f".{FILE}-1-2").write_text(KEY, encoding="utf-8")
    store.delete()
    store.delete()
    assert store.read() is None
    assert left(store) == []


@pytest.mark.proves("threat:secrets")
def test_neither_a_representation_nor_a_short_ending_shows_the_secret(
    store: ConnectionStore,
) -> None:
    assert KEY not in repr(store.save("anthropic", VALUES))
    short = Connection("anthropic", {"ANTHROPIC_API_KEY": "123456789012345"})
    assert short.ending is None
    assert Connection("vertex", {"CLOUD_ML_REGION": "global"}).ending is None


@pytest.mark.proves("connect:store")
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_the_present_connection_and_no_copy(
    store: ConnectionStore, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store.save("anthropic", VALUES)

    def fails(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if step == "fsync" else Path, step, fails)
    with pytest.raises(ReadOnly) as caught:
        store.save("anthropic", {**VALUES, "ANTHROPIC_API_KEY": "sk-ant-another-987654321"})
    monkeypatch.undo()
    assert "No space left" in caught.value.message
    assert "another" not in repr(caught.value.as_dict())
    assert read(store).secret == KEY
    assert left(store) == [FILE]


@pytest.mark.proves("connect:store")
def test_a_reader_sees_the_old_or_the_new_connection(
    store: ConnectionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save("anthropic", VALUES)
    seen: list[str] = []
    replace = Path.replace

    def looks(self: Path, target: Path) -> Path:
        seen.append(read(store).secret)
        assert self.stat().st_mode & 0o777 == 0o600
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", looks)
    store.save("anthropic", {**VALUES, "ANTHROPIC_API_KEY": "new-key-0123456789"})
    assert [*seen, read(store).secret] == [KEY, "new-key-0123456789"]


@pytest.mark.proves("connect:store")
def test_a_link_in_its_place_is_not_followed(store: ConnectionStore, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("MINE=1\n", encoding="utf-8")
    target.chmod(0o600)
    store.file.parent.mkdir(mode=0o700)
    store.file.symlink_to(target)
    with pytest.raises(SecretsFileError, match="symbolic link"):
        store.read()
    store.save("anthropic", VALUES)
    assert not store.file.is_symlink()
    assert target.read_text("utf-8") == "MINE=1\n"
    assert read(store).secret == KEY
    store.file.unlink()
    store.file.symlink_to(target)
    store.delete()
    assert target.exists()
    assert not store.file.is_symlink()


@pytest.mark.proves("connect:store")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660])
def test_a_file_that_others_can_read_or_write_is_not_used(
    store: ConnectionStore, mode: int
) -> None:
    store.save("anthropic", VALUES)
    store.file.chmod(mode)
    with pytest.raises(SecretsFileError, match="chmod 600") as caught:
        store.read()
    assert KEY not in str(caught.value)
    store.save("anthropic", VALUES)
    assert store.file.stat().st_mode & 0o777 == 0o600


@pytest.mark.proves("connect:store")
def test_nothing_is_written_into_a_folder_that_others_can_write(store: ConnectionStore) -> None:
    store.file.parent.mkdir()
    store.file.parent.chmod(0o777)
    with pytest.raises(ReadOnly, match="not private"):
        store.save("anthropic", VALUES)
    assert list(store.file.parent.iterdir()) == []


def test_a_file_where_the_folder_should_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tk-ai-extension").write_text("", encoding="utf-8")
    with pytest.raises(ReadOnly):
        in_folder(tmp_path).save("anthropic", VALUES)


@pytest.mark.proves("connect:store")
@pytest.mark.parametrize(
    "value", ["", "a'b", "a b", "a\nANTHROPIC_BASE_URL=x", "a\x00", "é", "x" * 8001]
)
def test_a_value_cannot_add_a_line(store: ConnectionStore, value: str) -> None:
    assert not is_storable(value)
    with pytest.raises(ValueError, match="ANTHROPIC_API_KEY") as caught:
        store.save("anthropic", {**VALUES, "ANTHROPIC_API_KEY": value})
    assert not value.strip() or value not in str(caught.value)
    assert not store.file.exists()


def test_variables_that_no_connection_has_are_neither_written_nor_read(
    store: ConnectionStore,
) -> None:
    with pytest.raises(ValueError, match="NODE_OPTIONS"):
        store.save("anthropic", {**VALUES, "NODE_OPTIONS": "--require=evil.js"})
    store.save("anthropic", VALUES)
    with store.file.open("a", encoding="utf-8") as file:
        file.write("NODE_OPTIONS='--require=evil.js'\nHTTPS_PROXY='http://evil.example'\n")
    assert read(store).values == VALUES


@pytest.mark.proves("connect:store")
def test_with_a_keyring_the_secret_is_in_no_file(tmp_path: Path) -> None:
    backend = FakeKeyring()
    store = in_folder(tmp_path, lambda: backend)
    assert store.save("anthropic", VALUES).place == "keyring"
    assert KEY not in store.file.read_text("utf-8")
    found = read(store)
    assert (found.values, found.place, found.ending) == (VALUES, "keyring", "6789")
    store.delete()
    assert backend.entries == {}


@pytest.mark.proves("connect:store", "connect:address")
def test_who_changes_the_address_in_the_file_gets_no_secret(tmp_path: Path) -> None:
    backend = FakeKeyring()
    store = in_folder(tmp_path, lambda: backend)
    store.save("anthropic", VALUES)
    text = store.file.read_text("utf-8")
    store.file.write_text(text.replace("api.anthropic.com", "evil.example"), encoding="utf-8")
    with pytest.raises(SecretsFileError, match="keyring"):
        store.read()


@pytest.mark.proves("connect:store")
def test_a_locked_keyring_is_replaced_by_the_file(tmp_path: Path) -> None:
    backend = FakeKeyring()
    store = in_folder(tmp_path, lambda: backend)
    store.save("anthropic", VALUES)
    backend.locked = True
    with pytest.raises(SecretsFileError, match="keyring"):
        store.read()
    assert store.save("anthropic", VALUES).place == "file"
    assert read(store).secret == KEY
    backend.locked = False
    assert store.save("vertex", {"CLOUD_ML_REGION": "global"}).place == "file"
    assert backend.entries == {}


@pytest.mark.proves("connect:store", "connect:address")
@pytest.mark.parametrize("seed", range(8))
def test_a_connection_that_is_not_saved_leaves_the_former_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Saves fail, or the process is killed in one; what was saved last is in force."""
    randomness = random.Random(seed)
    backend = FakeKeyring()
    store = in_folder(tmp_path, lambda: backend)
    saved: dict[str, str] | None = None
    for number in range(12):
        address = f"https://{randomness.choice('ab')}.example"
        values = {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": f"key-{number}"}
        ends = randomness.choice(
            [None, OSError(28, "No space left on device"), KeyboardInterrupt()]
        )
        with monkeypatch.context() as disk:
            if ends is not None:
                disk.setattr(os, "fsync", Mock(side_effect=ends))
            try:
                store.save("compatible", values)
                saved = values
            except (ReadOnly, KeyboardInterrupt):
                pass
        found = store.read()
        assert (found and found.values) == saved
        assert len(backend.entries) <= 2
        if ends is None:
            assert len(backend.entries) == 1
    store.delete()
    assert backend.entries == {}


@pytest.mark.proves("connect:store")
@pytest.mark.parametrize(("priority", "used"), [(0, False), (-1, False), (0.5, False), (5, True)])
def test_a_keyring_is_used_where_it_has_a_secure_backend(
    monkeypatch: pytest.MonkeyPatch, priority: float, *, used: bool
) -> None:
    backend = SimpleNamespace(priority=priority)
    module = SimpleNamespace(get_keyring=lambda: backend)
    monkeypatch.setitem(sys.modules, "keyring", module)
    assert (system_keyring() is backend) is used


@pytest.mark.proves("connect:store")
def test_keyring_is_not_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert system_keyring() is None


def test_the_entry_of_the_keyring_names_the_address(tmp_path: Path) -> None:
    backend = FakeKeyring()
    in_folder(tmp_path, lambda: backend).save("anthropic", VALUES)
    ((service, _), entry), *_ = backend.entries.items()
    assert service == connection_store.SERVICE
    assert json.loads(entry) == {"address": VALUES["ANTHROPIC_BASE_URL"], "secret": KEY}
