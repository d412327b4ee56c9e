"""A notebook that gets another path while a cell of it runs keeps the outputs of that cell."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import ToolHarness, backend, harness, jp_server_config
from tests.notebooks.conftest import file_bench
from tests.support.document_bench import (
    DEADLINE,
    DocumentBench,
    code,
    notebook,
    stream,
)
from tk_ai_extension.model.errors import NotebookNotFound
from tk_ai_extension.model.output_changes import AppendOutput

__all__ = ["backend", "harness", "jp_server_config"]


def printed(stored: Any) -> str:
    """What the first cell printed, of a notebook as JSON."""
    return "".join("".join(output["text"]) for output in stored["cells"][0]["outputs"])


# --- with a server and a kernel


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """What a cell reads to wait: it goes on when the other end is opened and closed."""
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)
    return fifo


def waiting_cell(gate: Path) -> str:
    return f"print('before', flush=True)\nopen({str(gate)!r}).read()\nprint('after')"


@pytest.mark.proves("kernel:shared-live", "exec:saved")
async def test_outputs_of_a_running_cell_land_where_its_notebook_was_moved(
    harness: ToolHarness, gate: Path
) -> None:
    harness.write("old.ipynb", waiting_cell(gate), "print('next')")
    (harness.root / "folder").mkdir()
    await harness.call("use_notebook", notebook="old.ipynb")
    running = await harness.call("execute_cells", which="all", wait=0)
    await harness.saved("old.ipynb", lambda stored: "before" in printed(stored), within=DEADLINE)
    manager: Any = harness.app.contents_manager
    await manager.rename("old.ipynb", "folder/new.ipynb")
    await asyncio.to_thread(gate.write_text, "go")
    ended = await harness.call("wait_execution", execution_id=running.execution_id, wait=DEADLINE)
    assert ended.status == "ok"
    stored = await harness.saved(
        "folder/new.ipynb", lambda stored: stored.cells[1].execution_count == 2, within=DEADLINE
    )
    assert printed(stored) == "before\nafter\n"
    assert not (harness.root / "old.ipynb").exists()
    edited = await harness.call("read_cell", notebook="folder/new.ipynb", cell=0)
    assert "after" in edited.full_text()


# --- at the worst moments


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[DocumentBench]:
    root = tmp_path / "notebooks"
    (root / "folder").mkdir(parents=True)
    async with file_bench(root) as made:
        yield made


async def test_a_file_that_is_deleted_is_not_created_again(bench: DocumentBench) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111")))
    file = bench.root / document.path
    async with document.writing("aaaa1111") as writer:
        writer.start()
        await writer.write([AppendOutput(stream("printed"))])
        file.unlink()
        with pytest.raises(NotebookNotFound):
            await writer.finish(1)
    assert not file.exists()
