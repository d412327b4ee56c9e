"""An agent that works in a notebook over REST while a person has it open, and what they see of it."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from playwright.async_api import Locator

from tests.browser.lab import Lab, pick, write_notebook
from tests.browser.open_notebook import call

NOTEBOOK = "plan.ipynb"

KERNEL = """
() => {
  const { kernel } = window.jupyterapp.shell.currentWidget.context.sessionContext.session ?? {};
  return kernel?.connectionStatus === 'connected' && kernel.status === 'idle';
}
"""


def write_cells(root: Path, **sources: str) -> None:
    """Writes the notebook; keywords are the cells' ids."""
    path = root / NOTEBOOK
    write_notebook(path, *sources.values())
    document: Any = nbformat.read(path, as_version=4)
    for cell, key in zip(document.cells, sources, strict=True):
        cell.id = key
    nbformat.write(document, path)


@dataclass
class Agent:
    """An agent at the server of a lab."""

    lab: Lab

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        """Calls a tool on the notebook, which has to succeed; its answer."""
        return await call(self.lab, tool, notebook=NOTEBOOK, **arguments)

    async def changes(self, cell: str, source: str) -> None:
        """Reads a cell and changes it."""
        await self("read_cell", cell=cell)
        await self("overwrite_cell", cell=cell, source=source)


@dataclass
class Open:
    """The notebook as a person sees it."""

    lab: Lab

    async def run(self, place: int) -> None:
        """Runs a cell as a person does, once the kernel is there."""
        await self.lab.page.wait_for_function(KERNEL)
        await self.cells.nth(place).locator(".cm-content").click()
        await self.lab.page.keyboard.press("Control+Enter")

    @property
    def cells(self) -> Locator:
        """All cells."""
        return self.lab.page.locator(".jp-NotebookPanel:visible .jp-Notebook .jp-Cell")

    @property
    def marks(self) -> Locator:
        """The marks of cells that agents changed."""
        return self.cells.get_by_role("button", name="Show what changed")

    def mark(self, place: int) -> Locator:
        """The mark of the cell at this place."""
        return self.cells.nth(place).get_by_role("button", name="Show what changed")

    def review(self, place: int) -> Locator:
        """What is shown of the changes of the cell at this place."""
        return self.cells.nth(place).get_by_role("group", name="Changes to this cell")

    @property
    def toolbar(self) -> Locator:
        """Its toolbar."""
        return self.lab.page.locator(".jp-NotebookPanel-toolbar:visible")

    @property
    def all_changes(self) -> Locator:
        """In its toolbar, how many cells were changed, with what can be done about all."""
        return self.toolbar.get_by_role("group", name="Changes by agents")

    async def decide(self, choice: str) -> None:
        """Keep or undo all changes in its toolbar."""
        await pick(self.all_changes.get_by_role("button", name="Keep or undo"), choice)

    async def source(self, place: int) -> str:
        """The source of a cell as it is on the screen, in the model of the page."""
        script = """place => window.jupyterapp.shell.currentWidget.content
            .widgets[place].model.sharedModel.getSource()"""
        found: str = await self.lab.page.evaluate(script, place)
        return found


@contextmanager
def gate(root: Path) -> Generator[str]:
    """Code that runs until the block ends: it reads a pipe that nobody has opened to write.

    Args:
        root: The notebook's folder.
    """
    pipe = root / "arrivals"
    os.mkfifo(pipe)
    try:
        yield "print('running', flush=True)\nfor line in open('arrivals'):\n    print(line)"
        pipe.open("w").close()
    finally:
        # A kernel that has not opened it ends with its server.
        pipe.unlink()
