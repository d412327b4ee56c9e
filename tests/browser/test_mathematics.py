"""Mathematics loads nothing: MathJax makes its elements after the rest was sanitized."""

from __future__ import annotations

import pytest

from tests.browser.agents import NOTEBOOK, write_cells
from tests.browser.conftest import OpenLab

AWAY = "elsewhere.invalid"

STYLES = """
away => {
  const found = [];
  const names = [...getComputedStyle(document.body), 'background', 'list-style', 'mask', 'border-image'];
  for (const name of names.filter(each => !each.startsWith('--'))) {
    const address = `http://${away}/${name}`;
    for (const image of [`url(${address})`, `image-set("${address}" 1x)`, `\\\\75rl(${address})`]) {
      for (const value of [image, `${image}, auto`]) {
        if (CSS.supports(name, value)) {
          found.push(`${name}: ${value}`);
        }
      }
    }
  }
  return found;
}
"""
"""Every style by which this browser loads something."""

ATTRIBUTES = (
    r"\style{%s}{x}",
    r"\bbox[%s]{x}",
    r"\unicode[x; %s]{65}",
    r"\class{%s}{x}",
    r"\cssId{%s}{x}",
    r"\color{x; %s}{x}",
    r"\def\a#1{\style{#1}{x}}\a{%s}",
    r"\enclose{box}[mathbackground='x; %s']{x}",
    *(
        rf"\mmlToken{{mi}}[{name}='x; %s']{{x}}"
        for name in ("style", "fontfamily", "fontsize", "mathcolor", "mathbackground", "mathsize")
    ),
)
"""The macros that put a text into an attribute."""

IMAGE = rf"\mmlToken{{mglyph}}[src='http://{AWAY}/glyph.png']{{}}"
LINK = rf"\href{{http://{AWAY}/link}}{{x}}"

TYPESET = """
async ([formulas, away]) => {
  const { latexTypesetter } = window.jupyterapp.shell.currentWidget.content.rendermime;
  const host = document.createElement('div');
  host.style = 'position: fixed; inset: 0; z-index: 10000';
  for (const formula of formulas) {
    host.append(Object.assign(document.createElement('p'), { textContent: `$${formula}$` }));
  }
  document.body.append(host);
  await latexTypesetter.typeset(host);
  // A style is applied with the next frame, and what it loads is requested then.
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  const found = [...host.querySelectorAll('mjx-container *')].flatMap(each =>
    each.getAttributeNames()
      .filter(name => !/^(href|title|data-.*)$/.test(name))
      .map(name => `${name}="${each.getAttribute(name)}"`)
      .filter(attribute => attribute.includes(away)));
  const links = host.querySelectorAll('a').length;
  const typeset = host.querySelectorAll('mjx-container').length;
  host.remove();
  return { found, links, typeset };
}
"""


@pytest.mark.proves("threat:html")
async def test_no_style_or_image_of_a_formula_loads_anything(open_lab: OpenLab) -> None:
    lab = await open_lab()
    write_cells(lab.server.root, first000="1")
    await lab.open(NOTEBOOK)
    page = lab.page
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    styles: list[str] = await page.evaluate(STYLES, AWAY)
    assert {"cursor", "background-image", "mask"} <= {each.split(":")[0] for each in styles}
    formulas = [each % style for each in ATTRIBUTES for style in styles]
    made = await page.evaluate(TYPESET, [[*formulas, IMAGE, LINK], AWAY])
    assert made == {"found": [], "links": 1, "typeset": len(formulas) + 2}
    assert [url for url in requested if AWAY in url] == []
