"""A person at a real JupyterLab: server, kernel, SDK and CLI are real; only the model plays a script."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.browser.chromium import FLAGS, chromium
from tests.browser.lab import DEADLINE, Lab, configure, waits
from tests.servers import StartServer, start_server
from tk_ai_extension.agent.claude.sources import TAKEN
from tk_ai_extension.testing.scripted_model import MODEL, ScriptedModel

__all__ = ["start_server"]

# A busy machine is slow, and what is waited for comes all the same.
expect.set_options(timeout=DEADLINE)

OpenLab = Callable[..., Awaitable[Lab]]

CONFIG = """
c.ServerApp.jpserver_extensions.update({{
    "jupyterlab": True,
    "jupyter_server_fileid": {collaboration},
    "jupyter_server_ydoc": {collaboration},
}})
c.LabApp.expose_app_in_browser = True
c.LabApp.news_url = None
c.TkAIExtensionApp.chat_retries = 1
c.TkAIExtensionApp.data_dir = {data!r}
"""


@pytest.fixture(autouse=True)
def checks_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Playwright would wait for no more than the answer of an asynchronous function, whatever that is."""
    wait: Any = Page.wait_for_function

    def checked(page: Page, expression: str, **options: Any) -> Any:
        assert not expression.lstrip().startswith("async"), "use `evaluate` with `of_file`"
        return wait(page, expression, **options)

    monkeypatch.setattr(Page, "wait_for_function", checked)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """A browser of the test's own, on the test's own loop."""
    async with async_playwright() as playwright:
        found = chromium(Path(playwright.chromium.executable_path))
        browser = await playwright.chromium.launch(
            executable_path=found.path,
            args=FLAGS,
            env={**os.environ, **found.environment},
        )
        yield browser
        await browser.close()


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel().running() as model:
        yield model


@pytest.fixture
async def open_lab(
    start_server: StartServer, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> OpenLab:
    """Starts a server and a page for it; without a model, the tour answers."""
    for name in os.environ:
        if any(name.startswith(taken.removesuffix("*")) for taken in TAKEN if taken[0] in "AC"):
            monkeypatch.delenv(name)

    async def open_(
        model: ScriptedModel | None = None,
        *arguments: str,
        collaboration: bool = False,
        config: str = "",
        **context: object,
    ) -> Lab:
        said = CONFIG.format(collaboration=collaboration, data=str(tmp_path / "data"))
        if model is not None:
            said += f"c.TkAIExtensionApp.chat_model = {MODEL!r}\n"
        environment = dict(model.environment) if model is not None else {}
        server = await start_server(*arguments, config=said + config, **environment)
        configure(server.home, collaboration=collaboration)
        options = {"viewport": {"width": 1280, "height": 800}, **context}
        page = await (await browser.new_context(**options)).new_page()
        page.set_default_timeout(DEADLINE)
        await waits(page)
        return Lab(page, server)

    return open_


@pytest.fixture
async def lab(open_lab: OpenLab, model: ScriptedModel) -> Lab:
    """JupyterLab with the scripted model connected, its page not loaded yet."""
    return await open_lab(model)
