"""Pictures for the documentation, which tests take on request.

`make pictures` runs these tests and renews `docs/images`.
"""

from __future__ import annotations

import os
from pathlib import Path

from playwright.async_api import Locator, Page

from tests.browser.lab import armed

THEMES = {"": "JupyterLab Light", "-dark": "JupyterLab Dark"}
"""The theme of a picture by the end of its file's name."""

SET_THEME = """
async name => {
  const app = window.jupyterapp;
  await app.commands.execute('apputils:change-theme', { theme: name });
  while (document.body.dataset.jpThemeName !== name) {
    await new Promise(done => requestAnimationFrame(done));
  }
}
"""


async def picture(
    page: Page, name: str, of: Locator | None = None, *, question: Locator | None = None
) -> None:
    """Take a picture of the page, where `PICTURES` names a folder for it.

    It is taken in the light theme (``NAME.png``) and in the dark one (``NAME-dark.png``); the page is
    in the light theme afterwards.

    Args:
        page: JupyterLab or Notebook 7, with its app exposed.
        name: Name of the file, without its suffix.
        of: The part of the page to show; all of it where left out.
        question: A request for approval in it. Another theme moves it, and its buttons are disabled
            until it was in its place for a moment.
    """
    folder = os.environ.get("PICTURES")
    if not folder:
        return
    # The light theme comes last: the test goes on in it.
    for suffix, theme in reversed(THEMES.items()):
        await page.evaluate(SET_THEME, theme)
        if question is not None:
            await armed(question)
        path = Path(folder) / f"{name}{suffix}.png"
        await (of or page).screenshot(path=path, animations="disabled")
