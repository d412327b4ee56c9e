"""JupyterLab servers, each with one loaded page, that the tests of a worker use one after the other.

A server and a page take 3 and 4 seconds of processor time before a test begins. A test gets them as
if they were new: `PooledLab.reset` removes what the test before left, and checks that it is gone. What
cannot be removed from a page makes it load again; what cannot be removed from a server ends it.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
from playwright.async_api import Browser, BrowserContext, Page
from playwright.async_api import Error as PlaywrightError

from tests.browser.lab import DIALOG, LAUNCHED, VIEWPORT, Lab, configure, new_page
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
}})
c.LabApp.expose_app_in_browser = True
c.LabApp.news_url = None
c.TkAIExtensionApp.data_dir = {data!r}
"""

CLEAR = """
async () => {
  const { shell } = window.jupyterapp;
  const side = [...shell.widgets('right')].find(widget => widget.id === 'tk-ai-chat');
  for (const widget of [...shell.widgets('main')]) {
    widget.dispose();
  }
  side.controller.open(null);
  side.controller.choose({ mode: null, model: null });
  side.controller.change({ text: '', attached: [], withoutNotebook: false, withoutCell: false });
  side.controller.showHistory(false);
  shell.collapseRight();
  shell.activateById('filebrowser');
  document.activeElement?.blur();
}
"""
"""Closes what is open in the page."""

FORGET = """
() => {
  localStorage.clear();
  sessionStorage.clear();
  window.tkDialogs = [];
  window.tkUndisturbed = false;
}
"""

SEEN = """
() => {
  const { shell } = window.jupyterapp;
  const side = [...shell.widgets('right')].find(widget => widget.id === 'tk-ai-chat');
  const { state } = side.controller;
  return {
    main: [...shell.widgets('main')].map(widget => widget.id.replace(/-?[0-9]+$/, '')),
    left: [...shell.widgets('left')].filter(widget => widget.isVisible).map(({ id }) => id),
    right: [...shell.widgets('right')].filter(widget => widget.isVisible).map(({ id }) => id),
    panel: {
      compose: state.compose, mode: state.mode, model: state.model, refused: state.refused,
      showsHistory: state.showsHistory, chat: side.controller.chat.id
    },
    theme: document.body.dataset.jpThemeName,
    dialogs: document.querySelectorAll('.jp-Dialog').length,
    alerts: document.querySelectorAll('.Toastify__toast').length,
    questions: document.querySelectorAll('.tk-Question').length
  };
}
"""
"""What a person would see of tests before, and what the panel keeps."""

STORED = "cookies,file_systems,indexeddb,local_storage,service_workers,websql"
"""What a page stores besides its cache."""

DISMISS = "() => window.jupyterapp.commands.execute('apputils:dismiss-notification', {})"
"""Takes messages from the screen, such as that about a kernel that has ended."""

SETTLED = f"""
dialog => document.querySelector(dialog) !== null
  || (({LAUNCHED})() && document.querySelector('.Toastify__toast') === null)
"""
"""Whether nothing but the launcher is open, or a dialog that no test expects."""

WIDTH = "() => document.querySelector('#jp-right-stack')?.clientWidth ?? 0"


class SharedModel(ScriptedModel):
    """What a shared server knows as its model: each test's own model answers there.

    Attributes:
        current: The model of the test that uses the server; without one the script has ended.
    """

    current: ScriptedModel | None = None

    def reply(self, request: MessagesRequest) -> Reply:
        """The next turn of the test's script."""
        return super().reply(request) if self.current is None else self.current.reply(request)


@dataclass
class PooledLab:
    """A server and a page for it.

    Attributes:
        server: The server.
        model: The server's model.
        page: The page; None until a test needs it, and where it cannot serve another test.
    """

    server: ServerProcess
    model: SharedModel
    page: Page | None = None
    _context: BrowserContext | None = None
    _listeners: dict[Any, list[Any]] = field(default_factory=dict[Any, list[Any]])
    _first: Any = None
    _is_loaded: bool = False
    _width: int = 0
    _is_usual: bool = True
    _count: int = 0

    async def lab(
        self, browser: Browser, model: ScriptedModel | None, *, fresh: bool, **options: Any
    ) -> Lab:
        """The page as a test gets it.

        Args:
            browser: The worker's.
            model: The test's.
            fresh: Whether the test needs to load the page itself.
            options: Of the page's context, where it is to be another one than most tests have.
        """
        self.model.current = model
        if options:
            await self.close_page()
        elif fresh:
            await self._leave()
        if self.page is None or self.page.is_closed():
            await self._new_page(browser, options)
        assert self.page is not None
        if not (self._is_loaded or options or fresh):
            await Lab(self.page, self.server).open()
            self._first = await self.page.evaluate(SEEN)
            self._width = 0
            self._is_loaded = True
        self._is_usual = not options
        return Lab(self.page, self.server, is_loaded=self._is_loaded)

    @property
    def contexts(self) -> list[BrowserContext]:
        """Those that stay when a test ends."""
        return [self._context] if self._context is not None else []

    async def close_page(self) -> None:
        """Closes the page; the next test gets another one."""
        context, self._context, self.page, self._is_loaded = self._context, None, None, False
        if context is not None:
            await context.close()

    async def reset(self) -> None:
        """Removes what a test has left.

        Raises:
            AssertionError: something is left.
        """
        self._count += 1
        self.model.current = None
        try:
            await self._release_page()
            # A test that loaded the page itself leaves it to the next one, if it is known how one looks.
            self._is_loaded = self._first is not None and await self._clear_page()
        except PlaywrightError:
            self._is_loaded = False
        if not self._is_loaded:
            await self._leave()
        await self._clear_server()
        if self._is_loaded and not await self._looks_new():
            await self._leave()

    async def _new_page(self, browser: Browser, options: dict[str, Any]) -> None:
        self.page = page = await new_page(browser, **options)
        self._context = page.context
        emitter = page._impl_obj
        self._listeners = {name: emitter.listeners(name) for name in emitter.event_names()}
        self._forget_on_disk()

    def _forget_on_disk(self) -> None:
        # A workspace of a page before would open what was open there.
        shutil.rmtree(self.server.home / "config" / "lab" / "workspaces", ignore_errors=True)
        shutil.rmtree(self.server.home / "config" / "lab" / "user-settings", ignore_errors=True)

    async def _leave(self) -> None:
        """Leaves JupyterLab and forgets what the page stored.

        To load JupyterLab again in the same page takes half the processor time of another page: its
        scripts are compiled.
        """
        page, context, self._is_loaded = self.page, self._context, False
        if page is None or context is None:
            return
        if page.is_closed() or not self._is_usual:
            await self.close_page()
            return
        try:
            # A page of the server without scripts.
            await page.goto(f"{self.server.url}api")
            await page.set_viewport_size(VIEWPORT)
            await page.evaluate("() => sessionStorage.clear()")
            await context.clear_cookies()
            await context.clear_permissions()
            session = await context.new_cdp_session(page)
            await session.send(
                "Storage.clearDataForOrigin",
                {"origin": self.server.url.rstrip("/"), "storageTypes": STORED},
            )
            await session.detach()
        except PlaywrightError:
            await self.close_page()
        self._forget_on_disk()

    async def _release_page(self) -> None:
        """Takes from the page what a test has put on it, and closes other pages."""
        page, context = self.page, self._context
        if page is None or context is None or page.is_closed():
            return
        for other in context.pages:
            if other is not page:
                await other.close()
        await context.set_offline(offline=False)
        await context.unroute_all()
        await page.unroute_all()
        emitter = page._impl_obj
        for name in emitter.event_names():
            for listener in emitter.listeners(name):
                if listener not in self._listeners.get(name, []):
                    emitter.remove_listener(name, listener)

    async def _clear_page(self) -> bool:
        """Whether the page is one that the next test can have."""
        page = self.page
        if page is None or page.is_closed():
            return False
        is_ours = page.url.startswith(f"{self.server.url}lab")
        settings = self.server.home / "config" / "lab" / "user-settings"
        for theme in settings.rglob("themes.jupyterlab-settings"):
            # Tests return to the first one, or the page does not look as it did.
            theme.unlink()
        if not (is_ours and self._is_usual) or any(settings.rglob("*.jupyterlab-settings")):
            return False
        if page.viewport_size != VIEWPORT:
            await page.set_viewport_size(VIEWPORT)
        width = await page.evaluate(WIDTH)
        if width and self._width and abs(width - self._width) > 3:
            return False
        self._width = self._width or width
        await page.evaluate(CLEAR)
        return True

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
            for path in root.glob("*.ipynb"):
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

    async def _looks_new(self) -> bool:
        """Whether the page shows nothing of what was done in it."""
        assert self.page is not None
        try:
            await self.page.evaluate(DISMISS)
            await self.page.wait_for_function(SETTLED, arg=DIALOG, timeout=5_000)
            await self.page.evaluate(FORGET)
            return bool(await self.page.evaluate(SEEN) == self._first)
        except PlaywrightError:
            return False


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
        return [context for lab, _ in self._labs.values() for context in lab.contexts]

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
                await lab.close_page()
        await stack.aclose()


@asynccontextmanager
async def pool(folder: Path) -> AsyncGenerator[Pool]:
    """A pool, closed at the end."""
    made = Pool(folder)
    try:
        yield made
    finally:
        await made.close()
