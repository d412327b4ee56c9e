"""An open notebook shows each output of an agent's cell once and in its place, whatever the cell prints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.browser.conftest import OpenLab
from tests.browser.lab import write_notebook
from tests.browser.open_notebook import BOTH, call, in_file, opened, saved

SOURCE = r"""
import sys, time
from IPython.display import clear_output, display, update_display
def show(text, name, function=display):
    function({"text/plain": text}, raw=True, display_id=name)
    time.sleep(0.05)
print("cleared")
clear_output()
print(1, flush=True)
print(2, file=sys.stderr, flush=True)
for done in (10, 50, 99):
    print(f"\r{done:3}%", end="", flush=True)
    time.sleep(0.05)
show("first", "a")
show("second", "b")
print(3, flush=True)
show("now first", "a", update_display)
print(4, file=sys.stderr, flush=True)
show("now second", "b", update_display)
print(5, flush=True)
"""
SHOWN = [
    ["stdout", "1\n"],
    ["stderr", "2\n"],
    ["stdout", " 99%"],
    ["display", "now first"],
    ["display", "now second"],
    ["stdout", "3\n"],
    ["stderr", "4\n"],
    ["stdout", "5\n"],
]
OUTPUTS = """
const of = outputs => JSON.stringify(outputs.map(output =>
  [output.name ?? 'display', [output.text ?? output.data['text/plain']].flat().join('')]));
"""
# What JupyterLab has of the outputs, what it shows, and what is in the shared document.
SHOWS_ALL = f"""
wanted => {{
  {OUTPUTS}
  const {{ content }} = window.jupyterapp.shell.currentWidget;
  const {{ outputs, sharedModel }} = content.model.cells.get(0);
  const shown = content.widgets[0].node.querySelectorAll('.jp-OutputArea-output');
  const texts = JSON.stringify([...shown].map(output => output.textContent.trimEnd()));
  return of(outputs.toJSON()) === wanted && of(sharedModel.getOutputs()) === wanted
    && texts === JSON.stringify(JSON.parse(wanted).map(([, text]) => text.trimEnd()));
}}
"""


def are_stored(cells: list[Any]) -> bool:
    """Whether the first cell of a file has the outputs."""
    shown = [
        [output.get("name", "display"), output.get("text") or output.data["text/plain"]]
        for output in cells[0].outputs
    ]
    return shown == SHOWN


@BOTH
@pytest.mark.proves("ext:rtc")
async def test_an_open_notebook_shows_each_output_once_and_in_its_place(
    open_lab: OpenLab, collaboration: bool
) -> None:
    lab = await open_lab(collaboration=collaboration)
    wanted = json.dumps(SHOWN, separators=(",", ":"))
    write_notebook(lab.server.root / "n.ipynb", SOURCE)
    page = await opened(lab, "n.ipynb")
    ran = await call(lab, "execute_cell", notebook="n.ipynb", cell=0, wait=55)
    assert ran["status"] == "ok"
    await page.wait_for_function(SHOWS_ALL, arg=wanted)
    await saved(lab, "n.ipynb", [SOURCE])
    await in_file(lab, "n.ipynb", are_stored)
