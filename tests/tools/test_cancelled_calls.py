"""A call that is cancelled at any of its suspensions leaves nothing half done."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import types
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import nbformat
import pytest
from traitlets.config import Config

from tests.harness import ALICE, BOB, KERNELSPEC, ToolHarness, loop_turns
from tk_ai_extension.kernels.base import KernelInfo
from tk_ai_extension.model.executions import Execution, ExecutionEvent, ExecutionRequest, Started
from tk_ai_extension.notebooks.router import NotebookRouter
from tk_ai_extension.testing.concurrency.kernels import SayingKernels, line
from tk_ai_extension.tools.notebook_runs import run_notebook
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.artifacts import Artifacts, ArtifactWriter
from tk_ai_extension.workspace.folder_files import FolderFiles
from tk_ai_extension.workspace.journal import Journal
from tk_ai_extension.workspace.paths import notebook_path
from tk_ai_extension.workspace.socket_listener import SocketListener
from tk_ai_extension.workspace.workspace import Workspace

WITHIN = 20.0
PAUSES = ((0, 1), (0, 3), (4, 2), (20, 10))
"""Turns of the loop between a suspension and the first cancellation, and between that and the second."""
ANSWER = {"status": "ok", "data": {"text/plain": repr('{"variables": [], "more": 0}')}}

# --- cancelling


@types.coroutine
def counted(
    call: Coroutine[Any, Any, Any], at: int, reached: Callable[[], None]
) -> Generator[Any, Any, Any]:
    """Awaits a call; `reached` is called when it is suspended for the n-th time."""
    step, value = call.send, None
    for number in count(1):
        try:
            awaited = step(value)
        except StopIteration as end:
            return end.value
        if number == at:
            reached()
        try:
            step, value = call.send, (yield awaited)
        except BaseException as error:  # noqa: BLE001 - the call handles it
            step, value = call.throw, error


async def stopped(call: Coroutine[Any, Any, Any], at: int, pauses: tuple[int, int]) -> bool:
    """Stops a call after its n-th suspension, twice as a chat's stop does; returns whether it had so many."""
    stopping: list[asyncio.Task[None]] = []

    async def stop() -> None:
        for pause in pauses:
            await loop_turns(pause)
            task.cancel()

    calling: Any = counted(call, at, lambda: stopping.append(asyncio.create_task(stop())))
    task: asyncio.Task[Any] = asyncio.create_task(calling)
    await asyncio.wait([task], timeout=WITHIN)
    await asyncio.gather(*stopping)
    if not task.cancelled():
        task.result()
    return bool(stopping)


async def stops(make: Callable[[], Coroutine[Any, Any, Any]]) -> AsyncIterator[str]:
    """Makes a call again and again, and stops it at each of its suspensions; yields after each end."""
    for pauses in PAUSES:
        for at in count(1):
            was_reached = await stopped(make(), at, pauses)
            yield f"suspension {at}, {pauses}"
            if not was_reached:
                break


# --- kernels


class FinishingKernels(SayingKernels):
    """Kernels that finish a query that nobody awaits, and are busy until then."""

    def __init__(self) -> None:
        super().__init__()
        self._queries = set[asyncio.Task[None]]()

    async def info(self, kernel_id: str) -> KernelInfo:
        info = await super().info(kernel_id)
        return replace(info, state="busy" if self._queries else "idle")

    async def execute(
        self, kernel_id: str, request: ExecutionRequest
    ) -> AsyncGenerator[ExecutionEvent]:
        if not request.silent:
            async for event in super().execute(kernel_id, request):
                yield event
            return
        query = asyncio.create_task(loop_turns(20))
        self._queries.add(query)
        query.add_done_callback(self._queries.discard)
        yield Started(None)
        await asyncio.shield(query)
        yield Execution("ok", user_expressions=dict.fromkeys(request.user_expressions, ANSWER))


@pytest.fixture
async def light(tmp_path: Path) -> AsyncIterator[ToolHarness]:
    """The tools on a folder, with kernels in memory: a call costs little."""
    root = tmp_path / "root"
    root.mkdir()
    kernels: Any = FinishingKernels()
    contain = partial(notebook_path, root)
    workspace = Workspace(
        store=NotebookRouter(root, contain),
        kernels=kernels,
        sessions=kernels,
        files=FolderFiles(root),
        journal=Journal(tmp_path / "journal.sqlite"),
        artifacts=Artifacts(tmp_path / "artifacts"),
        contain=contain,
    )
    app: Any = None
    tools = [*Registry.load(("default", "omp")), run_notebook]
    yield ToolHarness(workspace, Registry(tools), root, app)
    await workspace.close()


async def settle(harness: ToolHarness) -> None:
    """Waits until no run is active and the journal has the outcome of each call."""
    executions = harness.workspace.executions
    for run in executions.active():
        assert await run.wait(WITHIN)
    await executions._background.join()
    await harness.workspace.journal._tasks.join()


async def states(harness: ToolHarness) -> list[str]:
    """The states of the entries of a.ipynb, newest first."""
    entries = await harness.workspace.journal.history("a.ipynb", 1_000, ALICE.user)
    return [entry.state for entry in entries]


def write(harness: ToolHarness, name: str, text: str) -> None:
    """Puts a notebook with an output there."""
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": KERNELSPEC})
    output = nbformat.v4.new_output("stream", name="stdout", text=text)
    cell = nbformat.v4.new_code_cell(line("ran"), execution_count=7, outputs=[output])
    notebook.cells.append(cell)
    nbformat.write(notebook, harness.root / name)


def left_in(folder: Path, pattern: str = "*.part") -> list[Path]:
    """The files below a folder whose writing has not ended, or others."""
    return list(folder.rglob(pattern))


def no_fresh_kernel(harness: ToolHarness) -> bool:
    return not harness.workspace.kernels.ids() and not +harness.workspace.fresh._counts


# --- tests


@pytest.mark.proves("exec:cancel")
async def test_the_result_of_a_notebook_never_has_the_outputs_of_its_source(
    light: ToolHarness,
) -> None:
    write(light, "a.ipynb", "of the source")
    write(light, "out.ipynb", "of an earlier run")
    call = partial(light.call, "run_notebook", notebook="a.ipynb", output="out.ipynb", wait=WITHIN)
    found = set[str]()
    async for moment in stops(call):
        await settle(light)
        outputs = light.on_disk("out.ipynb").cells[0].outputs
        text = "".join(each.text for each in outputs)
        assert "source" not in text, moment
        assert no_fresh_kernel(light), moment
        found.add(text.rstrip("\n0123456789"))
        write(light, "out.ipynb", "of an earlier run")
    assert found == {"of an earlier run", "", "ran "}


@pytest.mark.proves("exec:cancel", "verify:tool")
async def test_a_verification_leaves_no_kernel(light: ToolHarness) -> None:
    write(light, "a.ipynb", "stored")
    async for moment in stops(partial(light.call, "verify_notebook", notebook="a.ipynb")):
        await settle(light)
        assert no_fresh_kernel(light), moment


@pytest.mark.proves("exec:cancel", "kernel:pool")
async def test_the_owner_of_a_session_learns_that_a_cancelled_call_has_closed_it(
    light: ToolHarness,
) -> None:
    sessions = light.workspace.python
    sessions._max = 1
    cells = [{"code": line("ran")}]
    present = await light.call("python", caller=ALICE, cells=cells)
    is_closed = set[bool]()
    async for moment in stops(partial(light.call, "python", caller=BOB, cells=cells)):
        await settle(light)
        assert set(light.workspace.kernels.ids()) == {each.kernel_id for each in sessions}, moment
        before = present.kernel_id
        present = await light.call("python", caller=ALICE, cells=cells)
        is_closed.add(present.kernel_id != before)
        assert bool(present.notices) == (present.kernel_id != before), moment
    assert is_closed == {True, False}


@pytest.mark.proves("exec:cancel", "exec:concurrent")
async def test_a_query_follows_one_that_is_cancelled(light: ToolHarness) -> None:
    light.write("a.ipynb", line("ran"))
    await light.call("use_notebook", notebook="a.ipynb")
    async for _ in stops(partial(light.call, "list_variables")):
        found = await light.call("list_variables", caller=BOB, notebook="a.ipynb")
        assert found.variables == []


@pytest.mark.proves("edit:history")
async def test_the_history_agrees_with_the_notebook_after_cancelled_edits(
    light: ToolHarness,
) -> None:
    light.write("a.ipynb", "first")
    numbers, done = count(), 0

    def insert() -> Coroutine[Any, Any, Any]:
        return light.call("insert_cell", notebook="a.ipynb", index=0, source=f"{next(numbers)}")

    async def check(moment: str) -> int:
        await settle(light)
        assert "intended" not in await states(light), moment
        done = await light.workspace.journal.undoable(ALICE, "a.ipynb")
        inserted = [cell.source for entry in done for cell in cells_of(entry)]
        assert light.sources("a.ipynb") == [*inserted, "first"], moment
        return len(done)

    def cells_of(entry: Any) -> list[Any]:
        return [change.after for change in entry.changes]

    async for moment in stops(insert):
        done = await check(moment)
    assert 0 < done < next(numbers)
    async for moment in stops(partial(light.call, "undo", notebook="a.ipynb")):
        await check(moment)
        await insert()


@pytest.mark.proves("exec:cancel")
async def test_the_cells_run_again_after_a_cancelled_run(light: ToolHarness) -> None:
    light.write("a.ipynb", line("one"), line("two"))
    await light.call("use_notebook", notebook="a.ipynb")
    call = partial(light.call, "execute_cells", which="all", wait=WITHIN)
    async for moment in stops(call):
        await settle(light)
        assert "intended" not in await states(light), moment
        assert (await call()).status == "ok"
        texts = [cell.outputs[0].text.split()[0] for cell in light.on_disk("a.ipynb").cells]
        assert texts == ["one", "two"], moment


@pytest.mark.proves("out:artifact")
async def test_an_artifact_whose_writing_is_cancelled_leaves_no_part_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens, goes_on, opened = threading.Event(), threading.Event(), threading.Event()
    open_file = ArtifactWriter._open

    def slow_open(writer: ArtifactWriter) -> Any:
        opens.set()
        assert goes_on.wait(WITHIN)
        file = open_file(writer)
        opened.set()
        return file

    monkeypatch.setattr(ArtifactWriter, "_open", slow_open)
    writing = asyncio.create_task(Artifacts(tmp_path).write("alice", "text"))
    await asyncio.to_thread(opens.wait, WITHIN)
    writing.cancel()
    await loop_turns()
    goes_on.set()
    await asyncio.wait([writing])
    assert writing.cancelled()
    await asyncio.to_thread(opened.wait, WITHIN)
    assert left_in(tmp_path) == []


@pytest.mark.proves("out:artifact")
async def test_an_artifact_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    artifacts, numbers = Artifacts(tmp_path), count()
    for _ in range(5):
        async for moment in stops(lambda: artifacts.write("alice", f"text {next(numbers)}")):
            await asyncio.to_thread(int)  # A worker that is free has done what was asked before.
            assert left_in(tmp_path) == [], moment


@pytest.mark.proves("exec:cancel", "kernel:session")
async def test_a_kernel_that_is_started_for_a_notebook_is_bound_to_it(light: ToolHarness) -> None:
    light.write("a.ipynb", line("ran"))
    kernels: Any = light.workspace.kernels
    async for moment in stops(partial(light.call, "use_notebook", notebook="a.ipynb")):
        bound = await kernels.kernel_of("a.ipynb")
        assert set(kernels.ids()) <= {bound}, moment
        for kernel_id in kernels.ids():
            await kernels.shutdown(kernel_id)


@pytest.mark.proves("kernel:bridge")
async def test_a_listener_whose_opening_is_cancelled_leaves_no_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listeners: list[SocketListener] = []

    async def serve(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None: ...

    def opening() -> Coroutine[Any, Any, Any]:
        listeners.append(SocketListener("test.sock", serve, 1_000))
        return listeners[-1].open()

    with tempfile.TemporaryDirectory() as folder:  # Short, as the path of a socket must be.
        monkeypatch.setattr(tempfile, "tempdir", folder)
        async for moment in stops(opening):
            await listeners[-1].close()
            assert left_in(Path(folder), "*") == [], moment


# --- rooms


@pytest.fixture
def jp_server_config(jp_server_config: Config) -> Config:
    """Without the rooms' own saves and looks at their files, which would come at any moment."""
    jp_server_config.YDocExtension.file_poll_interval = 0
    jp_server_config.YDocExtension.document_save_delay = None
    return jp_server_config


@pytest.mark.parametrize("documents", ["room"])
@pytest.mark.proves("ext:rtc")
async def test_a_room_shows_the_whole_file_of_another_program_after_a_cancelled_read(
    harness: ToolHarness,
) -> None:
    versions = count()

    def write_next() -> list[str]:
        version = next(versions)
        sources = [f"{version}.{cell}" for cell in range(16)]
        path = harness.write("a.ipynb", *sources)
        os.utime(path, (2_000_000_000 + version, 2_000_000_000 + version))
        return sources

    write_next()
    document = await harness.room("a.ipynb")
    await harness.call("list_cells", notebook="a.ipynb")
    extension = next(iter(harness.app.extension_manager.extension_apps["jupyter_server_ydoc"]))
    (room,) = extension.ywebsocket_server.rooms.values()
    sources = write_next()
    async for moment in stops(partial(harness.call, "list_cells", notebook="a.ipynb")):
        await room._file.maybe_notify()  # As the room does once a second.
        assert [str(cell["source"]) for cell in document.ycells] == sources, moment
        sources = write_next()
