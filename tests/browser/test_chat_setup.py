"""A project prompt in the message box, and the dialog **Chat setup**."""

from __future__ import annotations

import shutil

import pytest
from playwright.async_api import expect

from tests.browser.conftest import OpenLab
from tests.browser.lab import pick, write_notebook
from tests.support.scripted_model import Answer, ScriptedModel


@pytest.mark.proves("rest:chat", "ext:panel")
async def test_a_prompt_is_chosen_sent_and_listed(open_lab: OpenLab, model: ScriptedModel) -> None:
    lab = await open_lab(model)
    write_notebook(lab.server.root / "sales.ipynb", "first = 1")
    prompt = lab.server.root / ".claude" / "commands" / "zz-review.md"
    prompt.parent.mkdir(parents=True)
    prompt.write_text(
        "---\ndescription: Review a cell\nargument-hint: [cell]\n---\nReview $1 twice.",
        encoding="utf-8",
    )
    try:
        await lab.open("sales.ipynb")
        await lab.show_panel()
        await lab.message_box.click()
        await lab.page.keyboard.type("/zz-r")
        option = lab.panel.get_by_role("option", name="/zz-review")
        await expect(option).to_contain_text("[cell] · Review a cell")
        await lab.page.keyboard.press("Enter")
        await expect(lab.message_box).to_have_value("/zz-review ")
        model.add(Answer.of("Reviewed."))
        await lab.page.keyboard.type("cell-0")
        await lab.page.keyboard.press("Enter")
        await expect(lab.log.get_by_text("Reviewed.")).to_be_visible()
        await expect(lab.log.get_by_text("Review cell-0 twice.")).to_be_visible()

        await pick(lab.panel.get_by_role("button", name="Settings"), "Chat setup…")
        dialog = lab.page.get_by_role("dialog")
        await expect(dialog.get_by_role("region", name="Prompts")).to_contain_text("/zz-review")
        await expect(dialog.get_by_role("region", name="MCP servers")).to_contain_text("mcp.json")
        await lab.page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
    finally:
        shutil.rmtree(lab.server.root / ".claude")
