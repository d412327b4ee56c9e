"""An open notebook shows each output of an agent's cell once and in its place, whatever the cell prints."""

from __future__ import annotations

import json
from random import Random

import pytest

from tests.browser.conftest import OpenLab
from tests.browser.lab import write_notebook
from tests.browser.open_notebook import BOTH, call, of_file, opened, saved

STEPS = 40
START = """\
import sys, time
from IPython.display import clear_output, display, update_display
def show(text, function=display, **more):
    function({"text/plain": text}, raw=True, display_id=more["id"])
"""
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

STORED = of_file("wanted", f"(() => {{ {OUTPUTS} return of(cells[0].outputs); }})() === wanted")


class Story:
    """Statements that print at random, and the outputs that the cell has after each."""

    def __init__(self, seed: int) -> None:
        self.lines = [START]
        self.outputs: list[list[str]] = []
        self._displays: dict[str, int] = {}
        self._random = Random(seed)
        steps = (self.print, self.print, self.warn, self.progress)
        steps = (*steps, self.show, self.show, self.update, self.clear)
        for number in range(STEPS):
            self._random.choice(steps)(number)
            self.lines.append(f"time.sleep({self._random.choice((0, 0, 0.03, 0.07))})")

    @property
    def source(self) -> str:
        return "\n".join(self.lines)

    def _stream(self, name: str) -> list[str]:
        if not self.outputs or self.outputs[-1][0] != name:
            self.outputs.append([name, ""])
        return self.outputs[-1]

    def print(self, number: int) -> None:
        self.lines.append(f"print({number}, flush=True)")
        self._stream("stdout")[1] += f"{number}\n"

    def warn(self, number: int) -> None:
        self.lines.append(f"print({number}, file=sys.stderr, flush=True)")
        self._stream("stderr")[1] += f"{number}\n"

    def progress(self, number: int) -> None:
        """A bar of progress writes over its line."""
        self.lines.append(rf"print('\r{number:3}%', end='', flush=True)")
        stream = self._stream("stdout")
        stream[1] = f"{stream[1][: stream[1].rfind(chr(10)) + 1]}{number:3}%"

    def show(self, number: int) -> None:
        self.lines.append(f"show('{number}', id='{number}')")
        self._displays[str(number)] = len(self.outputs)
        self.outputs.append(["display", str(number)])

    def update(self, number: int) -> None:
        if self._displays:
            shown = self._random.choice(list(self._displays))
            self.lines.append(f"show('now {number}', update_display, id='{shown}')")
            self.outputs[self._displays[shown]][1] = f"now {number}"

    def clear(self, number: int) -> None:
        if number % 4 == 0:
            self.lines.append("clear_output()")
            self.outputs.clear()
            self._displays.clear()


@BOTH
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 6))]
)
@pytest.mark.proves("ext:rtc")
async def test_an_open_notebook_shows_each_output_once_and_in_its_place(
    open_lab: OpenLab, collaboration: bool, seed: int
) -> None:
    lab = await open_lab(collaboration=collaboration)
    story = Story(seed)
    wanted = json.dumps(story.outputs, separators=(",", ":"))
    write_notebook(lab.server.root / "n.ipynb", story.source)
    page = await opened(lab, "n.ipynb")
    ran = await call(lab, "execute_cell", notebook="n.ipynb", cell=0, wait=55)
    assert ran["status"] == "ok"
    await page.wait_for_function(SHOWS_ALL, arg=wanted)
    await saved(lab, "n.ipynb", [story.source])
    await page.evaluate(STORED, ["n.ipynb", wanted])
