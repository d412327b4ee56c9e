"""Two decisions of a user at the same time: both are kept, in any order of their steps."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.agent.test_connection_store import VALUES, FakeKeyring, in_folder
from tk_ai_extension.agent import user_servers
from tk_ai_extension.agent.claude import trusted_folders
from tk_ai_extension.agent.claude.connection_store import ConnectionStore
from tk_ai_extension.agent.claude.trusted_folders import TrustedFolders
from tk_ai_extension.agent.user_servers import DISABLED, FILE, UserServers

WAIT = 0.05
"""How long a step of one decision waits for the other, which a lock holds up, in seconds."""


class Interrupted(FakeKeyring):
    """A keyring with which another decision comes in between, before the step of a number."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = -1
        self.other: Callable[[], object] = bool
        self.thread: threading.Thread | None = None

    def _open(self) -> None:
        self.steps -= 1
        if self.steps == 0:
            self.thread = threading.Thread(target=self.other)
            self.thread.start()
            self.thread.join(WAIT)


def saving(store: ConnectionStore, key: str) -> Callable[[], object]:
    return lambda: store.save("anthropic", {**VALUES, "ANTHROPIC_API_KEY": key})


@pytest.mark.proves("connect:keyring", "connect:store")
@pytest.mark.parametrize("first", ["save", "delete", "read"])
@pytest.mark.parametrize("second", ["save", "delete"])
@pytest.mark.parametrize("step", range(1, 7))
def test_of_two_decisions_about_the_connection_one_is_in_force(
    tmp_path: Path, first: str, second: str, step: int
) -> None:
    backend = Interrupted()
    store = in_folder(tmp_path, lambda: backend)
    saving(store, "former-key-01")()
    seen: list[str] = []
    # Another server of the user has a store of its own.
    does = {
        "save": saving(store, "first-key-0123"),
        "delete": store.delete,
        "read": lambda: seen.append(found.secret if (found := store.read()) else ""),
    }
    theirs = in_folder(tmp_path, lambda: backend)
    others = {"save": saving(theirs, "second-key-012"), "delete": theirs.delete}
    backend.other, backend.steps = others[second], step
    does[first]()
    if backend.thread is not None:
        backend.thread.join(10)
    assert set(seen) <= {"former-key-01", "second-key-012", ""}
    backend.steps = -1
    found = store.read()
    results = {"first-key-0123", "second-key-012", "former-key-01", ""}
    assert (found.secret if found else "") in results
    # One entry for a connection, none without: no key is left over, none is in the file.
    assert len(backend.entries) == (found is not None)
    assert found is None or found.place == "keyring"
    files = [path.read_text("utf-8") for path in store.file.parent.iterdir()]
    assert not any("-key-" in text for text in files)


def at_once(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    """Let each of two writers wait for the other before it writes, as long as a lock allows."""
    barrier, write = threading.Barrier(2), module.write_private

    def waits(*arguments: Any) -> None:
        with suppress(threading.BrokenBarrierError):
            barrier.wait(WAIT)
        write(*arguments)

    monkeypatch.setattr(module, "write_private", waits)


@pytest.mark.proves("chat:servers-own")
async def test_two_servers_are_switched_off_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = UserServers(tmp_path, frozenset({"me"}))
    entries = {name: {"command": name} for name in "abc"} | {
        "d": {"command": "d", "disabled": True}
    }
    (tmp_path / FILE).write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    (tmp_path / FILE).chmod(0o600)
    await servers.switch("me", "c", enabled=False)
    at_once(monkeypatch, user_servers)
    # Another server of the user has services of its own.
    theirs = UserServers(tmp_path, frozenset({"me"}))
    await asyncio.gather(
        servers.switch("me", "a", enabled=False), theirs.switch("me", "b", enabled=False)
    )
    assert await servers.enabled("me") == ()
    # What an entry itself disables is no decision to be kept.
    assert json.loads((tmp_path / DISABLED).read_text("utf-8")) == ["a", "b", "c"]


@pytest.mark.proves("threat:secrets")
def test_a_folder_that_is_no_longer_trusted_stays_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    trusted = TrustedFolders(tmp_path / "own" / "trusted.json")
    trusted.trust(one)
    at_once(monkeypatch, trusted_folders)
    threads = [
        threading.Thread(target=trusted.forget, args=(one,)),
        threading.Thread(target=TrustedFolders(trusted.file).trust, args=(two,)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (trusted.trusts(one), trusted.trusts(two)) == (False, True)
