"""JupyterLab servers that the tests of a worker use one after the other.

A server takes 3 seconds of processor time before a test begins. A test gets one as if it were new:
`PooledLab.reset` removes what the test before left. Each test loads its own
page; the browser has compiled the scripts before.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
from playwright.async_api import Browser, BrowserContext
from playwright.async_api import Error as PlaywrightError

from tests.browser.lab import Lab, configure, new_context, page_of
from tests.servers import ServerProcess, servers
from tests.support.messages_api import Reply
from tests.support.scripted_model import MODEL, MessagesRequest, ScriptedModel

MOST = 3
"""So many servers are kept by a worker; the one that was not used for the longest time ends."""
CLOSE = 10
"""Seconds that a page may take to close."""
USED = "used"
"""The folder to which notebooks of tests before are moved: what is known of them goes along."""

CONFIG = """
c.ServerApp.jpserver_extensions.update({{
    "jupyterlab": True,
    "jupyter_server_fileid": {collaboration},
    "jupyter_server_ydoc": {collaboration},
    "notebook": True,
    "notebook_shim": True,
}})
c.JupyterNotebookApp.expose_app_in_browser = True
c.LabApp.expose_app_in_browser = True
c.LabApp.news_url = None
c.TkAIExtensionApp.data_dir = {data!r}
"""

STORED = "cookies,file_systems,indexeddb,local_storage,service_workers,websql"
"""What a page stores, except its cache."""


class SharedModel(ScriptedModel):
    """The model of a shared server, which forwards to the model of each test.

    Attributes:
        current: The model of the test that uses the server; without one the script has ended.
    """

    current: ScriptedModel | None = None

    def reply(self, request: MessagesRequest) -> Reply:
        """The next turn of the test's script."""
        return super().reply(request) if self.current is None else self.current.reply(request)


@dataclass
class PooledLab:
    """A server, and the context of its pages.

    Attributes:
        server: The server.
        model: The server's model.
        context: The pages' context; None until a test needs one.
    """

    server: ServerProcess
    model: SharedModel
    context: BrowserContext | None = None
    _count: int = 0

    async def lab(self, browser: Browser, model: ScriptedModel | None) -> Lab:
        """A page that is not loaded yet, as a test gets it.

        Args:
            browser: The worker's.
            model: The test's.
        """
        self.model.current = model
        if self.context is None or self.context.browser is not browser:
            self.context = await new_context(browser)
        return Lab(await page_of(self.context), self.server)

    async def reset(self) -> None:
        """Removes what a test has left: pages and what they stored, chats, kernels and notebooks."""
        self._count += 1
        self.model.current = None
        if self.context is not None:
            await self._close_pages(self.context)
        # A workspace of a page before would open what was open there.
        shutil.rmtree(self.server.home / "config" / "lab", ignore_errors=True)
        await self._clear_server()

    async def _close_pages(self, context: BrowserContext) -> None:
        for page in context.pages:
            await page.close()
        page = await context.new_page()
        session = await context.new_cdp_session(page)
        origin = {"origin": self.server.url.rstrip("/"), "storageTypes": STORED}
        await session.send("Storage.clearDataForOrigin", origin)
        await page.close()

    async def _clear_server(self) -> None:
        """Ends chats and kernels, and moves the notebooks away, so that their history goes along."""
        root, url = self.server.root, self.server.url
        async with httpx2.AsyncClient(headers=self.server.headers, timeout=60) as http:

            async def delete(kind: str, key: str) -> None:
                for each in await listed(http, f"{url}{kind}", key):
                    await http.delete(f"{url}{kind}/{each['id']}")

            await delete("api/tk-ai/chats", "chats")
            await delete("api/sessions", "")
            await delete("api/kernels", "")
            (root / USED).mkdir()
            # Not the temporary file of a save.
            for path in root.glob("[!.]*.ipynb"):
                moved = {"path": f"{USED}/{self._count} {path.name}"}
                answer = await http.patch(f"{url}api/contents/{quote(path.name)}", json=moved)
                assert answer.status_code == 200, answer.text
        # Collaboration knows files by their inodes: one that was freed could be that of the next file.
        (root / USED).rename(self.server.home / f"{USED}{self._count}")
        for path in root.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


async def listed(http: httpx2.AsyncClient, url: str, key: str) -> list[dict[str, Any]]:
    """What a server lists at an address, below a key of the answer or as the answer itself."""
    answer = (await http.get(url)).json()
    found: list[dict[str, Any]] = answer[key] if key else answer
    return found


class Pool:
    """The servers of a worker, by what they are configured to be."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._labs: dict[Any, tuple[PooledLab, AsyncExitStack]] = {}
        self._count = 0

    async def get(self, *, collaboration: bool, config: str) -> PooledLab:
        """The server with this configuration; started where there is none."""
        key = (collaboration, config)
        if key in self._labs:
            self._labs[key] = self._labs.pop(key)
        else:
            while len(self._labs) >= MOST:
                await self._end(next(iter(self._labs)))
            self._labs[key] = await self._start(collaboration, config)
        return self._labs[key][0]

    @property
    def contexts(self) -> list[BrowserContext]:
        """Those that stay when a test ends."""
        return [lab.context for lab, _ in self._labs.values() if lab.context is not None]

    async def give_back(self, lab: PooledLab, *, is_sound: bool) -> None:
        """Makes a server ready for the next test; one of a test that failed ends."""
        if is_sound:
            await lab.reset()
        else:
            await self._end(next(key for key, (each, _) in self._labs.items() if each is lab))

    async def close(self) -> None:
        """Ends all servers."""
        for key in list(self._labs):
            await self._end(key)

    async def _start(self, collaboration: bool, config: str) -> tuple[PooledLab, AsyncExitStack]:
        self._count += 1
        folder = self._folder / str(self._count)
        settings = CONFIG.format(collaboration=collaboration, data=str(folder / "data"))
        settings += f"c.TkAIExtensionApp.chat_model = {MODEL!r}\n{config}"
        async with AsyncExitStack() as stack:
            # One for each server: the CLI of a server that was killed asks nobody else.
            model = SharedModel()
            await stack.enter_async_context(model.running())
            start = await stack.enter_async_context(servers(folder, pages=True))
            server = await start(config=settings, **model.environment)
            configure(server.home, collaboration=collaboration)
            return PooledLab(server, model), stack.pop_all()

    async def _end(self, key: Any) -> None:
        lab, stack = self._labs.pop(key)
        with suppress(PlaywrightError, TimeoutError):
            async with asyncio.timeout(CLOSE):
                if lab.context is not None:
                    await lab.context.close()
        await stack.aclose()


@asynccontextmanager
async def pool(folder: Path) -> AsyncGenerator[Pool]:
    """A pool, closed at the end."""
    made = Pool(folder)
    try:
        yield made
    finally:
        await made.close()
