"""Code as a person types, in the page and at the model."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab, write_notebook
from tests.browser.open_notebook import HAS, opened, types
from tests.browser.pictures import picture
from tk_ai_extension.testing.scripted_model import (
    UNAUTHORIZED,
    Answer,
    Hang,
    MessagesRequest,
    ScriptedModel,
)

NOTEBOOK = "sales.ipynb"
LOADED = "import pandas as pd\n\nsales = pd.read_csv('sales.csv')"
CELLS = ".jp-Notebook .jp-WindowedPanel-viewport"


def said(request: MessagesRequest) -> str:
    """The last message of a request."""
    return str(request.messages[-1]["content"])


async def open_notebook(lab: Lab, *sources: str) -> None:
    """Opens a notebook with these cells and its kernel."""
    write_notebook(lab.server.root / NOTEBOOK, *sources)
    await opened(lab, NOTEBOOK)


@pytest.mark.proves("code:ghost")
async def test_ghost_text_comes_on_request_and_is_taken_with_tab(
    open_lab: OpenLab, model: ScriptedModel
) -> None:
    lab = await open_lab(model)
    page, keys = lab.page, lab.page.keyboard
    await open_notebook(lab, LOADED, "")
    ghost = page.locator(".jp-GhostText")
    await types(page, 1, "monthly = sales.gro")
    model.add(Answer.of("<tk-insert>upby('month').sum()"))
    await keys.press("Alt+Backslash")
    await expect(ghost).to_have_text("upby('month').sum()")
    # Typing alone has asked for nothing: that is a setting, since it costs money.
    (request,) = model.requests
    assert "monthly = sales.gro<tk-cursor/>" in said(request)
    assert LOADED in said(request)
    await picture(page, "ghost-text", page.locator(CELLS))
    await keys.press("Tab")
    await page.wait_for_function(HAS, arg=[LOADED, "monthly = sales.groupby('month').sum()"])

    # A request ends with the next key.
    hang = Hang()
    model.add(hang)
    await keys.type("\nmonthly.pl")
    await keys.press("Alt+Backslash")
    await model.requested(2)
    await keys.type("o")
    await hang.gone.wait()
    await expect(ghost).to_have_count(0)

    # What cannot be completed is said, as the person has asked.
    model.add(UNAUTHORIZED)
    await keys.press("Alt+Backslash")
    alert = page.locator(".Toastify__toast")
    await expect(alert).to_contain_text("No completion: The provider refused the key (401)")
    await alert.get_by_title("Hide notification").click()
    await expect(alert).to_have_count(0)
