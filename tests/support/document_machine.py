"""State machine of several actors in one notebook, checked against a model: no update is lost.

Two agents edit through documents of the store, based on their last read of the notebook. A person
edits by other means. The model is a list of sources. After each step the notebook, read through the
store, seen by the person, and at times read from the file, equals that list; an agent with a stale
view gets a conflict and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.support.document_bench import DocumentBench, code, notebook, sources, stream
from tk_ai_extension.model.cells import Cell, CellContent, Snapshot
from tk_ai_extension.model.celltext import parse, render
from tk_ai_extension.model.errors import CellNotFound, Conflict
from tk_ai_extension.model.merging import merge
from tk_ai_extension.model.operations import Delete, Insert, Move, Operation, Replace
from tk_ai_extension.model.outputs import Append
from tk_ai_extension.notebooks.base import NotebookDocument

T = TypeVar("T")

AGENTS = st.sampled_from(["A", "B"])
PLACES = st.integers(0, 30)
"""A cell or a gap, modulo their number."""


Run = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine on the loop of the bench."""


def machine(bench: DocumentBench, run: Run) -> type[NotebookMachine]:
    """Return the state machine of a bench."""
    return type("BenchMachine", (NotebookMachine,), {"bench": bench, "run": staticmethod(run)})


class NotebookMachine(RuleBasedStateMachine):
    """The actors, the model and the rules; `machine` sets the bench."""

    bench: ClassVar[DocumentBench]
    run: ClassVar[Run]

    def __init__(self) -> None:
        super().__init__()
        self.model: list[str] = []
        self.views: dict[str, Snapshot] = {}
        self.count = 0

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return type(self).run(work)

    def token(self, actor: str) -> str:
        """Return a unique text."""
        self.count += 1
        return f"{actor}{self.count}"

    @initialize(cells=st.integers(0, 4))
    def begin(self, cells: int) -> None:
        self.model = [f"start {number}" for number in range(cells)]
        # A room always has a cell: JupyterLab's document creates one.
        self.model = self.model or ["start"]
        stored = notebook(
            *(code(source, f"c{number:05}aa") for number, source in enumerate(self.model))
        )
        self.path = self.bench.put(stored)
        for agent in "AB":
            self.views[agent] = self.do(self.document_read())

    async def document(self) -> NotebookDocument:
        return await self.bench.store.open(self.path)

    async def document_read(self) -> Snapshot:
        return await (await self.document()).read()

    async def apply(self, *operations: Operation) -> None:
        await (await self.document()).apply(operations)

    # --- agents, one after the other

    @rule(agent=AGENTS)
    def reads(self, agent: str) -> None:
        self.views[agent] = self.do(self.document_read())

    @rule(agent=AGENTS, place=PLACES)
    def replaces_what_it_saw(self, agent: str, place: int) -> None:
        self.expect(agent, place, self.token(agent))

    @rule(agent=AGENTS, place=PLACES)
    def deletes_what_it_saw(self, agent: str, place: int) -> None:
        if len(self.model) > 1:
            self.expect(agent, place, None)

    def expect(self, agent: str, place: int, new: str | None) -> None:
        """Replace or delete a cell that the agent read; succeeds only if it is unchanged since."""
        view = self.views[agent]
        seen = view.cells[place % len(view.cells)]
        now = self.do(self.document_read()).by_key.get(seen.key)
        operation = (
            Delete(seen.key, expect=seen.hash)
            if new is None
            else Replace(seen.key, new, expect=seen.hash)
        )
        try:
            self.do(self.apply(operation))
        except CellNotFound:
            assert now is None
        except Conflict as conflict:
            assert now is not None
            assert now.source != seen.source
            (conflicting,) = conflict.details["cells"]
            assert conflicting["source"] == now.source
        else:
            assert now is not None
            assert now.source == seen.source
            self.model[now.index : now.index + 1] = [] if new is None else [new]

    @rule(agent=AGENTS, place=PLACES)
    def inserts(self, agent: str, place: int) -> None:
        at, token = place % (len(self.model) + 1), self.token(agent)
        self.do(self.apply(Insert(CellContent("code", token), index=at)))
        self.model.insert(at, token)

    @rule(place=PLACES, to=PLACES)
    def moves(self, place: int, to: int) -> None:
        cells = self.do(self.document_read()).cells
        cell, to = cells[place % len(cells)], to % len(cells)
        self.do(self.apply(Move(cell.key, to)))
        self.model.insert(to, self.model.pop(cell.index))

    @rule(agent=AGENTS, place=PLACES)
    def writes_the_text_back(self, agent: str, place: int) -> None:
        """Write back the text with one cell changed and one inserted after it."""
        view = self.views[agent]
        seen = view.cells[place % len(view.cells)]
        new, added = self.token(agent), self.token(agent)
        text = changed_text(view, seen, new, added)
        current = self.do(self.document_read())
        now = current.by_key.get(seen.key)
        try:
            operations = merge(view, current, parse(text))
        except Conflict:
            assert now is None or now.source != seen.source
            return
        self.do(self.apply(*operations))
        assert now is not None
        assert now.source == seen.source
        self.model[now.index : now.index + 1] = [new, added]

    @rule(agent=AGENTS, place=PLACES)
    def runs(self, agent: str, place: int) -> None:
        cells = self.do(self.document_read()).cells
        cell, token = cells[place % len(cells)], self.token(agent)

        async def work() -> tuple[Any, ...]:
            document = await self.document()
            async with document.writing(cell.key) as writer:
                await writer.start()
                await writer.write([Append(stream(token))])
                await writer.finish(self.count)
            return await document.outputs(cell.key)

        assert self.do(work()) == (stream(token),)

    # --- a person

    @rule(place=PLACES)
    def types(self, place: int) -> None:
        at, token = place % len(self.model), self.token(" p")
        self.do(self.bench.person.type(self.path, at, token))
        self.model[at] += token

    @rule(place=PLACES)
    def adds(self, place: int) -> None:
        at, token = place % (len(self.model) + 1), self.token("p")
        self.do(self.bench.person.insert(self.path, at, token))
        self.model.insert(at, token)

    @precondition(lambda self: len(self.model) > 1)
    @rule(place=PLACES)
    def removes(self, place: int) -> None:
        at = place % len(self.model)
        self.do(self.bench.person.delete(self.path, at))
        del self.model[at]

    @rule(place=PLACES, to=PLACES)
    def rearranges(self, place: int, to: int) -> None:
        place, to = place % len(self.model), to % len(self.model)
        self.do(self.bench.person.move(self.path, place, to))
        self.model.insert(to, self.model.pop(place))

    # --- all at once

    @rule(places=st.lists(PLACES, min_size=2, max_size=4))
    def edit_at_once(self, places: list[int]) -> None:
        """Replace current cells by agents while a person types."""
        before = self.do(self.document_read())
        cells = [before.cells[place % len(before.cells)] for place in places]
        tokens = [self.token(f"at once {number} ") for number in range(len(places))]
        typed, at = self.token(" typed"), places[0] % len(before.cells)

        async def attempt(cell: Cell, token: str) -> bool:
            try:
                await self.apply(Replace(cell.key, token, expect=cell.hash))
            except Conflict:
                return False
            return True

        async def work() -> tuple[list[bool], Snapshot]:
            *landed, _ = await asyncio.gather(
                *(attempt(cell, token) for cell, token in zip(cells, tokens, strict=True)),
                self.bench.person.type(self.path, at, typed),
            )
            return [landing is True for landing in landed], await self.document_read()

        landed, after = self.do(work())
        found = sources(after.cells)
        assert len(found) == len(self.model)
        # An agent without a conflict finds its text there. The typing is there as well: no later
        # edit can have read and replaced it.
        for cell, token, landing in zip(cells, tokens, landed, strict=True):
            assert (token in found[cell.index]) is landing
        assert typed in found[at]
        for index, source in enumerate(found):
            if index not in {cell.index for cell in cells}:
                assert source == self.model[index]
        self.model = found

    # --- what holds

    @invariant()
    def everybody_sees_the_model(self) -> None:
        if not self.views:
            return
        assert sources(self.do(self.document_read()).cells) == self.model
        assert self.do(self.bench.person.sources(self.path)) == self.model

    def teardown(self) -> None:
        if not self.views:
            return

        async def stored() -> list[str]:
            return sources((await self.bench.on_disk(await self.document()))["cells"])

        assert self.do(stored()) == self.model


def changed_text(view: Snapshot, seen: Cell, new: str, added: str) -> str:
    """Return the text of a view with one cell changed and a new one after it."""
    lines = render(view).splitlines()
    at = next(n for n, line in enumerate(lines) if line.endswith(f"@{view.short_keys[seen.key]}"))
    end = at + 1 + (len(seen.source.splitlines()) if seen.source else 0)
    return "\n".join([*lines[: at + 1], new, "# %% [code]", added, *lines[end:]]) + "\n"
