"""Agents in rooms, as the other people there see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from jupyter_server.serverapp import ServerApp
from pycrdt import Provider

from tests.notebooks.browsers import Browser, browse, listening
from tests.notebooks.conftest import room_bench, running_server
from tests.support.document_bench import (
    DEADLINE,
    DocumentBench,
    code,
    notebook,
)
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.operations import Replace
from tk_ai_extension.notebooks.rooms import presence as module
from tk_ai_extension.notebooks.rooms.presence import Presence
from tk_ai_extension.notebooks.router import NotebookRouter

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLAUDE = Caller("ada", "chat-1", "chat", name="Claude")
CODE = Caller("ada", "session-1", "mcp", name="Claude Code")
CELLS = notebook(code("first = 1", "aaaa1111"), code("", "bbbb2222"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerApp]:
    config = {"YDocExtension": {"document_cleanup_delay": 0.2}}
    async with running_server(tmp_path_factory.mktemp("presence"), **config) as app:
        yield app


@pytest_asyncio.fixture(loop_scope="module")
async def bench(app: ServerApp) -> AsyncIterator[DocumentBench]:
    async with room_bench(app) as bench:
        yield bench


@pytest_asyncio.fixture(loop_scope="module")
async def address(app: ServerApp) -> AsyncIterator[str]:
    async with listening(app) as address:
        yield address


@asynccontextmanager
async def opened(app: ServerApp, address: str, path: str) -> AsyncGenerator[Browser]:
    """A person's page with the notebook."""
    browser, socket = await browse(app, address, path)
    async with Provider(browser.notebook.ydoc, browser):
        await browser.join(user={"username": "ada", "name": "Ada"}, autosave=False)
        await browser.sees(lambda shared: len(shared.ycells) == 2)
        yield browser
        socket.close()


def presence_of(bench: DocumentBench) -> Presence:
    store = bench.store
    assert isinstance(store, NotebookRouter)
    assert store.presence is not None
    return store.presence


def names(states: list[dict[str, Any]]) -> list[str]:
    return sorted(state["user"]["name"] for state in states)


def room_of(app: ServerApp, path: str) -> Any:
    settings = app.web_app.settings
    file_id = settings["file_id_manager"].get_id(path)
    return settings["jupyter_server_ydoc"].ywebsocket_server.rooms.get(f"json:notebook:{file_id}")


@pytest.mark.proves("ext:presence")
async def test_an_agent_is_a_collaborator_at_its_cell_while_it_runs_and_for_a_moment_after(
    bench: DocumentBench, app: ServerApp, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE", 0.1)
    path = (await bench.open(CELLS)).path
    async with opened(app, address, path) as browser:
        for cell, place in (("aaaa1111", 0), ("bbbb2222", 1)):
            presence_of(bench).began(path, CLAUDE, [cell])
            source = browser.notebook.ycells[place]["source"]
            # The end of the text, as Yjs names it.
            end = source.sticky_index(0, module.Assoc.BEFORE).to_json()["type"]
            [state] = await browser.meets(
                lambda them, end=end: any(
                    cursor["head"]["type"] == end for each in them for cursor in each["cursors"]
                )
            )
            assert state["user"]["display_name"] == "Claude"
            assert state["user"]["initials"] == "C"
            assert state["user"]["color"].startswith("var(--jp-collaborator-color")
            assert state["current"] == f"notebook:{path}"
            assert state["autosave"] is False
        presence_of(bench).ended(path, CLAUDE, ["aaaa1111"])
        assert names(browser.others()) == ["Claude"]
        presence_of(bench).ended(path, CLAUDE, ["bbbb2222"])
        await browser.meets(lambda them: not them)


@pytest.mark.proves("ext:presence")
async def test_agents_are_there_each_for_itself_also_for_who_comes_later(
    bench: DocumentBench, app: ServerApp, address: str
) -> None:
    path = (await bench.open(CELLS)).path
    async with opened(app, address, path) as first:
        presence_of(bench).began(path, CLAUDE, ["aaaa1111"])
        presence_of(bench).began(path, CODE, ["bbbb2222"])
        them = await first.meets(lambda them: len(them) == 2)
        assert names(them) == ["Claude", "Claude Code"]
        assert len({state["user"]["username"] for state in them}) == 2
        async with opened(app, address, path) as second:
            them = await second.meets(lambda them: len(them) == 2)
            assert names(them) == ["Claude", "Claude Code"]
            await presence_of(bench).close()
            await first.meets(lambda them: names(them) == ["Ada"])
            await second.meets(lambda them: not them)


@pytest.mark.proves("ext:presence")
async def test_a_state_is_renewed_before_it_is_forgotten(
    bench: DocumentBench, app: ServerApp, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RENEWAL_INTERVAL", 0.05)
    path = (await bench.open(CELLS)).path
    async with opened(app, address, path) as browser:
        presence_of(bench).began(path, CLAUDE, ["aaaa1111"])
        await browser.meets(lambda them: len(them) == 1)
        # As where its connection was lost: it has forgotten everybody.
        [client] = [
            each for each in browser.awareness.states if each != browser.awareness.client_id
        ]
        browser.awareness.remove_awareness_states([client], "lost")
        assert browser.others() == []
        await browser.meets(lambda them: names(them) == ["Claude"])
        await presence_of(bench).close()


@pytest.mark.proves("ext:presence")
async def test_nothing_is_remembered_of_who_came_and_went(
    bench: DocumentBench, app: ServerApp, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANNOUNCE_INTERVAL", 0.1)
    monkeypatch.setattr(module, "GRACE", 0.3)
    monkeypatch.setattr(module, "RENEWAL_INTERVAL", 0.05)
    path = (await bench.open(CELLS)).path
    async with opened(app, address, path) as browser:
        awareness = room_of(app, path).awareness
        for _ in range(3):
            presence_of(bench).worked(path, CLAUDE, ["aaaa1111"])
            await browser.meets(lambda them: names(them) == ["Claude"])
            await browser.meets(lambda them: not them)
        async with asyncio.timeout(DEADLINE):
            # The person, and the room itself.
            while len(awareness.meta) > 2:  # noqa: ASYNC110
                await asyncio.sleep(0)


async def test_presence_keeps_no_room_open_and_leaves_the_notebook_as_it_is(
    bench: DocumentBench, app: ServerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RENEWAL_INTERVAL", 0.05)
    document = await bench.open(CELLS)
    await document.apply([Replace("aaaa1111", "second = 2")])
    room = room_of(app, document.path)
    before = room.ydoc.get_state()
    assert not room._document.dirty
    presence_of(bench).began(document.path, CLAUDE, ["aaaa1111"])
    assert room.ydoc.get_state() == before
    assert not room._document.dirty
    async with asyncio.timeout(DEADLINE):
        await room._stopped.wait()
    assert room_of(app, document.path) is None


@pytest.mark.proves("ext:presence")
async def test_many_agents_that_run_many_cells_send_few_messages(
    bench: DocumentBench, app: ServerApp, address: str
) -> None:
    path = (await bench.open(CELLS)).path
    async with opened(app, address, path) as browser:
        messages: list[list[int]] = []
        browser.awareness.observe(lambda _, changes: messages.append(changes[0]["updated"]))
        presence, loop = presence_of(bench), asyncio.get_running_loop()
        many = [Caller("ada", f"session-{n}", "mcp", name=f"Agent {n}") for n in range(8)]
        begun = loop.time()
        while loop.time() - begun < 2.2 * module.ANNOUNCE_INTERVAL:
            for agent in many:
                presence.began(path, agent, ["aaaa1111"])
                presence.ended(path, agent, ["aaaa1111"])
            await asyncio.sleep(0)
        await browser.meets(lambda them: len(them) == 8)
        await presence.close()
        await browser.meets(lambda them: not them)
    # Two events for each: of the change, and of the update.
    announced = 1 + (loop.time() - begun) / module.ANNOUNCE_INTERVAL
    assert len(messages) <= 2 * (announced + 1)
