"""What the extension keeps for a server, when it is put together and when not."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tk_ai_extension.server.services import InterfaceSettings, Services

SETTINGS = InterfaceSettings(("default",), (), 1_000, frozenset(), 1.0, 1)


async def test_a_server_that_stops_before_anybody_called_puts_nothing_together() -> None:
    def wire(*_: Any) -> Any:
        raise AssertionError

    services = Services(cast("Any", None), wire, wire, SETTINGS)
    await services.close()
    await services.renamed("a.ipynb", "b.ipynb")


async def test_the_workspace_is_put_together_once(extension: Any) -> None:
    workspace = extension.services.workspace
    await extension.services.ready()
    assert extension.services.workspace is workspace
    assert extension.workspace is workspace


@pytest.mark.proves("edit:history")
async def test_what_happens_to_notebooks_while_an_import_fails_is_handled_once_it_works(
    extension: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, handled = extension.services, list[str]()

    class Recorded:
        @property
        def workspace(self) -> Any:
            return self

        @property
        def sessions(self) -> Any:
            return SimpleNamespace(renamed=lambda *_: None)

        async def renamed(self, old: str, new: str) -> None:
            handled.append(f"{old} -> {new}")

        async def deleted(self, path: str) -> None:
            handled.append(path)

    failures = [OSError("full"), OSError("full")]

    def build() -> Any:
        if failures:
            raise failures.pop()
        return Recorded()

    services = Services(known.managers, build, known, SETTINGS)

    async def fail(*_: Any) -> None:
        raise ImportError

    with monkeypatch.context() as patch:
        patch.setattr(services, "_import", fail)
        await services.renamed("a.ipynb", "b.ipynb")
        await services.deleted("b.ipynb")
    for _ in tuple(failures):
        with pytest.raises(OSError, match="full"):
            await services.ready()
    assert handled == []
    await services.deleted("c.ipynb")
    assert handled == ["a.ipynb -> b.ipynb", "b.ipynb", "c.ipynb"]


@pytest.mark.proves("rest:chat")
@pytest.mark.parametrize("event", [("renamed", "a", "b"), ("deleted", "a")])
async def test_chats_handle_renames_and_deletions_before_anything_is_awaited_or_once_they_are_built(
    monkeypatch: pytest.MonkeyPatch, event: tuple[str, ...]
) -> None:
    handled = list[str]()

    def handle(*what: str) -> Any:
        handled.append(" ".join(what))

        async def store() -> None:
            handled.append("stored")

        return store()

    async def publish(_: Any) -> None:
        await asyncio.sleep(0)
        handled.append("workspace")

    async def load(*_: Any) -> None:
        pass

    chats = SimpleNamespace(
        paths=SimpleNamespace(
            renamed=lambda *what: handle("renamed", *what),
            deleted=lambda *what: handle("deleted", *what),
        )
    )

    def build_chats(*_: Any) -> Any:
        return chats

    services = Services(cast("Any", None), lambda: cast("Any", None), build_chats, SETTINGS)
    monkeypatch.setattr(services, "_publish", publish)
    monkeypatch.setattr(services, "_import", load)
    monkeypatch.setattr(services, "registries", SimpleNamespace(get=lambda: None))
    name, *what = event
    await getattr(services, name)(*what)
    assert handled == ["workspace"]
    await services._load_chats()
    assert handled[1:] == [" ".join(event), "stored"]
    handling = getattr(services, name)(*what)
    handling.send(None)
    assert handled[3:] == [" ".join(event)]
    with pytest.raises(StopIteration):
        handling.send(None)
    assert handled[4:] == ["workspace", "stored"]
