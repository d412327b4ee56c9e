"""What a person runs in a page goes on in the notebook when the page is gone, and is shown once."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab, new_page, write_notebook
from tests.browser.open_notebook import (
    BEGINS,
    BOTH,
    SHOWS,
    Network,
    call,
    has_run,
    in_file,
    opened,
    save,
    shown,
)

CODE = """\
import time
for i in range({count}):
    print(i, flush=True)
    time.sleep(0.5)"""
PROMPT = ".jp-Notebook .jp-Cell .jp-InputPrompt"


def lines(count: int) -> str:
    """What the cell prints."""
    return "".join(f"{number}\n" for number in range(count))


async def runs(lab: Lab, page: Page) -> None:
    """A person runs all cells, and sees the first line."""
    lab.page = page
    await page.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    await page.wait_for_function(BEGINS, arg=[0, "0\n"])


async def begin(open_lab: OpenLab, *sources: str, collaboration: bool = False) -> tuple[Lab, Page]:
    """JupyterLab and a second browser."""
    lab = await open_lab(collaboration=collaboration, own=True)
    write_notebook(lab.server.root / "n.ipynb", *sources)
    browser = lab.page.context.browser
    assert browser is not None
    return lab, await new_page(browser)


@BOTH
@pytest.mark.proves("fault:tab-lost", "ext:rtc", "exec:saved")
async def test_a_cell_goes_on_when_its_page_is_closed_and_other_pages_show_it_once(
    open_lab: OpenLab, collaboration: bool
) -> None:
    cells = CODE.format(count=50), "print('queued')", "1 / 0", "print('dropped')"
    lab, other = await begin(open_lab, *cells, collaboration=collaboration)
    page = await opened(lab, "n.ipynb", lab.page)
    await runs(lab, page)
    await page.close()

    page = lab.page = await opened(lab, "n.ipynb", other)
    await page.wait_for_function(BEGINS, arg=[0, "0\n1\n2\n"])
    prompts = page.locator(PROMPT)
    await expect(prompts.first).to_have_text("[*]:")
    assert "running" in str(await call(lab, "list_cells", notebook="n.ipynb"))
    await page.wait_for_function(SHOWS, arg=[0, lines(50)])
    await expect(prompts).to_have_text(["[1]:", "[2]:", "[3]:", "[ ]:"])
    await has_run(lab, "n.ipynb", 0, lines(50), 1)
    await has_run(lab, "n.ipynb", 1, "queued\n", 2)

    # It is a notebook like any other, also after the end and for the next page.
    await page.reload()
    await shown(page, "n.ipynb")
    await page.wait_for_function(SHOWS, arg=[0, lines(50)])
    await expect(prompts).to_have_text(["[1]:", "[2]:", "[3]:", "[ ]:"])


@asynccontextmanager
async def running(open_lab: OpenLab, count: int) -> AsyncGenerator[tuple[Lab, Page, Network]]:
    """A person runs a cell in a page with a connection that a test can cut."""
    lab, other = await begin(open_lab, CODE.format(count=count))
    await other.close()
    async with Network.to(lab.server.url) as network:
        page = lab.page
        await page.goto(f"{network.url}lab/tree/n.ipynb?token={lab.server.token}")
        await shown(page, "n.ipynb")
        await runs(lab, page)
        yield lab, page, network


@pytest.mark.parametrize("away", [0, 9], ids=["moment", "while"])
@pytest.mark.proves("fault:tab-lost", "ext:rtc")
async def test_a_page_that_comes_back_shows_each_line_once(open_lab: OpenLab, away: int) -> None:
    async with running(open_lab, 50) as (lab, page, network):
        await network.fails()
        if away:
            await in_file(lab, "n.ipynb", lambda cells: len(cells[0].outputs) > 0)
        network.works()
        await page.wait_for_function(SHOWS, arg=[0, lines(50)])
        await expect(page.locator(PROMPT).first).to_have_text("[1]:")
        await save(lab)
        await has_run(lab, "n.ipynb", 0, lines(50), 1)
        await page.wait_for_function(SHOWS, arg=[0, lines(50)])
        assert await page.get_by_text("File Changed").count() == 0


@pytest.mark.proves("fault:tab-lost", "ext:rtc")
async def test_a_run_that_ended_while_its_page_was_away_is_there_when_it_is_back(
    open_lab: OpenLab,
) -> None:
    async with running(open_lab, 20) as (lab, page, network):
        await network.fails()
        await has_run(lab, "n.ipynb", 0, lines(20), 1)
        network.works()
        await page.wait_for_function(SHOWS, arg=[0, lines(20)])
        await expect(page.locator(PROMPT).first).to_have_text("[1]:")
        await save(lab)
        await has_run(lab, "n.ipynb", 0, lines(20), 1)
