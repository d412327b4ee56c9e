"""`%tk` in a real JupyterLab: the answer below the cell, the question in it, and nothing that runs."""

from __future__ import annotations

import asyncio
import json

import pytest
from playwright.async_api import Request, expect

from tests.browser.agents import Open
from tests.browser.conftest import OpenLab
from tests.browser.lab import DEADLINE, Lab, write_notebook
from tk_ai_extension.testing.scripted_model import Answer, Held, ScriptedModel, ToolUse

HOSTILE = """\
**Done.** <img src=x onerror="window.tkRan = 1"> <script>window.tkRan = 2</script>
![tracked](http://tracker.invalid/pixel.png) and [a link](javascript:window.tkRan=3)

```
<img src=x onerror="window.tkRan = 4">
```
"""
COUNTED = "**One**, two, three, four, five, six, seven, eight, nine, ten."


def run_cells_in_the_page(lab: Lab) -> None:
    """Has JupyterLab run cells itself, as it does without jupyter_server_nbmodel."""
    file = lab.server.home / "config" / "labconfig" / "page_config.json"
    config = json.loads(file.read_text())
    config["disabledExtensions"]["@datalayer/jupyter-server-nbmodel"] = True
    file.write_text(json.dumps(config))


@pytest.mark.proves("ext:magics")
async def test_a_person_asks_from_a_cell_answers_a_question_and_nothing_of_the_answer_runs(
    open_lab: OpenLab, model: ScriptedModel
) -> None:
    lab = await open_lab(model)
    sources = ("%load_ext tk_ai_extension.magics", "%tk Set x, will you?")
    write_notebook(lab.server.root / "a.ipynb", *sources)
    model.add(Answer.of(ToolUse("insert_cell", {"source": "x = 1"})), Answer.of(HOSTILE))
    requested: list[str] = []

    def note(request: Request) -> None:
        requested.append(request.url)

    lab.page.on("request", note)
    await lab.open("a.ipynb")
    seen = Open(lab)
    await seen.run(0)
    await seen.run(1)
    output = seen.cells.nth(1).locator(".jp-Cell-outputArea")
    await expect(output).to_contain_text("+x = 1")
    box = output.locator(".jp-Stdin-input")
    await box.fill("yes")
    await box.press("Enter")
    await expect(output.locator("strong", has_text="Done.")).to_be_visible()
    await expect(output).to_contain_text("tkRan = 4")
    assert await output.locator("img, script, a[href^='javascript']").count() == 0
    assert await lab.page.evaluate("window.tkRan === undefined")
    assert not any("tracker.invalid" in url for url in requested)
    await expect(seen.cells).to_have_count(3)


@pytest.mark.proves("ext:magics")
async def test_an_answer_grows_below_the_cell_and_an_interrupt_ends_it(
    open_lab: OpenLab, model: ScriptedModel
) -> None:
    lab = await open_lab(model, own=True)
    run_cells_in_the_page(lab)
    write_notebook(lab.server.root / "a.ipynb", "%load_ext tk_ai_extension.magics", "%tk Count.")
    held = Held(Answer.of(COUNTED), after=3)
    model.add(held)
    await lab.open("a.ipynb")
    seen = Open(lab)
    await seen.run(0)
    await seen.run(1)
    output = seen.cells.nth(1).locator(".jp-Cell-outputArea")
    await expect(output.locator("strong", has_text="One")).to_be_visible()
    await lab.command("notebook:interrupt-kernel")
    await expect(output).to_contain_text("tk: stopped.")
    async with asyncio.timeout(DEADLINE / 1000):
        await held.gone.wait()
    await expect(output).not_to_contain_text("ten")
