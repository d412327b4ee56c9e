"""The suite finds the defects that it is for: each is injected into a document, and must be found soon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.concurrency.benches import light_bench
from tk_ai_extension.model.operations import Applied, Change, Delete, Insert, Operation, Replace
from tk_ai_extension.model.outputs import OutputChange
from tk_ai_extension.notebooks.router import NotebookRouter
from tk_ai_extension.testing.concurrency.history import CellState, PersonEdit
from tk_ai_extension.testing.concurrency.people import Choose, Program
from tk_ai_extension.testing.concurrency.rounds import Violation, run_rounds
from tk_ai_extension.tools.default import batch
from tk_ai_extension.workspace.paths import notebook_path

STEPS = 6_000
"""All are found within some hundreds, most within tens."""
TURNS = 30
"""Turns of the loop for which a write over an unseen source is under way."""


class _Inner:
    """Does what something else does."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _LatePosition(_Inner):
    """Names the place of a cell by a later read."""

    async def apply(self, operations: Sequence[Operation]) -> Applied:
        applied = await self._inner.apply(operations)
        await asyncio.sleep(0)
        now = (await self._inner.read()).by_key

        def later(change: Change) -> Change:
            found = now.get(change.cell)
            return change if found is None else replace(change, index=found.index)

        return Applied(applied.snapshot, tuple(later(each) for each in applied.changes))


class _DoubledInsert(_Inner):
    """Inserts a cell twice, as when a request is sent again."""

    async def apply(self, operations: Sequence[Operation]) -> Applied:
        applied = await self._inner.apply(operations)
        inserts = [each for each in operations if isinstance(each, Insert)]
        if len(inserts) == len(operations) == 1:
            content = replace(inserts[0].content, id=None)
            await self._inner.apply([replace(inserts[0], content=content)])
        return applied


class _Meddler(Program):
    """A program that types into the cell of a write that is under way, if there is one soon."""

    target: ClassVar[str | None] = None
    """That cell."""

    async def edit(self, path: str, choose: Choose) -> PersonEdit:
        """See `Program.edit`."""
        for _ in range(10 * TURNS):
            if _Meddler.target is not None:
                break
            await asyncio.sleep(0)

        def meddle(cells: Sequence[CellState]) -> PersonEdit:
            edit = choose(cells)
            target = next((cell.key for cell in cells if cell.key == _Meddler.target), edit.key)
            return replace(edit, key=target) if edit.kind == "type" else edit

        return await super().edit(path, meddle)


class _LostUpdate(_Inner):
    """Writes over a source that the caller has not seen: what a program has just typed."""

    async def apply(self, operations: Sequence[Operation]) -> Applied:
        written = [each.cell for each in operations if isinstance(each, Replace | Delete)]
        if written:
            _Meddler.target = written[0]
            for _ in range(TURNS):
                await asyncio.sleep(0)
            _Meddler.target = None
        return await self._inner.apply(
            [
                replace(each, expect=None) if isinstance(each, Replace | Delete) else each
                for each in operations
            ]
        )


class _LostEdit(_Inner):
    """Answers that an edit was done, and does not do it."""

    async def apply(self, operations: Sequence[Operation]) -> Applied:
        applied = await self._inner.apply(operations)
        if [each.action for each in applied.changes] == ["replace"]:
            old = applied.changes[0].before
            assert old is not None
            await self._inner.apply([Replace(applied.changes[0].cell, old.source)])
        return applied


class _DroppedOutput(_Inner):
    """Loses the outputs of cells."""

    @asynccontextmanager
    async def writing(self, cell: str) -> AsyncGenerator[Any]:
        async with self._inner.writing(cell) as writer:
            yield _DroppingWriter(writer)


class _DroppingWriter(_Inner):
    """Writes none of them."""

    async def write(self, changes: Sequence[OutputChange]) -> None:
        """Loses them."""


class _Defective(_Inner):
    """A store whose documents have a defect."""

    def __init__(self, inner: Any, defect: type[_Inner]) -> None:
        super().__init__(inner)
        self._defect = defect

    async def open(self, path: str, **options: Any) -> Any:
        return self._defect(await self._inner.open(path, **options))


@pytest.mark.proves("edit:checker-finds")
@pytest.mark.parametrize(
    ("defect", "message"),
    [
        (_LatePosition, "No serial order"),
        (_DoubledInsert, "No serial order"),
        (_LostUpdate, "No serial order"),
        (_LostEdit, "No serial order"),
        (_DroppedOutput, "is left"),
    ],
)
async def test_a_defect_is_found(defect: type[_Inner], message: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    store = NotebookRouter(root, lambda path: notebook_path(root, path))
    person = _Meddler if defect is _LostUpdate else Program
    bench = light_bench(
        defect.__name__, root, tmp_path, _Defective(store, defect), person=person(root)
    )
    async with bench as defective:
        with pytest.raises(Violation, match=message):
            await run_rounds(defective, 1, STEPS)


@pytest.mark.proves("edit:checker-finds")
async def test_a_batch_that_is_not_undone_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def leave(*_: Any) -> list[str]:
        return []

    monkeypatch.setattr(batch, "_roll_back", leave)
    root = tmp_path / "root"
    root.mkdir()
    store = NotebookRouter(root, lambda path: notebook_path(root, path))
    async with light_bench("left", root, tmp_path, store, person=Program(root)) as defective:
        with pytest.raises(Violation, match="and its change remains"):
            await run_rounds(defective, 1, STEPS)
