"""What a person runs in a page goes on in the notebook when the page is gone, and is shown once."""

from __future__ import annotations

import os
from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser.conftest import OpenLab
from tests.browser.lab import page_of, write_notebook
from tests.browser.open_notebook import (
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

NOTEBOOK = "n.ipynb"
PIPE = "lines"
CODE = f"""\
print(0, flush=True)
for line in open('{PIPE}'):
    print(line, end='', flush=True)"""
"""A run that lasts until the test closes the pipe, and prints each line that the test writes."""
ENDED = ["[1]:", "[2]:", "[3]:", "[ ]:"]


def lines(count: int) -> str:
    """What the cell has printed after so many lines."""
    return "".join(f"{number}\n" for number in range(count))


def has_printed(count: int) -> Any:
    """The check of a file's cells for so many lines."""
    return lambda cells: "".join(each.text for each in cells[0].outputs) == lines(count)


@BOTH
@pytest.mark.proves("fault:tab-lost", "ext:rtc", "exec:saved")
async def test_a_run_goes_on_without_its_page_and_is_shown_once(
    open_lab: OpenLab, collaboration: bool
) -> None:
    lab = await open_lab(collaboration=collaboration)
    cells = CODE, "print('queued')", "1 / 0", "print('dropped')"
    write_notebook(lab.server.root / NOTEBOOK, *cells)
    pipe = lab.server.root / PIPE
    os.mkfifo(pipe)
    page = await opened(lab, NOTEBOOK)
    await page.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    await page.wait_for_function(SHOWS, arg=[0, lines(1)])
    with pipe.open("w", buffering=1) as run:
        # It goes on when its page is closed, and another page shows it.
        await page.close()
        run.write("1\n2\n")
        await in_file(lab, NOTEBOOK, has_printed(3))
        async with Network.to(lab.server.url) as network:
            page = lab.page = await page_of(page.context)
            await page.goto(f"{network.url}lab/tree/{NOTEBOOK}?token={lab.server.token}")
            await shown(page, NOTEBOOK)
            await page.wait_for_function(SHOWS, arg=[0, lines(3)])
            prompts = page.locator(".jp-Notebook .jp-Cell .jp-InputPrompt")
            await expect(prompts.first).to_have_text("[*]:")
            assert "running" in str(await call(lab, "list_cells", notebook=NOTEBOOK))
            run.write("3\n")
            await page.wait_for_function(SHOWS, arg=[0, lines(4)])

            # A page that was away for a moment shows each line once.
            await network.fails()
            network.works()
            run.write("4\n")
            await page.wait_for_function(SHOWS, arg=[0, lines(5)])

            # So does one that was away while lines were printed.
            await network.fails()
            run.write("5\n")
            await in_file(lab, NOTEBOOK, has_printed(6))
            network.works()
            await page.wait_for_function(SHOWS, arg=[0, lines(6)])

            # And one that was away when the run ended.
            await network.fails()
            run.write("6\n")
            run.close()
            await has_run(lab, NOTEBOOK, 0, lines(7), 1)
            await has_run(lab, NOTEBOOK, 1, "queued\n", 2)
            network.works()
            await page.wait_for_function(SHOWS, arg=[0, lines(7)])
            await expect(prompts).to_have_text(ENDED)
            await save(lab)
            await has_run(lab, NOTEBOOK, 0, lines(7), 1)
            assert await page.get_by_text("File Changed").count() == 0

            # It is a notebook like any other, also for the next page.
            await page.reload()
            await shown(page, NOTEBOOK)
            await page.wait_for_function(SHOWS, arg=[0, lines(7)])
            await expect(prompts).to_have_text(ENDED)
