"""A Jupyter Server with the extension and without collaboration, and notebooks open in a page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_server.serverapp import ServerApp
from tornado.httpclient import HTTPClientError
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from traitlets.config import Config

from tests.harness import end_server
from tests.support.document_bench import DEADLINE, DocumentBench
from tests.support.tab_page import TabPage, TabPerson
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.notebooks.notebook_store import NotebookStore


@asynccontextmanager
async def listening_server(
    folder: Path, *extensions: str, **config: Any
) -> AsyncGenerator[tuple[ServerApp, str]]:
    """The server, in this process, and its address.

    Args:
        folder: An empty one, for all that it keeps.
        extensions: Others than this one.
        config: Of the server, by class.
    """
    root = folder / "root"
    root.mkdir()
    settings = Config(config)
    settings.ServerApp.jpserver_extensions = {
        "jupyter_server_ydoc": False,
        "jupyter_server_fileid": False,
        **dict.fromkeys((*extensions, "tk_ai_extension"), True),
    }
    settings.ServerApp.root_dir = str(root)
    settings.ServerApp.allow_remote_access = True
    settings.NotebookNotary.db_file = ":memory:"
    settings.TkAIExtensionApp.data_dir = str(folder / "data")
    app = ServerApp.instance(config=settings)
    app.initialize(argv=[], find_extensions=False, new_httpserver=False)
    socket, port = bind_unused_port()
    server = HTTPServer(app.web_app)
    server.add_sockets([socket])
    try:
        yield app, f"http://127.0.0.1:{port}/"
    finally:
        await end_server(app)
        server.stop()
        await server.close_all_connections()
        ServerApp.clear_instance()


class OpenedInPage(NotebookStore):
    """A store of notebooks that a person opens in a page before an agent does."""

    def __init__(self, store: NotebookStore, page: TabPage) -> None:
        vars(self).update(vars(store))
        self._page = page

    async def open(self, path: str) -> NotebookDocument:
        # A notebook that JupyterLab cannot open is open nowhere.
        with suppress(HTTPClientError):
            await self._page.opened(path)
        return await super().open(path)


def services_of(app: ServerApp) -> Any:
    """The services of the server's extension."""
    (extension,) = app.extension_manager.extension_apps["tk_ai_extension"]
    found: Any = extension
    return found.services


def store_of(app: ServerApp) -> NotebookStore:
    """The store of the server's extension."""
    return services_of(app).workspace.store


@asynccontextmanager
async def tab_bench(folder: Path) -> AsyncGenerator[DocumentBench]:
    """Notebooks that a person has open in JupyterLab."""
    async with listening_server(folder) as (app, address):
        page = TabPage(address, app.identity_provider.token)
        await page.connect()

        async def settle(path: str) -> None:
            if path in page.notebooks and page.notebooks[path].dirty:
                await page.save(path)

        store = OpenedInPage(store_of(app), page)
        yield DocumentBench(store, "tab", Path(app.root_dir), TabPerson(page), settle)
        await page.close()
        assert page.dialogs == []


SHORT = 0.05
"""Seconds after which tabs count as lost, where that is what is tested."""
PATH = "n.ipynb"


@dataclass
class TabHarness:
    """A server, and a person with an open notebook of two cells."""

    app: ServerApp
    address: str
    store: NotebookStore
    page: TabPage

    async def another_page(self) -> TabPage:
        page = TabPage(self.address, self.app.identity_provider.token)
        await page.connect()
        return page

    async def document(self) -> NotebookDocument:
        return await self.store.open(PATH)

    @property
    def channel(self) -> Any:
        return self.app.web_app.settings["tk_ai_extension_tabs"]

    @property
    def person(self) -> TabPerson:
        return TabPerson(self.page)

    def on_disk(self) -> list[Any]:
        return json.loads((Path(self.app.root_dir) / PATH).read_bytes())["cells"]

    async def changes(self, check: Callable[[], Any]) -> None:
        """Waits until something holds."""
        async with asyncio.timeout(DEADLINE):
            while not check():  # noqa: ASYNC110 - any state may be checked
                await asyncio.sleep(0.02)
