"""Verifying a notebook over MCP: by the official client, on real kernels."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nbformat
import pytest

from tests.mcp.conftest import LEGACY, Connect
from tk_ai_extension.workspace.workspace import Workspace

DEADLINE = 60
SLOW = "import time\nprint('begun', flush=True)\ntime.sleep(600)"


def write(root: Path, *cells: tuple[str, str]) -> Path:
    """A notebook whose cells have printed what is stored."""
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell(
                source,
                id=f"cell{at}",
                execution_count=at + 1,
                outputs=[nbformat.v4.new_output("stream", text=text)] if text else [],
            )
            for at, (source, text) in enumerate(cells)
        ]
    )
    path = root / "plan.ipynb"
    nbformat.write(notebook, path)
    return path


@pytest.mark.proves("verify:tool")
@pytest.mark.parametrize("era", [LEGACY], indirect=True)
async def test_an_agent_reads_what_differs_in_few_words_and_the_rest_on_demand(
    connect: Connect, jp_root_dir: Path, workspace: Workspace
) -> None:
    lines = "".join(f"{number}\n" for number in range(100))
    path = write(
        jp_root_dir,
        ("kept = 1\nprint('same')", "same\n"),
        ("for i in range(100): print(-i)", lines),
        ("print(undefined)", ""),
    )
    before = path.read_bytes()
    reported: list[str] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        reported.append(message or "")

    async with asyncio.timeout(DEADLINE), connect() as client:
        await client.call_tool("use_notebook", {"notebook": "plan.ipynb"})
        answer = await client.call_tool("verify_notebook", {}, progress_callback=listen)
        assert answer.is_error
        text = answer.content[0].text  # type: ignore[union-attr]
        assert text.startswith("plan.ipynb: 3 code cells: 1 failed, 1 differ, 1 the same (")
        assert "Cell 2 @cell1: stdout differs" in text
        assert "Cell 3 @cell2 failed: NameError: name 'undefined' is not defined" in text
        assert "Cell 3 uses `undefined`, which no cell defines." in text
        assert len(text) < 1_500
        found = answer.structured_content["verification"]
        assert [(each["index"], each["status"]) for each in found["problems"]] == [
            (1, "differs"),
            (2, "failed"),
        ]
        whole = await client.call_tool("read_output", {"artifact": found["artifact"]})
        assert "+-90" in whole.content[0].text  # type: ignore[union-attr]
        # Neither the notebook nor the person's kernel has changed.
        assert path.read_bytes() == before
        alone = await client.call_tool("execute_ipython", {"code": "'kept' in globals()"})
        assert "False" in alone.content[0].text  # type: ignore[union-attr]
    assert len(workspace.kernels.ids()) == 1


@pytest.mark.proves("verify:tool", "verify:kernel-ends", "mcp:cancel")
@pytest.mark.parametrize("era", [LEGACY], indirect=True)
async def test_a_verification_is_followed_interrupted_and_cancelled(
    connect: Connect, jp_root_dir: Path, workspace: Workspace
) -> None:
    write(jp_root_dir, (SLOW, ""), ("2", ""))
    named = {"notebook": "plan.ipynb"}
    async with asyncio.timeout(DEADLINE), connect() as client:
        begun = await client.call_tool("verify_notebook", {**named, "wait": 0})
        assert not begun.is_error
        assert "wait_execution" in begun.content[0].text  # type: ignore[union-attr]
        execution = {"execution_id": begun.structured_content["execution_id"]}
        later = await client.call_tool("wait_execution", {**execution, "wait": 0})
        assert later.structured_content["verification"]["status"] == "running"
        run = workspace.executions.active()[0]
        while not run.current.outputs:
            await run.changed(run.version, None)
        await client.call_tool("interrupt_kernel", execution)
        ended = await client.call_tool("wait_execution", execution)
        assert ended.structured_content["status"] == "interrupted"
        assert workspace.kernels.ids() == []

        received = asyncio.Event()

        async def listen(progress: float, total: float | None, message: str | None) -> None:
            if message and "begun" in message:
                received.set()

        call = asyncio.create_task(
            client.call_tool("verify_notebook", {**named, "wait": 60}, progress_callback=listen)
        )
        await received.wait()
        (run,) = workspace.executions.active()
        call.cancel()
        await run.wait(None)
        assert workspace.kernels.ids() == []


@pytest.mark.proves("verify:tool")
@pytest.mark.parametrize("era", [LEGACY], indirect=True)
async def test_what_cannot_be_verified_is_refused(
    connect: Connect, jp_root_dir: Path, workspace: Workspace
) -> None:
    write(jp_root_dir)
    async with connect() as client:
        refused = await client.call_tool("verify_notebook", {"notebook": "plan.ipynb"})
        assert refused.structured_content["error"]["code"] == "invalid_arguments"
    assert workspace.kernels.ids() == []
