"""A run whose outputs cannot be written: it ends as its code does, with a warning."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import product
from typing import Any

import pytest

from tests.harness import ALICE, ToolHarness, backend, documents, harness, jp_server_config
from tk_ai_extension.model.errors import DiskFull
from tk_ai_extension.workspace.runs import Step

__all__ = ["backend", "documents", "harness", "jp_server_config"]

DEADLINE = 60
ERRORS = [KeyError("text"), RuntimeError("nested"), DiskFull("n.ipynb: the disk is full.")]


class FailingDocument:
    """A notebook whose writers fail at one step, with any error."""

    def __init__(self, document: Any, step: str, error: Exception) -> None:
        self.document = document
        self.step = step
        self.error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.document, name)

    @asynccontextmanager
    async def writing(self, cell: str) -> AsyncGenerator[Any]:
        async with self.document.writing(cell) as writer:
            whole = getattr(writer, self.step)

            async def fail(*args: Any, **options: Any) -> None:
                await whole(*args, **options)
                raise self.error

            setattr(writer, self.step, fail)
            yield writer
            setattr(writer, self.step, whole)


@pytest.mark.proves("fault:own-defects", "exec:statuses")
async def test_whatever_a_writer_raises_the_run_ends_as_its_code_does(harness: ToolHarness) -> None:
    workspace = harness.workspace
    harness.write("n.ipynb", "print(1)", "1 / 0")
    document = await workspace.store.open("n.ipynb")
    kernel_id, _ = await workspace.kernel_for(document)
    sources = {"ok": "print(1)", "error": "1 / 0"}
    cells = dict(zip(sources, (await document.read()).cells, strict=True))
    for step, error, status in product(["write", "finish"], ERRORS, sources):
        failing: Any = FailingDocument(document, step, error)

        async def open_document(_path: str, found: Any = failing) -> Any:
            return found

        run = workspace.executions.start(
            ALICE,
            kernel_id,
            [Step(cell=cells[status].key, code=sources[status])],
            open_document=open_document,
            path="n.ipynb",
            approval=None,
        )
        async with asyncio.timeout(DEADLINE):
            assert await run.wait(DEADLINE)
        assert (run.status, run.error) == (status, None)
        assert run.current.warning is not None
        assert str(error) in run.current.warning or error.args[0] in run.current.warning
