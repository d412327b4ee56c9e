"""The panel in every theme, narrow and wide, zoomed and idle: nothing is cut, axe finds nothing."""

from __future__ import annotations

from contextlib import suppress

import httpx2
import pytest
from playwright.async_api import TimeoutError as PlaywrightTimeout
from playwright.async_api import expect

from tests.browser.axe import violations
from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab, write_notebook
from tests.support.scripted_model import (
    Answer,
    Failure,
    ScriptedModel,
    Thinking,
    ToolUse,
)

THEMES = {
    "light": "JupyterLab Light",
    "dark": "JupyterLab Dark",
    "contrast": "JupyterLab Dark High Contrast",
}
ASKS = "c.TkAIExtensionApp.mode_cap = 'ask'\n"
NARROW, WIDE = 260, 800
"""Pixels."""

NOTEBOOK = "sales_of_each_representative_by_region_and_month_with_all_corrections.ipynb"
"""A name that is longer than the panel is wide, without a place where it could be broken."""

PLOT = """\
%matplotlib inline
import matplotlib.pyplot as plt
plt.figure(figsize=(4, 1.6))
plt.bar(["North", "South", "East", "West"], [412, 388, 371, 240])
plt.show()"""
ANSWER = """\
Prices fell by **12 %** in the [west](https://example.org): $\\bar x = \\frac{1}{n} \\sum_i x_i$.

```python
sales_by_region = sales.groupby("region", as_index=False).agg(total=("price", "sum"))
```

| region | total | representative | measured_quantity | comments |
| --- | ---: | --- | --- | --- |
| north | 412 | Anne-Marie Bartholomew | kilowatthours | incomplete |
| west | 240 | Bartholomew Anderson | kilowatthours | extraordinarily warm |

```mermaid
graph LR
  north --> total
  west --> total
```

1. `north` is first
2. a_name_that_is_longer_than_the_panel_is_wide_and_has_no_place_where_it_could_be_broken
"""

CUT = """
() => {
  const panel = document.querySelector('.tk-Panel:not(.lm-mod-hidden)');
  const edges = panel.getBoundingClientRect();
  const found = [];
  for (const node of [panel, ...panel.querySelectorAll('*')]) {
    if (!node.checkVisibility() || node.closest('svg, mjx-container, .tk-Announced')) {
      continue;
    }
    const style = getComputedStyle(node);
    const name = node.tagName + '.' + node.className;
    // What is scrolled by itself, or ends with dots, shows what it has in another way.
    const scrolls = ['auto', 'scroll'].includes(style.overflowX) && !node.matches('.tk-Log');
    const dotted = style.textOverflow === 'ellipsis';
    if (style.display !== 'inline' && !scrolls && !dotted && node.scrollWidth > node.clientWidth + 1) {
      found.push(`${name}: ${node.scrollWidth} in ${node.clientWidth}`);
    }
    const { left, right, width, top, bottom } = node.getBoundingClientRect();
    if (node.matches('button, select, textarea, input') &&
        !node.closest('.tk-Log, .tk-Asked, .tk-Chips, .tk-Completions, .tk-History-list') &&
        (top < edges.top - 1 || bottom > Math.min(edges.bottom, innerHeight) + 1)) {
      found.push(`${name}: from ${top} down to ${bottom}`);
    }
    if (node.matches('button, select, textarea, summary, input') &&
        (width < 12 || left < edges.left - 1 || right > edges.right + 1)) {
      found.push(`${name}: from ${left} to ${right}`);
    }
    if (node.matches('button') && !node.checkVisibility({ opacityProperty: true })) {
      found.push(`${name}: hidden until a pointer is there`);
    }
    // A word in a table that has several boxes is broken.
    for (const text of node.matches('td, th') ? node.childNodes : []) {
      for (const word of text.textContent.matchAll(/\\w+/g)) {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        if (range.getClientRects().length > 1) {
          found.push(`${name}: breaks ${word[0]}`);
        }
      }
    }
  }
  return found;
}
"""
"""What is wider than the place that it has, or beyond the panel's edges."""

RUNNING = """
() => document.querySelector('.tk-Log > *').insertAdjacentHTML(
  'afterbegin', '<span class="tk-Status tk-mod-running"></span>')
"""
"""Shows the dot of a call that runs."""

SEEN = """
() => {
  const panel = document.querySelector('.tk-Panel:not(.lm-mod-hidden)');
  const background = node => getComputedStyle(node).backgroundColor;
  const differs = node => background(node) !== background(panel);
  const outlined = node => getComputedStyle(node).outlineStyle === 'solid';
  const all = selector => [...panel.querySelectorAll(selector)];
  return {
    running: all('.tk-Status.tk-mod-running').map(differs),
    chosen: all('.tk-Completion').map(node => [node.ariaSelected === 'true', outlined(node)]),
    triangles: all('.tk-Call summary').slice(0, 1).map(summary => {
      const { clipPath, backgroundColor, borderTopWidth } = getComputedStyle(summary, '::before');
      const isSeen = backgroundColor !== background(panel);
      return [clipPath !== 'none', isSeen, borderTopWidth];
    })
  };
}
"""
"""What has to differ by more than a background."""

FILES = """
box => {
  const files = new DataTransfer();
  const picture = [137, 80, 78, 71, 13, 10, 26, 10];
  for (let number = 0; number < 12; number++) {
    const name = `plot_of_all_representatives_of_the_region_${number}.png`;
    files.items.add(new File([new Uint8Array(picture)], name, { type: 'image/png' }));
  }
  const name = 'a_report_with_a_name_that_is_longer_than_the_panel_is_wide.pdf';
  files.items.add(new File(['%PDF'], name, { type: 'application/pdf' }));
  box.dispatchEvent(new ClipboardEvent('paste', { clipboardData: files, bubbles: true }));
}
"""
"""Pastes pictures, and a file that cannot be attached."""

ANIMATED = """
() => document.getAnimations().filter(each => each.effect.target.closest('.tk-Panel')).length
"""


async def with_everything(lab: Lab, model: ScriptedModel) -> None:
    """A chat with all that a panel shows at once."""
    write_notebook(lab.server.root / NOTEBOOK, "prices = [3, 4, 5]", "prices")
    insert = ToolUse("insert_cell", {"source": "total = sum(prices)", "index": 1})
    model.add(
        Answer.of("First I would add a cell with the sum, then plot it."),
        Failure(402, "billing_error", "Your credit balance is too low."),
        Answer.of(Thinking("The west, then."), ANSWER, ToolUse("list_cells")),
        Answer.of(ToolUse("read_cell", {"cell": "nowhere"})),
        Answer.of(ToolUse("execute_ipython", {"code": PLOT})),
        Answer.of(insert),
        Answer.of("That is all."),
        Answer.of(
            "Now the mean.", ToolUse("insert_and_execute_cell", {"source": PLOT, "index": 2})
        ),
    )
    await lab.open(NOTEBOOK)
    await lab.show_panel()
    await lab.mode.select_option("plan")
    await lab.say("How would you go about it?")
    await expect(lab.log.get_by_text("This is a plan. Nothing was changed.")).to_be_visible()
    await lab.say("And what of the prices in the west?")
    await expect(lab.log.get_by_role("alert")).to_be_visible()
    await lab.mode.select_option("auto")
    await lab.say("Show me prices by region.")
    await expect(lab.log.get_by_text("That is all.")).to_be_visible()
    await expect(lab.log.locator("img.tk-Picture")).to_be_visible()
    diagram = lab.log.locator(".jp-RenderedMermaid img")
    await expect(diagram).to_be_visible()
    assert await diagram.evaluate("image => image.decode().then(() => image.naturalWidth > 0)")
    open_all = "all => all.forEach(each => (each.open = true))"
    await lab.log.locator("details").evaluate_all(open_all)
    await lab.mode.select_option("ask")
    await lab.say("And the mean?")
    question = lab.panel.get_by_role("group", name=f"Run this in {NOTEBOOK}?")
    await expect(question).to_be_visible()
    await lab.say("Then save it.")
    await expect(lab.log.get_by_text("Queued")).to_be_visible()
    await lab.message_box.press_sequentially("Look at @")
    await expect(lab.panel.get_by_role("listbox", name="Suggestions")).to_be_visible()


async def resize(lab: Lab, width: int) -> None:
    """Drags the panel's edge until it is so wide, again where the layout was not at rest."""
    while not await _resized(lab, width):
        pass


async def _resized(lab: Lab, width: int) -> bool:
    side = lab.page.locator("#jp-right-stack")
    handle = lab.page.locator("#jp-main-split-panel > .lm-SplitPanel-handle:visible").last
    box, edge = await side.bounding_box(), await handle.bounding_box()
    assert box is not None
    assert edge is not None
    x, y = edge["x"] + edge["width"] / 2, edge["y"] + edge["height"] / 2
    await lab.page.mouse.move(x, y)
    await lab.page.mouse.down()
    await lab.page.mouse.move(x + box["width"] - width, y, steps=4)
    await lab.page.mouse.up()
    with suppress(PlaywrightTimeout):
        await lab.page.wait_for_function(
            "([node, width]) => Math.abs(node.clientWidth - width) <= 3",
            arg=[await side.element_handle(), width],
            timeout=5_000,
        )
        return True
    return False


async def looks_right(lab: Lab, theme: str, name: str = "everything") -> None:
    """In a theme nothing is cut, narrow or wide, and axe finds nothing wrong."""
    await lab.theme(THEMES[theme])
    # It covers the page while the theme changes.
    await expect(lab.page.locator("#jupyterlab-splash")).to_have_count(0)
    for width in (NARROW, WIDE):
        await resize(lab, width)
        # Completions are there for who writes.
        await lab.message_box.focus()
        assert await lab.page.evaluate(CUT) == [], f"{theme}: {name} at {width} pixels"
    assert await violations(lab.page, ".tk-Chat") == [], f"{theme}: {name}"


@pytest.mark.timeout(240)
async def test_every_state_is_right_in_every_theme_narrow_and_wide_zoomed_and_at_rest(
    lab: Lab, model: ScriptedModel
) -> None:
    await with_everything(lab, model)
    await lab.page.evaluate(RUNNING)
    await lab.page.wait_for_function(f"() => ({ANIMATED.strip()})() > 1")
    await lab.page.emulate_media(reduced_motion="reduce")
    assert await lab.page.evaluate(ANIMATED) == 0
    await lab.page.emulate_media(reduced_motion="no-preference", forced_colors="active")
    seen = await lab.page.evaluate(SEEN)
    assert seen["running"] == [True]
    assert [True, True] in seen["chosen"]
    assert all(is_chosen == is_outlined for is_chosen, is_outlined in seen["chosen"])
    assert seen["triangles"] == [[True, True, "0px"]]
    await lab.page.emulate_media(forced_colors="none")
    for theme in THEMES:
        await looks_right(lab, theme)

    # A window of 1280 by 800 pixels at 200 %.
    await lab.command("application:toggle-left-area")
    session = await lab.page.context.new_cdp_session(lab.page)
    zoomed = {"width": 640, "height": 400, "deviceScaleFactor": 2, "mobile": False}
    await session.send("Emulation.setDeviceMetricsOverride", zoomed)
    await lab.page.wait_for_function("() => innerWidth === 640 && devicePixelRatio === 2")
    await resize(lab, NARROW)
    assert await lab.page.evaluate(CUT) == []
    await session.send("Emulation.clearDeviceMetricsOverride")
    await lab.page.wait_for_function("() => innerWidth === 1280")

    last = list(THEMES)[-1]
    await lab.panel.get_by_role("button", name="History").click()
    await expect(lab.panel.get_by_role("region", name="History")).to_be_visible()
    await looks_right(lab, last, "history")
    await lab.panel.get_by_title("New chat", exact=True).click()
    await looks_right(lab, last, "empty")


async def test_the_bar_stays_in_a_small_window_whatever_is_asked_attached_and_written(
    open_lab: OpenLab, model: ScriptedModel
) -> None:
    lab = await open_lab(model, config=ASKS)
    write_notebook(lab.server.root / NOTEBOOK, "prices = [3, 4, 5]")
    await lab.open(NOTEBOOK)
    await lab.show_panel()
    await lab.command("application:toggle-left-area")
    await lab.page.set_viewport_size({"width": 640, "height": 400})
    await resize(lab, NARROW)
    async with httpx2.AsyncClient(headers=lab.server.headers, timeout=60) as http:
        address = f"{lab.server.url}api/tk-ai/tools/insert_and_execute_cell?caller=agent"
        asked = await http.post(address, json={"notebook": NOTEBOOK, "source": PLOT, "index": 1})
    assert asked.json()["error"]["code"] == "permission_required"
    await expect(lab.panel.get_by_role("group", name=f"Run this in {NOTEBOOK}?")).to_be_visible()
    assert await lab.page.evaluate(CUT) == []
    await lab.message_box.evaluate(FILES)
    await expect(lab.panel.get_by_role("button", name="Dismiss")).to_be_visible()
    await lab.message_box.fill("\n".join("One more line." for _ in range(12)))
    await expect(lab.panel.get_by_role("button", name="Send")).to_be_enabled()
    assert await lab.page.evaluate(CUT) == []


async def test_the_panel_is_wide_enough_for_a_diff_when_it_is_shown_first(
    open_lab: OpenLab, model: ScriptedModel
) -> None:
    lab = await open_lab(model, fresh=True)
    await lab.open()
    await lab.show_panel()
    side = lab.page.locator("#jp-right-stack")
    await lab.page.wait_for_function(
        "node => node.clientWidth >= 390", arg=await side.element_handle()
    )
    # From then on the width is the person's.
    await resize(lab, NARROW)
    await lab.page.get_by_role("tab", name="Claude").click()
    await expect(side).to_be_hidden()
    await lab.page.get_by_role("tab", name="Claude").click()
    await lab.message_box.wait_for()
    assert await side.evaluate("node => node.clientWidth") < 390
