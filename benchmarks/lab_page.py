"""A real JupyterLab in a real browser: a server of its own, and a page with the panel open."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from family import Options
from playwright.async_api import Browser, Page, async_playwright
from serving import Server, own_folders, server_command, serving

# The browser is the one of the tests.
from tests.browser.chromium import FLAGS, chromium
from tests.support.scripted_model import MODEL

SHOW_PANEL = """
async () => {
  const app = window.jupyterapp;
  await app.started;
  await app.restored;
  await app.commands.execute('tk-ai:show-panel');
}
"""


@dataclass(frozen=True, slots=True)
class LabPage:
    """A page with JupyterLab.

    Attributes:
        page: As Playwright drives it.
        browser: That it is in.
        server: Behind it.
        folder: The server's folders of configuration and data are in it.
    """

    page: Page
    browser: Browser
    server: Server
    folder: Path

    async def load(self) -> None:
        """Loads JupyterLab again, and opens the panel."""
        await self.page.goto(f"{self.server.url}lab?token={self.server.token}&reset")
        await self.page.wait_for_function("() => window.jupyterapp !== undefined")
        await self.page.evaluate(SHOW_PANEL)
        await self.page.get_by_role("textbox", name="Message", exact=True).wait_for()


@asynccontextmanager
async def lab_page(
    options: Options, data: Path, model: Mapping[str, str]
) -> AsyncGenerator[LabPage]:
    """JupyterLab with the extension, open in a browser, inside the block.

    Args:
        options: Of the family.
        data: The server's folder of chats.
        model: What the environment of one who asks the model has to hold.
    """
    root, folder = options.new_folder("root"), options.new_folder("lab")
    own = own_folders(folder)
    environment = {**os.environ, **own, **model}
    del environment["JUPYTER_NO_CONFIG"]
    quiet = folder / "config" / "labconfig"
    quiet.mkdir()
    disabled = {"@jupyterlab/apputils-extension:announcements": True}
    (quiet / "page_config.json").write_text(json.dumps({"disabledExtensions": disabled}))
    command = server_command(
        root,
        "--ServerApp.jpserver_extensions=jupyterlab=True",
        "--ServerApp.jpserver_extensions=jupyter_server_ydoc=False",
        "--LabApp.expose_app_in_browser=True",
        f"--TkAIExtensionApp.data_dir={data}",
        f"--TkAIExtensionApp.chat_model={MODEL}",
    )
    async with (
        serving(command, folder, environment, folder / "server.log") as server,
        async_playwright() as playwright,
    ):
        found = chromium(Path(playwright.chromium.executable_path))
        browser = await playwright.chromium.launch(
            executable_path=found.path, args=FLAGS, env={**os.environ, **found.environment}
        )
        page = await browser.new_page(viewport={"width": 1280, "height": 800})
        yield LabPage(page, browser, server, folder)
        await browser.close()
