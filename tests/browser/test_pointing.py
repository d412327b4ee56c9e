"""By @ a person points at what they see, by / they choose a prompt: with the keyboard alone."""

from __future__ import annotations

import shutil

import pytest
from playwright.async_api import expect

from tests.browser.axe import violations
from tests.browser.lab import Lab, pick, write_notebook
from tests.browser.open_notebook import opened
from tests.support.scripted_model import Answer, ScriptedModel

PANDAS = """
class List(list):
    def tolist(self): return list(self)
class Series(List):
    def __init__(self, values, dtype): list.__init__(self, values); self.dtype = dtype
class Places:
    def __init__(self, table): self.table = table
    def __getitem__(self, key): return Series(self.table.values[key[1]][:5], self.table.types[key[1]])
class DataFrame:
    dtypes = ()
    def __init__(self, names, types, values):
        self.names, self.types, self.values = names, types, values
    @property
    def shape(self): return (len(self.values[0]), len(self.names))
    def head(self, rows): assert rows == 5; return self
    def to_string(self, **options): return 'a table'
    iloc = property(Places)
    columns = property(lambda self: List(self.names))
    index = property(lambda self: List(range(min(5, self.shape[0]))))
"""
"""The part of pandas that the tools read of a table."""

TABLE = f"""\
module = {{"__name__": "pandas.core"}}
exec({PANDAS!r}, module)
sales = module["DataFrame"](["city", "n"], ["object", "int64"], [["Bern", "Ulm"], [3, 4]])"""


PROMPT = "---\ndescription: Review a cell\nargument-hint: [cell]\n---\nReview $1 twice."


@pytest.mark.proves("rest:chat", "ext:panel")
async def test_results_variables_selected_text_and_prompts_are_added_by_the_keyboard(
    lab: Lab, model: ScriptedModel
) -> None:
    write_notebook(lab.server.root / "a.ipynb", TABLE, "row = {}\nrow['price']")
    prompt = lab.server.root / ".claude" / "commands" / "zz-review.md"
    prompt.parent.mkdir(parents=True)
    prompt.write_text(PROMPT, encoding="utf-8")
    try:
        await opened(lab, "a.ipynb")
        await pointed_at(lab, model)
        await prompted(lab, model)
    finally:
        shutil.rmtree(lab.server.root / ".claude")


async def pointed_at(lab: Lab, model: ScriptedModel) -> None:
    """By @, a result, a variable and selected text are added to a message."""
    model.add(Answer.of("I see."))
    await lab.command("notebook:run-all-cells")
    await expect(lab.page.locator(".jp-Notebook")).to_contain_text("KeyError")
    editor = lab.page.locator(".jp-Notebook .cm-content").first
    await editor.click()
    await lab.page.keyboard.press("Control+Home")
    await lab.page.keyboard.press("Shift+End")
    await lab.show_panel()
    await lab.message_box.focus()
    goes = lab.panel.get_by_role("group", name="Included in the message")
    keyboard, suggestions = lab.page.keyboard, lab.panel.get_by_role("listbox", name="Suggestions")
    for word, label in (
        ("Sel", "Selection, line 1 of Cell 1"),
        ("Err", "Error of cell 2: KeyError"),
        ("sales", "sales"),
    ):
        await keyboard.type(f"@{word}")
        await expect(suggestions.get_by_role("option", name=label).first).to_be_visible()
        while not await suggestions.get_by_role("option", name=label, selected=True).count():
            await keyboard.press("ArrowDown")
        await keyboard.press("Enter")
        await expect(goes.get_by_role("button", name=f"Remove {label}")).to_be_visible()
    await keyboard.press("Enter")
    await expect(lab.log.get_by_text("I see.")).to_be_visible()
    seen = model.requests[-1].prompts[-1]
    assert "Attached selection, line 1 of cell @" in seen
    assert seen.count(TABLE.splitlines()[0]) > 1
    assert "KeyError: 'price'" in seen[seen.index("Attached error of cell @") :]
    assert "Attached variable sales: pandas.DataFrame" in seen
    await lab.panel.locator(".tk-Figures > summary").click()
    await expect(lab.panel.get_by_text("Last answer")).to_be_visible()
    assert await violations(lab.page, ".tk-Chat") == []


async def prompted(lab: Lab, model: ScriptedModel) -> None:
    """By /, a prompt is chosen and sent; **Chat setup** lists it."""
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
