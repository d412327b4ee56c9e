"""A notebook that is reached under several names, by links, has one live document."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from jupyter_server.serverapp import ServerApp
from pycrdt import Provider

from tests.notebooks.browsers import browse, listening
from tests.notebooks.conftest import running_server
from tests.notebooks.tabs import TabHarness
from tests.support.document_bench import (
    DEADLINE,
    code,
    notebook,
    sources,
    stream,
    written,
)
from tests.support.tab_page import TabPerson
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.errors import OpenTwice
from tk_ai_extension.model.operations import Insert
from tk_ai_extension.model.outputs import Append
from tk_ai_extension.model.paths import aliases, has_link
from tk_ai_extension.notebooks.rooms.leases import RoomLeases
from tk_ai_extension.notebooks.router import NotebookRouter
from tk_ai_extension.workspace.paths import notebook_path

A, B = "aaaa1111", "bbbb2222"
INSERT = Insert(CellContent("code", "new"), index=2)

NAMES = {
    # The names of one file; the first is the file itself.
    "a link": ("{}/n.ipynb", "{}-link.ipynb"),
    "a link to its folder": ("{}/n.ipynb", "{}-folder/n.ipynb"),
    "a link to a link": ("{}-link.ipynb", "{}-second.ipynb"),
    "two links": ("{}-link.ipynb", "{}-folder/n.ipynb"),
}
PAIRS = [
    pytest.param(kind, turned, id=f"{kind}, {'person' if turned else 'agent'} at the second")
    for kind in NAMES
    for turned in (False, True)
]


def named(root: Path, kind: str, turned: bool) -> tuple[str, str]:
    """Makes a notebook with all its names; the agent's and the person's."""
    stem = f"t{len(list(root.iterdir()))}"
    (root / stem).mkdir()
    (root / stem / "n.ipynb").write_bytes(written(notebook(code("a", A), code("b", B))))
    (root / f"{stem}-link.ipynb").symlink_to(f"{stem}/n.ipynb")
    (root / f"{stem}-second.ipynb").symlink_to(f"{stem}-link.ipynb")
    (root / f"{stem}-folder").symlink_to(stem, target_is_directory=True)
    one, other = (name.format(stem) for name in NAMES[kind])
    return (one, other) if turned else (other, one)


def test_only_links_are_names_of_the_same_file(tmp_path: Path) -> None:
    named(tmp_path, "a link", turned=False)
    own = "t0/n.ipynb"
    (tmp_path / "t0" / "copy.ipynb").write_bytes((tmp_path / own).read_bytes())
    os.link(tmp_path / own, tmp_path / "hard.ipynb")
    (tmp_path / "loop.ipynb").symlink_to("loop.ipynb")
    (tmp_path / "dangling.ipynb").symlink_to("nothing.ipynb")
    links = ["t0-link.ipynb", "t0-second.ipynb", "t0-folder/n.ipynb"]
    no_links = ["t0/copy.ipynb", "hard.ipynb", "loop.ipynb", "dangling.ipynb", "no.ipynb", "\0"]
    for name in (own, *links):
        others = {own, *links} - {name}
        assert set(aliases(tmp_path, name, [own, *links, *no_links])) == others
    assert all(has_link(tmp_path, name) for name in links)
    assert not any(has_link(tmp_path, name) for name in (own, "hard.ipynb", "no.ipynb", "\0"))
    for name in no_links[:-1]:
        assert aliases(tmp_path, name, [own, *links, *no_links]) == []


def test_names_cost_nothing_if_nothing_else_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "stat", None)
    assert aliases(Path("/"), "n.ipynb", ["n.ipynb"]) == []


# --- tabs


@pytest.mark.proves("fault:concurrent-edit")
@pytest.mark.parametrize("first", ["person", "agent", "run"])
@pytest.mark.parametrize(("kind", "turned"), PAIRS)
async def test_an_agent_works_in_the_tab_that_has_the_file(
    harness: TabHarness, kind: str, turned: bool, first: str
) -> None:
    theirs, persons = named(Path(harness.app.root_dir), kind, turned)
    page, store = harness.page, harness.store
    document = await store.open(theirs) if first != "person" else None
    if first == "run":
        assert document is not None
        async with document.writing(A) as writer:
            await writer.start()
            await writer.write([Append(stream("one "))])
            opened = await page.open(persons)
            await harness.person.type(persons, 1, " typed")
            await writer.write([Append(stream("two"))])
            await document.outputs(A)
            await writer.finish(4)
        assert opened.cells[0]["execution_count"] == 4
    else:
        opened = await page.open(persons)
        await harness.person.type(persons, 1, " typed")
    document = document or await store.open(theirs)
    assert sources((await document.read()).cells) == ["a", "b typed"]
    await document.apply([INSERT])
    assert sources(opened.cells) == ["a", "b typed", "new"]
    assert (await store.open(theirs)).path == persons
    stored = json.loads((Path(harness.app.root_dir) / theirs).read_bytes())
    assert sources(stored["cells"]) == ["a", "b typed", "new"]


@pytest.mark.proves("fault:concurrent-edit")
@pytest.mark.parametrize(("kind", "turned"), PAIRS)
async def test_unsaved_changes_under_two_names_are_an_error(
    harness: TabHarness, kind: str, turned: bool
) -> None:
    one, other = named(Path(harness.app.root_dir), kind, turned)
    for name, index in ((one, 0), (other, 1)):
        await harness.page.open(name)
        await harness.person.type(name, index, " typed")
    for name in (one, other):
        document = await harness.store.open(name)
        with pytest.raises(OpenTwice, match=one) as raised:
            await document.apply([INSERT])
        assert other in raised.value.message
    await harness.page.close_notebook(other)
    await (await harness.store.open(other)).apply([INSERT])
    assert await TabPerson(harness.page).sources(one) == ["a typed", "b", "new"]


# --- rooms


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerApp]:
    async with running_server(tmp_path_factory.mktemp("rooms")) as app:
        yield app


@pytest_asyncio.fixture(loop_scope="module")
async def router(app: ServerApp, tmp_path: Path) -> AsyncIterator[NotebookRouter]:
    root = Path(app.root_dir)
    store = NotebookRouter(
        root,
        partial(notebook_path, root),
        contents_manager=app.contents_manager,
        settings=app.web_app.settings,
        event_logger=app.event_logger,
        leases=RoomLeases(tmp_path, root, str),
    )
    yield store
    await store.close()


class Clients(set[Any]):
    """The clients of a room; an event for when one leaves."""

    def __init__(self, clients: set[Any]) -> None:
        super().__init__(clients)
        self.left = asyncio.Event()

    def remove(self, element: Any) -> None:
        super().remove(element)
        self.left.set()


async def seen(document: Any, check: Callable[[], bool]) -> None:
    """Waits until something holds for a shared document."""
    changed = asyncio.Event()
    subscription = document.ycells.observe_deep(lambda _: changed.set())
    async with asyncio.timeout(DEADLINE):
        while not check():
            changed.clear()
            await changed.wait()
    document.ycells.unobserve(subscription)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.proves("fault:concurrent-edit", "ext:rtc")
@pytest.mark.parametrize("first", ["person", "agent", "run"])
@pytest.mark.parametrize(("kind", "turned"), PAIRS)
async def test_an_agent_works_in_the_room_that_people_have_open(
    app: ServerApp, router: NotebookRouter, kind: str, turned: bool, first: str
) -> None:
    theirs, persons = named(Path(app.root_dir), kind, turned)
    async with listening(app) as address, AsyncExitStack() as stack:
        document = await router.open(theirs)
        if first != "person":
            await document.read()
        writer = None
        if first == "run":
            writer = await stack.enter_async_context(document.writing(A))
            await writer.start()
            await writer.write([Append(stream("one "))])
            await document.outputs(A)
            await document.flush()
        browser, socket = await browse(app, address, persons)
        await stack.enter_async_context(Provider(browser.notebook.ydoc, browser))
        await browser.sees(lambda shared: sources(shared.get()["cells"]) == ["a", "b"])
        document = await router.open(theirs)
        assert document.path == persons
        if writer is not None:
            await writer.write([Append(stream("two"))])
            await writer.finish(4)
            await browser.sees(
                lambda shared: (
                    [str(each["text"]) for each in shared.ycells[0]["outputs"]] == ["one two"]
                )
            )
        browser.notebook.ycells[1]["source"].insert(1, " typed")
        # Only once the server has what was typed.
        room: Any = await app.web_app.settings["jupyter_server_ydoc"].get_document(
            path=persons, content_type="notebook", file_format="json", copy=False
        )
        await seen(room, lambda: str(room.ycells[1]["source"]) == "b typed")
        assert sources((await document.read()).cells) == ["a", "b typed"]
        await document.apply([INSERT])
        await browser.sees(lambda shared: sources(shared.get()["cells"]) == ["a", "b typed", "new"])
        socket.close()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.proves("fault:concurrent-edit", "ext:rtc")
@pytest.mark.parametrize(("kind", "turned"), PAIRS)
async def test_rooms_under_two_names_are_an_error_until_one_is_closed(
    app: ServerApp, router: NotebookRouter, kind: str, turned: bool
) -> None:
    one, other = named(Path(app.root_dir), kind, turned)
    before = await router.open(other)  # Before anybody has it open.
    async with listening(app) as address, AsyncExitStack() as stack:
        sockets: list[Any] = []
        for name in (one, other):
            browser, socket = await browse(app, address, name)
            await stack.enter_async_context(Provider(browser.notebook.ydoc, browser))
            await browser.sees(lambda shared: sources(shared.get()["cells"]) == ["a", "b"])
            sockets.append(socket)
            if name == one:
                # One that was opened earlier opens no second room.
                with pytest.raises(OpenTwice, match=one):
                    await before.apply([INSERT])
        for name in (one, other):
            document = await router.open(name)
            assert sources((await document.read()).cells) == ["a", "b"]
            with pytest.raises(OpenTwice, match="under 2 names"):
                await document.apply([INSERT])
        settings = app.web_app.settings
        rooms = settings["jupyter_server_ydoc"].ywebsocket_server.rooms
        room: Any = rooms[f"json:notebook:{settings['file_id_manager'].get_id(other)}"]
        room.clients = Clients(room.clients)
        sockets[1].close()
        await asyncio.wait_for(room.clients.left.wait(), DEADLINE)
        assert (await router.open(other)).path == one
        await (await router.open(other)).apply([INSERT])
        sockets[0].close()
