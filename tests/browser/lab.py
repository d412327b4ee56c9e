"""A person's JupyterLab: a page in a browser, and what they see and do in it."""

from __future__ import annotations

import asyncio
import json
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from playwright.async_api import Browser, BrowserContext, Locator, Page, ViewportSize, expect

from tests.servers import ServerProcess

DEADLINE = 30_000
"""Timeout of a person's waits, in milliseconds."""

VIEWPORT: ViewportSize = {"width": 1280, "height": 800}
"""The size of a page in most tests."""

DIALOG = ".jp-Dialog"

UNUSED = (
    *("celltags", "csvviewer", "debugger", "extensionmanager", "help", "htmlviewer", "hub"),
    *("imageviewer", "javascript", "logconsole", "lsp", "pdf", "terminal", "vega5", "workspaces"),
)
"""JupyterLab's extensions that no test uses: a page loads in a quarter less processor time without them."""

READY = """
async () => {
  const app = window.jupyterapp;
  await app.started;
  await app.restored;
  return app.commands.hasCommand('tk-ai:show-panel');
}
"""


async def armed(question: Locator) -> None:
    """Wait until a question was on the screen for long enough to be answered."""
    await expect(question.get_by_role("button", name="Approve", exact=True)).to_be_enabled()


async def pick(button: Locator, item: str) -> None:
    """Choose an item of a button's menu."""
    await button.click()
    await button.page.get_by_role("menuitem", name=item, exact=True).click()


async def answer(question: Locator, button: str) -> None:
    """Press a button of a question, again where it moved: such a click counts for nothing."""
    found = question.get_by_role("button", name=button, exact=True)
    node = await found.element_handle()
    assert node is not None
    while True:
        # It can be answered only where it is seen, and a click that has to wait scrolls it away.
        await node.scroll_into_view_if_needed()
        await expect(found).to_be_enabled()
        await node.click()
        # An answer that counts gives the focus back to the message.
        if not await node.evaluate("node => node === document.activeElement"):
            return


WATCH_DIALOGS = """
window.tkDialogs = [];
new MutationObserver(changes => {
  for (const change of changes) {
    for (const node of change.addedNodes) {
      if (node.classList?.contains('jp-Dialog')) {
        window.tkDialogs.push(node.innerText);
      }
    }
  }
}).observe(document, { childList: true, subtree: true });
"""
"""Notes every dialog, also one that comes late or goes by itself."""

SLOW_LOADING = "taking some time to load"


async def nothing_asked(page: Page) -> None:
    """Nothing has been asked since the page was loaded."""
    shown = await page.evaluate("() => window.tkDialogs")
    assert [text for text in shown if SLOW_LOADING not in text] == []


LAUNCHED = "() => window.jupyterapp.shell.currentWidget?.id.startsWith('launcher')"


async def waits(page: Page) -> None:
    """Waits on where collaboration asks: it does so after five seconds, which a busy machine needs."""
    dialog = page.locator(DIALOG, has_text=SLOW_LOADING)
    wait = dialog.get_by_role("button", name="Continue waiting")
    await page.add_locator_handler(dialog, wait.click)


async def new_context(browser: Browser, **options: Any) -> BrowserContext:
    """A context of pages that note dialogs."""
    context = await browser.new_context(viewport=VIEWPORT, **options)
    await context.add_init_script(WATCH_DIALOGS)
    return context


async def new_page(browser: Browser, **options: Any) -> Page:
    """A page in a separate context."""
    return await page_of(await new_context(browser, **options))


async def page_of(context: BrowserContext) -> Page:
    """A page that waits when JupyterLab asks."""
    page = await context.new_page()
    page.set_default_timeout(DEADLINE)
    await waits(page)
    return page


@dataclass
class Lab:
    """A page with JupyterLab, and the server behind it."""

    page: Page
    server: ServerProcess

    async def open(self, path: str = "") -> None:
        """Loads JupyterLab, with a notebook of the root folder where one is named."""
        tree = f"/tree/{path}" if path else ""
        await self.page.goto(f"{self.server.url}lab{tree}?token={self.server.token}")
        await self.ready()
        if path:
            await self.page.locator(".jp-Notebook .jp-Cell").first.wait_for()
        else:
            # The launcher takes the focus when it comes, and it comes after the rest.
            await self.page.wait_for_function(LAUNCHED)

    async def ready(self) -> None:
        """Waits until JupyterLab has started with the extension."""
        await self.page.wait_for_function("() => window.jupyterapp !== undefined")
        assert await self.page.evaluate(READY)

    async def command(self, name: str, **arguments: Any) -> Any:
        """Runs a command of JupyterLab's.

        Raises:
            AssertionError: it did not end. Where JupyterLab asks something, the message has the question.
        """
        call = "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => null)"
        try:
            async with asyncio.timeout(DEADLINE / 1000):
                return await self.page.evaluate(call, [name, arguments])
        except TimeoutError:
            asked = await self.page.locator(DIALOG).all_inner_texts()
            raise AssertionError(f"{name} does not end; JupyterLab asks: {asked}") from None

    async def show_panel(self) -> None:
        """Opens the panel as a person does: by its tab, where it is not open yet."""
        if not await self.panel.is_visible():
            await self.page.get_by_role("tab", name="Claude").click()
        await self.message_box.wait_for()

    @property
    def panel(self) -> Locator:
        """The panel."""
        return self.page.locator(".tk-Chat:visible").first

    @property
    def message_box(self) -> Locator:
        """Where a person writes."""
        return self.panel.get_by_role("textbox", name="Message", exact=True)

    @property
    def log(self) -> Locator:
        """The transcript."""
        return self.panel.get_by_role("log", name="Chat", exact=True)

    @property
    def mode(self) -> Locator:
        """Where the permission mode is chosen."""
        return self.panel.get_by_label("Mode", exact=True)

    async def say(self, text: str) -> None:
        """Writes a message and sends it by the Enter key."""
        await self.message_box.fill(text)
        await self.message_box.press("Enter")

    def notebook(self, path: str) -> Any:
        """A notebook as it is on disk."""
        return nbformat.read(self.server.root / path, as_version=4)

    async def theme(self, name: str) -> None:
        """Changes the theme."""
        await self.command("apputils:change-theme", theme=name)
        selector = f'body[data-jp-theme-name="{name}"]'
        await self.page.wait_for_selector(selector, state="attached")


def write_notebook(path: Path, *sources: str, kernel: str = "python3") -> None:
    """Writes a notebook of code cells, as JupyterLab writes it: opening it changes nothing."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in sources],
        metadata={
            "kernelspec": {
                "display_name": "Python 3 (ipykernel)",
                "language": "python",
                "name": kernel,
            },
            "language_info": {
                "codemirror_mode": {"name": "ipython", "version": 3},
                "file_extension": ".py",
                "mimetype": "text/x-python",
                "name": "python",
                "nbconvert_exporter": "python",
                "pygments_lexer": "ipython3",
                "version": platform.python_version(),
            },
        },
    )
    nbformat.write(notebook, path)


def configure(home: Path, *, collaboration: bool) -> None:
    """Says which of JupyterLab's extensions run: no announcements, and collaboration where it is wanted.

    `make versions` loads JupyterLab with all that it has.
    """
    disabled = {
        "@jupyterlab/apputils-extension:announcements": True,
        # Notebook 7's buttons in JupyterLab, which not everybody has.
        "@jupyter-notebook/lab-extension": True,
        "@jupyter/collaboration-extension": not collaboration,
        "@jupyter/docprovider-extension": not collaboration,
        # Without the extra `stack`, whose page replaces both, the page itself sends cells to the kernel.
        "@datalayer/jupyter-server-nbmodel": True,
        "@jupyter/docprovider-extension:notebook-cell-executor": not collaboration,
        "@jupyterlab/notebook-extension:cell-executor": collaboration,
        # Collaboration puts its own in its place.
        "@jupyterlab/filebrowser-extension:defaultFileBrowser": collaboration,
        **{f"@jupyterlab/{name}-extension": True for name in UNUSED},
    }
    folder = home / "config" / "labconfig"
    folder.mkdir()
    (folder / "page_config.json").write_text(json.dumps({"disabledExtensions": disabled}))
