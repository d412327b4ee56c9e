"""Verification from the notebook's toolbar, with links to the cells that fail."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.browser.agents import NOTEBOOK, Open, write_cells
from tests.browser.conftest import OpenLab

CELLS = {
    "loads000": "data = [1, 2, 3]",
    "sums0000": "total = sum(data)\ntotal",
    "prints00": "print(missing)",
}

FAILS = f"{NOTEBOOK} fails at cell 3"

ACTIVE = re.compile(r"\bjp-mod-active\b")


@pytest.mark.proves("verify:run")
async def test_what_is_on_the_screen_is_verified_and_the_cells_are_a_click_away(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab(None, collaboration=False)
    write_cells(lab.server.root, **CELLS)
    await lab.open(NOTEBOOK)
    seen, page = Open(lab), lab.page
    await seen.cells.nth(2).wait_for()
    await seen.run(0)
    await seen.run(1)
    await expect(seen.cells.nth(1)).to_contain_text("6")
    # A change that may not be saved yet counts, too.
    await seen.cells.nth(0).locator(".cm-content").click()
    await page.keyboard.press("Control+a")
    await page.keyboard.type("data = [4]")
    button = seen.toolbar.get_by_role("button", name="Check: run from the top")
    await button.click()
    # The result does not take the focus while the person types.
    note = page.get_by_role("alert").filter(has_text=FAILS)
    await note.wait_for()
    await expect(seen.cells.nth(0).locator(".cm-content")).to_be_focused()
    await note.get_by_role("button", name="Show").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text(FAILS)
    await expect(dialog.get_by_role("button", name="Cell 2 has other outputs")).to_be_visible()
    await expect(dialog.get_by_role("deletion").first).to_have_text("6")
    await expect(dialog.get_by_role("insertion").first).to_have_text("4")
    failed = dialog.get_by_role("button", name="Cell 3 failed")
    await expect(failed).to_contain_text("NameError: name 'missing' is not defined")
    await failed.click()
    await expect(dialog).to_have_count(0)
    await expect(seen.cells.nth(2)).to_have_class(ACTIVE)

    await seen.cells.nth(2).locator(".cm-content").click()
    await page.keyboard.press("Control+a")
    await page.keyboard.type("import time; time.sleep(600)")
    await page.keyboard.press("Control+Alt+V")
    stop = page.get_by_role("button", name="Stop", exact=True)
    await stop.click()
    await expect(
        page.get_by_text(f"The run of {NOTEBOOK} from the top was stopped.")
    ).to_be_visible()
