"""axe-core: the automatic checks of accessibility."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Page

from tests.browser.lab import Lab
from tests.proofs import ROOT

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"

_RUN = """
async selector => {
  const { violations } = await axe.run(selector, {
    runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
    // Of what is right it need not describe each element.
    resultTypes: ['violations']
  });
  return violations.map(({ id, help, nodes }) => ({
    id, help, nodes: nodes.map(node => node.html + ' ' + node.failureSummary)
  }));
}
"""


async def violations(page: Page, selector: str) -> list[dict[str, Any]]:
    """What axe finds wrong in a part of the page, with the elements that it means."""
    if not await page.evaluate("() => 'axe' in window"):
        await page.add_script_tag(path=AXE)
    return await page.evaluate(_RUN, selector)


async def panel_violations(lab: Lab) -> list[dict[str, Any]]:
    """What axe finds wrong in the panel, in the light and in the dark theme."""
    found: list[dict[str, Any]] = []
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        await lab.theme(theme)
        found += await violations(lab.page, ".tk-Chat")
    return found
