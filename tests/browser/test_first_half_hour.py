"""A person's first half hour with the panel: what they see, as text and pictures for the documentation."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.agents import KERNEL
from tests.browser.conftest import OpenLab, shared
from tests.browser.lab import Lab, answer, write_notebook
from tests.browser.pictures import picture
from tests.support.scripted_model import Answer, ScriptedModel, ToolUse, Usage

CELLS = (
    'months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun"]\nsales = [412, 388, 95, 402, 431, 447]',
    "days = [31, 28, 7, 30, 31, 30]",
    "sum(sales) / len(sales)",
)
PLOT = """\
%matplotlib inline
import matplotlib.pyplot as plt

plt.figure(figsize=(5, 2.2))
plt.bar(months, [s / d for s, d in zip(sales, days)])
plt.ylabel("sales a day")
plt.show()"""
LOOKS = "I'll look at how March was counted."
FOUND = "March has only **7 days**. Sales *a day* are comparable; this plots them."
ANSWER = """\
March is no worse than the others: $95 / 7 = 13.6$ a day, where January has $412 / 31 = 13.3$.

To compare months, divide by their days:

```python
per_day = [s / d for s, d in zip(sales, days)]
```"""
PLAN = """\
1. Add a cell that divides sales by days.
2. Take the mean of that instead of the sums.
3. Say in a note that March is incomplete."""
USED = Usage(1830, 212)


@shared
async def lab(open_lab: OpenLab, model: ScriptedModel) -> Lab:
    """JupyterLab with the notebook, as large as a picture of it should be."""
    lab = await open_lab(model, viewport={"width": 1100, "height": 680}, device_scale_factor=1.5)
    write_notebook(lab.server.root / "sales.ipynb", *CELLS)
    await lab.open("sales.ipynb")
    await lab.page.wait_for_function(KERNEL)
    await lab.command("application:toggle-left-area")
    await lab.show_panel()
    await widen(lab, 400)
    await lab.command("notebook:run-all-cells")
    await expect(lab.page.locator(".jp-OutputArea-output")).to_contain_text("362.5")
    return lab


async def widen(lab: Lab, width: int) -> None:
    """Drags the panel's edge until it is so wide."""
    side = await lab.page.locator("#jp-right-stack").bounding_box()
    handle = lab.page.locator("#jp-main-split-panel > .lm-SplitPanel-handle:visible").last
    edge = await handle.bounding_box()
    assert side is not None
    assert edge is not None
    await lab.page.mouse.move(edge["x"] + edge["width"] / 2, 300)
    await lab.page.mouse.down()
    await lab.page.mouse.move(edge["x"] + edge["width"] / 2 + side["width"] - width, 300, steps=4)
    await lab.page.mouse.up()


# Other tests prove each part of it.
@pytest.mark.soak
@pytest.mark.real_cli
async def test_a_first_half_hour_with_the_panel(lab: Lab, model: ScriptedModel) -> None:
    await expect(lab.log.get_by_role("button", name="Explain this notebook")).to_be_visible()
    await picture(lab.page, "first-sight")
    await finds_every_chat(lab, model)
    await gets_a_plan(lab, model)
    await asks_and_finds_the_answer_in_the_notebook(lab, model)


async def finds_every_chat(lab: Lab, model: ScriptedModel) -> None:
    """Chats about several things, which are in the history."""
    for message in ("Why is March so low?", "Explain this notebook", "Plot sales by month"):
        model.add(Answer.of("Done.", usage=USED))
        await lab.panel.get_by_title("New chat", exact=True).click()
        await lab.say(message)
        await expect(lab.log.get_by_text("Done.")).to_be_visible()
    await lab.panel.get_by_role("button", name="History").click()
    entries = lab.panel.get_by_role("region", name="History").get_by_role("listitem")
    await expect(entries).to_have_count(3)
    await entries.nth(1).hover()
    await picture(lab.page, "history", lab.panel)


async def gets_a_plan(lab: Lab, model: ScriptedModel) -> None:
    """Gets a plan, which waits for approval."""
    model.add(Answer.of(ToolUse("read_notebook")), Answer.of(PLAN, usage=USED))
    await lab.panel.get_by_title("New chat", exact=True).click()
    await lab.mode.select_option("plan")
    await lab.say("Make the months comparable.")
    await expect(lab.log.get_by_role("button", name="Approve", exact=True)).to_be_visible()
    await picture(lab.page, "plan", lab.panel)


async def asks_and_finds_the_answer_in_the_notebook(lab: Lab, model: ScriptedModel) -> None:
    """Asks, approves what is to run, and reads the answer."""
    model.add(
        Answer.of(LOOKS, ToolUse("read_notebook")),
        Answer.of(FOUND, ToolUse("insert_and_execute_cell", {"source": PLOT, "index": 3})),
        Answer.of(ANSWER, usage=USED),
    )
    await lab.panel.get_by_title("New chat", exact=True).click()
    await lab.say("Why is March so low?")
    question = lab.panel.get_by_role("group", name="Run this in sales.ipynb?")
    await expect(question).to_contain_text("plt.bar(months")
    await picture(lab.page, "question", question=question)

    await answer(question, "Approve")
    await expect(lab.log.get_by_text("March is no worse")).to_be_visible()
    await expect(lab.page.locator(".jp-OutputArea-output img")).to_be_visible()
    await lab.page.mouse.move(1, 1)
    await picture(lab.page, "answer")
