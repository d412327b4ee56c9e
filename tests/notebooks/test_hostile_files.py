"""Hostile files in a user's folder: links, FIFOs, devices and files of any size."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.support.document_bench import DEADLINE, code, notebook, stream, written
from tk_ai_extension.model.cell_operations import Replace
from tk_ai_extension.model.errors import NotFound, PathRefused, ToolError
from tk_ai_extension.model.output_changes import AppendOutput
from tk_ai_extension.model.paths import notebook_path
from tk_ai_extension.notebooks.notebook_store import NotebookStore
from tk_ai_extension.workspace.artifacts import Artifacts
from tk_ai_extension.workspace.files import FolderFiles

pytestmark = pytest.mark.proves("threat:path")

SECRET = "a_secret = 42"
PRIVATE = written(notebook(code(SECRET, "aaaa1111")))


def link_out(place: Path, private: Path) -> None:
    place.symlink_to(private)


def link_to_a_device(place: Path, private: Path) -> None:
    place.symlink_to("/dev/zero")


def fifo(place: Path, private: Path) -> None:
    os.mkfifo(place)


def listening(place: Path, private: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(os.path.relpath(place))


def folder(place: Path, private: Path) -> None:
    place.mkdir()


def dangling(place: Path, private: Path) -> None:
    place.symlink_to("nothing")


Hostile = Callable[[Path, Path], None]
HOSTILE: list[Hostile] = [
    link_out, link_to_a_device, fifo, listening, folder, dangling,
]  # fmt: skip


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)  # The path of a socket is short.
    monkeypatch.setattr("tk_ai_extension.notebooks.notebook_files._WRITER_DELAYS", ())
    return folder


@pytest.fixture
def private(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    file = outside / "private.ipynb"
    file.write_bytes(PRIVATE)
    return file


def store_in(root: Path) -> NotebookStore:
    return NotebookStore(root, partial(notebook_path, root))


async def within_deadline(action: Awaitable[object], *places: Path) -> object:
    """Return an action's result or its typed error; an action that waits for a FIFO fails."""
    task = asyncio.ensure_future(action)
    done, _ = await asyncio.wait([task], timeout=DEADLINE)
    if not done:
        for place in places:  # Let the blocked thread end.
            with suppress(OSError):
                os.close(os.open(place, os.O_WRONLY | os.O_NONBLOCK))
        pytest.fail(f"blocked by {places}")
    try:
        return task.result()
    except ToolError as error:
        return error


def contents_of(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 20
    }


# --- a name that was a file when it was checked


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda each: each.__name__)
async def test_a_notebook_that_is_replaced_while_it_is_open_is_not_read_through_a_link(
    root: Path, private: Path, hostile: Hostile
) -> None:
    file = root / "a.ipynb"
    file.write_bytes(written(notebook(code("x", "aaaa1111"))))
    store = store_in(root)
    document = await store.open("a.ipynb")
    await document.read()
    file.unlink()
    hostile(file, private)
    result = await within_deadline(document.read(), file)
    assert isinstance(result, ToolError), "nothing of another file"
    assert contents_of(private.parent) == {private.name: PRIVATE}
    await store.close()


# --- a folder that becomes a link while a cell runs


def swap_folder(root: Path, outside: Path) -> str:
    """Code that moves the notebook's folder away and puts a link out of the root in its place."""
    new = str(root / "sub2")
    return f"os.rename({str(root / 'sub')!r}, {new!r}); os.symlink({str(outside)!r}, {str(root / 'sub')!r})"


def swap_file(root: Path, outside: Path) -> str:
    """Code that moves the notebook away and puts a link to another one in its place."""
    file, new = root / "sub" / "private.ipynb", root / "sub2" / "private.ipynb"
    link = f"os.symlink({str(outside / 'private.ipynb')!r}, {str(file)!r})"
    return f"os.mkdir({str(new.parent)!r}); os.rename({str(file)!r}, {str(new)!r}); {link}"


@pytest.mark.parametrize("swap", [swap_folder, swap_file], ids=["folder", "file"])
async def test_outputs_of_a_running_cell_follow_no_link(
    root: Path, private: Path, swap: Callable[[Path, Path], str]
) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "private.ipynb").write_bytes(written(notebook(code("x", "aaaa1111"))))
    store = store_in(root)
    document = await store.open("sub/private.ipynb")
    async with document.writing("aaaa1111") as writer:
        writer.start()
        await writer.write([AppendOutput(stream("one"))])
        await document.flush()
        exec(swap(root, private.parent), {"os": os})
        await writer.write([AppendOutput(stream("two"))])
        with suppress(ToolError):
            await writer.finish(1)
    assert contents_of(private.parent) == {private.name: PRIVATE}
    (cell,) = json.loads((root / "sub2" / "private.ipynb").read_bytes())["cells"]
    assert cell["outputs"][0]["text"] == ["one"]
    assert isinstance(await within_deadline(store.open("sub/private.ipynb")), PathRefused)
    await store.close()


@pytest.mark.parametrize("swap", [swap_folder, swap_file], ids=["folder", "file"])
async def test_a_link_that_appears_after_the_check_of_the_path_is_not_opened(
    root: Path, private: Path, swap: Callable[[Path, Path], str]
) -> None:
    """The path was contained when it was checked."""
    (root / "sub").mkdir()
    (root / "sub" / "private.ipynb").write_bytes(written(notebook(code("x", "aaaa1111"))))
    store = NotebookStore(root, str)
    document = await store.open("sub/private.ipynb")
    exec(swap(root, private.parent), {"os": os})
    replace = Replace("aaaa1111", "new")
    for name in ("sub/private.ipynb", None):
        opened = document if name is None else await within_deadline(store.open(name))
        if not isinstance(opened, ToolError):
            await within_deadline(opened.apply([replace]))  # pyrefly: ignore[missing-attribute]
    await within_deadline(store.create("sub/new.ipynb", notebook()))
    await within_deadline(store.copy(document, "sub/copy.ipynb"))
    assert contents_of(private.parent) == {private.name: PRIVATE}
    await store.close()


# --- other files that the package opens


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda each: each.__name__)
async def test_a_text_file_is_a_regular_file(root: Path, private: Path, hostile: Hostile) -> None:
    place = root / "a.txt"
    hostile(place, private)
    files = FolderFiles(root)
    for action in (files.read_text("a.txt"), files.replace("a.txt", None, "mine")):
        result = await within_deadline(action, place)
        if hostile is dangling and result is None:
            assert (root / "nothing").read_text() == "mine"  # A link inside the root.
        else:
            assert isinstance(result, ToolError)
    assert contents_of(private.parent) == {private.name: PRIVATE}


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda each: each.__name__)
async def test_an_artifact_that_code_put_there_is_a_regular_file(
    root: Path, private: Path, hostile: Hostile
) -> None:
    """Code of a user can write that user's folder of artifacts."""
    artifacts = Artifacts(root / "artifacts")
    kept = await artifacts.write("ada", "text\n")
    (place,) = artifacts.folder_of("ada").iterdir()
    place.unlink()
    hostile(place, private)
    for action in (artifacts.read("ada", kept.id), artifacts.data("ada", kept.id)):
        assert isinstance(await within_deadline(action, place), NotFound)
