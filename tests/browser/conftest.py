"""A person at a real JupyterLab: server, kernel, SDK and CLI are real; only the model plays a script."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Playwright, async_playwright, expect
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeout

from tests.browser.chromium import FLAGS, chromium
from tests.browser.lab import (
    DEADLINE,
    Lab,
    configure,
    new_page,
)
from tests.browser.open_notebook import CELLS
from tests.browser.pool import CONFIG, Pool, PooledLab, pool
from tests.servers import StartServer, servers
from tests.support.scripted_model import MODEL, ScriptedModel
from tk_ai_extension.agent.claude.providers import TAKEN
from tk_ai_extension.agent.launch_settings import NETWORK, matches

# A busy machine is slow.
expect.set_options(timeout=DEADLINE)

shared = partial(pytest_asyncio.fixture, loop_scope="session")
"""A fixture on the loop that all tests with a browser share: the browser lives on it."""

OpenLab = Callable[..., Awaitable[Lab]]

PASSED = pytest.StashKey[bool]()

CLOSE = 10
"""Timeout for a browser to close, in seconds."""

POLLING = 50
"""Milliseconds between two looks at what a test waits for in a page."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests of this folder on one loop."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether a test has passed: servers and pages of a failed one are not used again."""
    report = yield
    if call.when == "call":
        item.stash[PASSED] = report.passed
    return report


@pytest.fixture(autouse=True)
def checked_predicates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse async predicates, of which Playwright takes the promise for a true value.

    Where a predicate stays false, the error lists the kernel and cells of the page, or its text.
    """
    wait: Any = Page.wait_for_function

    async def checked(page: Page, expression: str, **options: Any) -> Any:
        assert not expression.lstrip().startswith("async"), "use `evaluate`"
        try:
            # Playwright would ask with each frame, and the browser would make frames for that alone.
            return await wait(page, expression, **{"polling": POLLING, **options})
        except PlaywrightTimeout as error:
            with suppress(PlaywrightError):
                error.add_note(f"The page: {await page.evaluate(CELLS)}")
            raise

    monkeypatch.setattr(Page, "wait_for_function", checked)


class Chromium:
    """One browser for all tests of a worker; started again where it has ended."""

    def __init__(self, playwright: Playwright) -> None:
        self._type = playwright.chromium
        self._environment = dict(os.environ)
        self._browser: Browser | None = None

    async def running(self) -> Browser:
        """The browser."""
        if self._browser is None or not self._browser.is_connected():
            found = chromium(Path(self._type.executable_path))
            self._browser = await self._type.launch(
                executable_path=found.path,
                args=FLAGS,
                env={**self._environment, **found.environment},
            )
        return self._browser

    async def close(self) -> None:
        """Ends it; one that does not answer ends with Playwright's driver."""
        if self._browser is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE):
                    await self._browser.close()


@shared(scope="session")
async def worker_browser() -> AsyncIterator[Chromium]:
    """The worker's browser, not started before a test needs it."""
    async with async_playwright() as playwright:
        browser = Chromium(playwright)
        yield browser
        await browser.close()


@shared(scope="session")
async def lab_pool(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pool]:
    """The servers that tests share."""
    async with pool(tmp_path_factory.mktemp("labs")) as labs:
        yield labs


@shared
async def browser(worker_browser: Chromium, lab_pool: Pool) -> AsyncIterator[Browser]:
    """The worker's browser; what a test opens in it is closed with the test."""
    browser = await worker_browser.running()
    yield browser
    for context in browser.contexts:
        if context not in lab_pool.contexts:
            await context.close()


@shared
async def model() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel().running() as model:
        yield model


@shared
async def start_server(tmp_path: Path) -> AsyncIterator[StartServer]:
    """Starts servers that end with the test."""
    async with servers(tmp_path, pages=True) as start:
        yield start


@shared
async def open_lab(
    *,
    request: pytest.FixtureRequest,
    start_server: StartServer,
    browser: Browser,
    lab_pool: Pool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[OpenLab]:
    """Gives a page that is not loaded yet and its server, most often that of the test before, reset.

    With `own`, the server is the test's alone; without a model, the tour answers there. Other keywords
    are those of its page's context.
    """
    for name in os.environ:
        if matches(name, TAKEN) and not matches(name, NETWORK):
            monkeypatch.delenv(name)
    used: list[PooledLab] = []

    async def open_(
        model: ScriptedModel | None = None,
        *,
        collaboration: bool = False,
        config: str = "",
        own: bool = False,
        **context: Any,
    ) -> Lab:
        if not own:
            pooled = await lab_pool.get(collaboration=collaboration, config=config)
            used.append(pooled)
            return await pooled.lab(browser, model)
        settings = CONFIG.format(collaboration=collaboration, data=str(tmp_path / "data"))
        if model is not None:
            settings += f"c.TkAIExtensionApp.chat_model = {MODEL!r}\n"
        environment = dict(model.environment) if model is not None else {}
        server = await start_server(config=settings + config, **environment)
        configure(server.home, collaboration=collaboration)
        return Lab(await new_page(browser, **context), server)

    yield open_
    is_sound = request.node.stash.get(PASSED, False)
    for pooled in used:
        await lab_pool.give_back(pooled, is_sound=is_sound)


@shared
async def lab(open_lab: OpenLab, model: ScriptedModel) -> Lab:
    """JupyterLab with the scripted model connected, its page not loaded yet."""
    return await open_lab(model)
