"""JupyterLab behind a real JupyterHub, in a browser: login, panel, chat, and another user's server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.async_api import async_playwright, expect

from tests.browser.chromium import FLAGS, chromium
from tests.hub.hubs import PASSWORD, running_hub

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

SHOWN = 60_000
"""Timeout for a page to show what is expected, in milliseconds."""


@pytest.mark.proves("hub:tokens")
async def test_a_user_logs_in_and_chats_in_the_panel_and_sees_no_other_server(
    tmp_path: Path,
) -> None:
    async with (
        running_hub(tmp_path, {"alice": "", "bob": ""}, pages=True) as hub,
        async_playwright() as playwright,
    ):
        await hub.start_server("alice")
        await hub.start_server("bob")
        found = chromium(Path(playwright.chromium.executable_path))
        browser = await playwright.chromium.launch(
            executable_path=found.path, args=FLAGS, env={**os.environ, **found.environment}
        )
        expect.set_options(timeout=SHOWN)
        page = await browser.new_page()
        page.set_default_timeout(SHOWN)
        await page.goto(f"{hub.server('bob')}lab")
        await page.get_by_label("Username").fill("bob")
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Sign in").click()
        await page.locator('[data-id="tk-ai-chat"]').click()
        message = page.get_by_role("textbox", name="Message", exact=True)
        await message.fill("hello")
        await message.press("Enter")
        # The answer comes over the page's channel, through the proxy.
        await expect(page.get_by_text("No model is connected to this server yet")).to_be_visible()
        answer = await page.goto(f"{hub.server('alice')}api/tk-ai/health")
        assert answer is not None
        assert answer.status in {401, 403, 404}
        await browser.close()
