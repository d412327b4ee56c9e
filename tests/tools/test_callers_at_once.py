"""Several callers change, run and undo in one notebook at once, by random calls of the tools.

Each source is written once only, so the answers can be added up: of a cell's sources each change takes
the one that it replaces and gives the one that it writes. What is left is the notebook.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter, defaultdict
from random import Random, SystemRandom
from typing import Any

import pytest

from tests.harness import ToolHarness
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import CellNotFound, Conflict, NothingToUndo

NOTEBOOK = "n.ipynb"
CALLERS = 3
STEPS = 25
"""Calls of each caller."""
TOOLS = ("insert", "overwrite", "overwrite", "delete", "move", "run", "run", "undo")


class Answers:
    """What was answered to all callers, added up."""

    def __init__(self, cells: dict[str, str]) -> None:
        self.sources: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.written: defaultdict[str, set[str]] = defaultdict(set)
        self.ran: Counter[str] = Counter()
        self.made: Counter[str] = Counter()
        self.refused = 0
        for cell, source in cells.items():
            self.give(cell, source)

    def give(self, cell: str, source: str) -> None:
        self.sources[cell][source] += 1
        self.written[cell].add(source)

    def take(self, cell: str, source: str) -> None:
        self.sources[cell][source] -= 1

    def left(self) -> dict[str, str]:
        """The source of each cell that there is, by the answers."""
        left = {
            cell: [source for source, count in counts.items() if count]
            for cell, counts in self.sources.items()
        }
        assert {count for counts in self.sources.values() for count in counts.values()} <= {0, 1}
        assert all(len(each) <= 1 for each in left.values()), "two changes of one source"
        return {cell: sources[0] for cell, sources in left.items() if sources}


class Agent:
    """A caller that calls the tools at random."""

    def __init__(self, harness: ToolHarness, name: str, random: Random, answers: Answers) -> None:
        self._harness = harness
        self._caller = Caller("ada", name, "mcp", name=name)
        self._random = random
        self._answers = answers
        self._count = 0
        self._deleted: dict[str, str] = {}

    async def work(self) -> None:
        for _ in range(STEPS):
            if self._random.random() < 0.6:
                await self._call("read_notebook")
            try:
                await self._step(self._random.choice(TOOLS))
            except (Conflict, CellNotFound, NothingToUndo):
                self._answers.refused += 1
            for _ in range(self._random.randrange(40)):
                await asyncio.sleep(0)

    async def _step(self, tool: str) -> None:
        cells = self._harness.on_disk(NOTEBOOK).cells
        if tool == "insert" or not cells:
            source = self._source()
            place = self._random.choice((0, None))
            changed = await self._call("insert_cell", source=source, index=place)
            self._note(changed.changes, source)
            self._answers.made[changed.changes[0].cell] += 1
            return
        if tool == "undo":
            self._note((await self._call("undo")).changes)
            return
        cell = self._random.choice(cells).id
        if tool == "overwrite":
            changed = await self._call("overwrite_cell", cell=cell, source=self._source())
            self._note(changed.changes)
        elif tool == "delete":
            self._note((await self._call("delete_cell", cell=cell)).changes)
        elif tool == "move":
            to = self._random.choice((0, -1))
            self._note((await self._call("move_cell", cell=cell, to=to)).changes)
        else:
            (run,) = (await self._call("execute_cell", cell=cell)).runs
            assert run.status == "ok"
            assert run.cell == cell
            token = run.output.strip()
            assert source_of(token) in self._answers.written[cell]
            self._answers.ran[token] += 1

    def _note(self, changes: list[Any], inserted: str | None = None) -> None:
        for change in changes:
            cell = change.cell
            if change.action == "insert":
                self._answers.give(cell, inserted or self._deleted[cell])
            elif change.action == "delete":
                self._deleted[cell] = change.removed_source
                self._answers.take(cell, change.removed_source)
            elif change.action == "replace":
                lines = change.diff.splitlines()
                before, after = (
                    next(line[1:] for line in lines if line[:1] == mark and line[1:2] == "r")
                    for mark in "-+"
                )
                self._answers.take(cell, before)
                self._answers.give(cell, after)

    def _source(self) -> str:
        self._count += 1
        return source_of(f"{self._caller.key}-{self._count}")

    async def _call(self, tool: str, **arguments: Any) -> Any:
        return await self._harness.call(tool, caller=self._caller, notebook=NOTEBOOK, **arguments)


def source_of(token: str) -> str:
    """A source that prints a token, and keeps that it ran."""
    return f"ran = [*globals().get('ran', ()), '{token}']; print('{token}')"


@pytest.mark.timeout(300)
@pytest.mark.proves("edit:linearizable", "exec:own-source")
async def test_the_notebook_is_what_was_answered(harness: ToolHarness) -> None:
    seed = int(os.environ.get("TK_SEED") or SystemRandom().randrange(1_000_000))
    print(f"TK_SEED={seed}")  # noqa: T201  To play a failure again.
    harness.write(NOTEBOOK, *(source_of(f"first-{number}") for number in range(4)))
    answers = Answers({cell.id: cell.source for cell in harness.on_disk(NOTEBOOK).cells})
    random = Random(seed)
    agents = [
        Agent(harness, f"agent{number}", Random(random.random()), answers)
        for number in range(CALLERS)
    ]
    await asyncio.gather(*(agent.work() for agent in agents))

    cells = harness.on_disk(NOTEBOOK).cells
    assert {cell.id: cell.source for cell in cells} == answers.left()
    assert len({cell.id for cell in cells}) == len(cells)
    assert set(answers.made.values()) == {1}
    for cell in cells:
        for output in cell.outputs:
            assert source_of(output.text.strip()) in answers.written[cell.id]
    kept = await harness.call("execute_ipython", code="print(*ran)", notebook=NOTEBOOK)
    assert Counter(kept.runs[0].output.split()) == answers.ran
