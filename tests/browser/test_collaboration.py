"""People and agents in one notebook with jupyter-collaboration, as the people see it."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import expect

from tests.browser.agents import NOTEBOOK, Agent, Open, gate, write_cells
from tests.browser.conftest import OpenLab
from tests.browser.lab import DEADLINE


@pytest.mark.proves("ext:presence")
async def test_an_agent_at_work_is_among_the_collaborators_and_at_its_cell(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab(collaboration=True)
    page, seen = lab.page, Open(lab)
    with gate(lab.server.root) as code:
        write_cells(lab.server.root, loads000="data = [1, 2, 3]", waits000=code)
        await lab.open(NOTEBOOK)
        await page.get_by_role("tab", name="Collaboration").click()
        online = page.locator(".jp-CollaboratorsList .jp-Collaborator")
        await expect(online).to_have_count(0)
        running = asyncio.create_task(Agent(lab)("execute_cell", cell="waits000"))
        await expect(online).to_have_count(1)
        await expect(online).to_contain_text("root")
        await expect(seen.cells.nth(1).locator(".jp-remote-cursor")).to_have_count(1)
        await expect(seen.cells.nth(0).locator(".jp-remote-cursor")).to_have_count(0)
    await running
    await expect(online).to_have_count(0, timeout=DEADLINE)
    await expect(seen.cells.nth(1).locator(".jp-remote-cursor")).to_have_count(0)
