"""Pictures for the documentation, which tests make on the way where they are asked to.

``PICTURES=docs/images make test`` renews them.
"""

from __future__ import annotations

import os
from pathlib import Path

from playwright.async_api import Locator, Page


async def picture(page: Page, name: str, of: Locator | None = None) -> None:
    """Takes a picture of the page, where `PICTURES` names a folder for it.

    Args:
        page: The page.
        name: Of the file, without its suffix.
        of: A part of the page that is all that matters.
    """
    folder = os.environ.get("PICTURES")
    if folder:
        path = Path(folder) / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        await (of or page).screenshot(path=path, animations="disabled")
