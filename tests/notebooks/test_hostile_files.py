"""What others put under a name in a user's folder: links, FIFOs, devices and files of any size."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import random
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.contents.filemanager import (
    AsyncFileContentsManager,
    FileContentsManager,
)
from jupyter_server.utils import ensure_async

from tk_ai_extension.model.cells import Snapshot
from tk_ai_extension.model.errors import (
    ArtifactNotFound,
    InvalidNotebook,
    ToolError,
)
from tk_ai_extension.notebooks.files import recovery
from tk_ai_extension.notebooks.files.atomic import replace_on_save
from tk_ai_extension.notebooks.files.recovery import copy_beside
from tk_ai_extension.notebooks.router import NotebookRouter
from tk_ai_extension.testing.document_bench import DEADLINE, code, notebook, written
from tk_ai_extension.workspace.artifacts import Artifacts
from tk_ai_extension.workspace.folder_files import FolderFiles
from tk_ai_extension.workspace.paths import notebook_path

pytestmark = pytest.mark.proves("threat:path")

SECRET = "a_secret = 42"
PRIVATE = written(notebook(code(SECRET, "aaaa1111")))


def link_out(place: Path, private: Path) -> None:
    place.symlink_to(private)


def link_back_and_out(place: Path, private: Path) -> None:
    place.symlink_to(os.path.relpath(private, place.parent))


def link_to_link(place: Path, private: Path) -> None:
    between = place.with_name(f"between-{place.name.strip('.~')}.txt")
    between.symlink_to(private)
    place.symlink_to(between.name)


def link_to_a_device(place: Path, private: Path) -> None:
    place.symlink_to("/dev/zero")


def fifo(place: Path, private: Path) -> None:
    os.mkfifo(place)


def link_to_a_fifo(place: Path, private: Path) -> None:
    os.mkfifo(private.with_name(f"fifo-{place.name}"))
    place.symlink_to(private.with_name(f"fifo-{place.name}"))


def listening(place: Path, private: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(os.path.relpath(place))


def folder(place: Path, private: Path) -> None:
    place.mkdir()


def endless(place: Path, private: Path) -> None:
    """A sparse file of a terabyte."""
    place.write_bytes(b"")
    os.truncate(place, 1 << 40)


def dangling(place: Path, private: Path) -> None:
    place.symlink_to("nothing")


def circle(place: Path, private: Path) -> None:
    place.symlink_to(place.name)


Hostile = Callable[[Path, Path], None]
HOSTILE: list[Hostile] = [
    link_out, link_back_and_out, link_to_link, link_to_a_device, fifo, link_to_a_fifo, listening,
    folder, dangling, circle,
]  # fmt: skip


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)  # The path of a socket is short.
    monkeypatch.setattr("tk_ai_extension.notebooks.files.state._WRITER_DELAYS", ())
    return folder


@pytest.fixture
def private(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    file = outside / "private.ipynb"
    file.write_bytes(PRIVATE)
    return file


def store_in(root: Path) -> NotebookRouter:
    return NotebookRouter(root, partial(notebook_path, root))


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


async def read_notebook(store: NotebookRouter, name: str) -> object:
    return await (await store.open(name)).read()


# --- the copy that Jupyter leaves


@pytest.mark.parametrize("hostile", [*HOSTILE, endless], ids=lambda each: each.__name__)
@pytest.mark.parametrize("stored", [b"", b'{"cells": [', b"[]"])
async def test_a_copy_beside_a_notebook_is_a_file_or_nothing(
    root: Path, private: Path, hostile: Hostile, stored: bytes
) -> None:
    file = root / "a.ipynb"
    file.write_bytes(stored)
    hostile(copy_beside(file), private)
    before = contents_of(root)
    error = await within_deadline(read_notebook(store_in(root), "a.ipynb"), copy_beside(file))
    assert isinstance(error, InvalidNotebook)
    assert "copy" not in error.details
    assert SECRET not in error.as_text()
    assert contents_of(root) == before
    assert contents_of(private.parent) == {private.name: PRIVATE}


async def test_many_hostile_copies_leave_threads_for_everything_else(
    root: Path, private: Path
) -> None:
    """More notebooks than the default thread pool has threads, read at once in a random order."""
    names = [f"n{number}.ipynb" for number in range(40)]
    choice = random.Random(7)
    for name in names:
        (root / name).write_bytes(choice.choice([b"", b"{", b"[]"]))
        choice.choice(HOSTILE)(copy_beside(root / name), private)
    (root / "good.ipynb").write_bytes(PRIVATE)
    store = store_in(root)
    reads = [read_notebook(store, name) for name in [*names, "good.ipynb"]]
    copies = [copy_beside(root / name) for name in names]
    results = [within_deadline(read, *copies) for read in reads]
    *errors, good = await asyncio.gather(*results)
    assert all(isinstance(error, InvalidNotebook) for error in errors)
    assert isinstance(good, Snapshot)
    assert good.cells[0].source == SECRET


async def test_a_copy_up_to_the_bound_is_recovered_and_a_larger_one_is_not(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = root / "a.ipynb"
    for size, is_recovered in ((len(PRIVATE) - 1, False), (len(PRIVATE), True)):
        monkeypatch.setattr(recovery, "MAX_COPY", size)
        file.write_bytes(b"")
        copy_beside(file).write_bytes(PRIVATE)
        assert (recovery.recover(file) is not None) == is_recovered
        assert file.read_bytes() == (PRIVATE if is_recovered else b"")


@pytest.mark.parametrize("kind", [AsyncFileContentsManager, FileContentsManager])
async def test_jupyters_own_copy_overwrites_no_file_through_a_link(
    root: Path, private: Path, kind: type[FileContentsManager]
) -> None:
    manager: Any = kind(root_dir=str(root))
    assert replace_on_save(manager, lambda: False)
    file = root / "a.ipynb"
    file.write_bytes(written(notebook(code("old", "aaaa1111"))))
    file.with_name("second.ipynb").hardlink_to(file)  # Then Jupyter's own way is used.
    copy_beside(file).symlink_to(private)
    content = notebook(code("new", "aaaa1111"))
    model = {"type": "notebook", "format": "json", "content": content}
    await ensure_async(manager.save(model, "a.ipynb"))
    assert contents_of(private.parent) == {private.name: PRIVATE}
    assert json.loads(file.read_text())["cells"][0]["source"] == ["new"]


# --- a name that was a file when it was checked


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda each: each.__name__)
@pytest.mark.parametrize("large", [False, True])
async def test_a_notebook_that_is_replaced_while_it_is_open_is_not_read_through_a_link(
    root: Path, private: Path, hostile: Hostile, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr("tk_ai_extension.notebooks.files.state.INLINE", 0)
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
        assert isinstance(await within_deadline(action, place), ArtifactNotFound)


# --- no other way to open a file

_OPENS = {"open", "read_bytes", "read_text", "copyfile", "copy2", "FileIO"}

_OTHERWISE = {
    "notebooks/files/opening.py": "opens as this module tests",
    "notebooks/files/temporary.py": "creates new files (O_EXCL), relative to a folder",
    "notebooks/rooms/leases.py": "locks in the runtime folder, which is the user's own",
    "workspace/artifacts.py": "creates new files (O_EXCL, O_NOFOLLOW)",
    "workspace/database.py": "creates the database in the server's own folder",
    "workspace/python_runs.py": "reads a file of this package",
}
"""Modules that open files in another way, and why they may."""


def _opens_a_file(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id=name):
            return name in _OPENS
        case ast.Attribute(value=ast.Name(id="os"), attr="open"):
            return True
        case ast.Attribute(attr="open"):
            # The `open` of a document, a store or a socket takes no mode.
            texts = [a.value for a in call.args[:1] if isinstance(a, ast.Constant)]
            return bool({"mode", "encoding"} & {key.arg for key in call.keywords}) or any(
                text in ("r", "rb", "w", "wb", "a", "ab", "x", "xb") for text in texts
            )
        case ast.Attribute(attr=name):
            return name in _OPENS
        case _:
            return False


def test_no_module_opens_a_file_in_another_way() -> None:
    package = Path(recovery.__file__).parents[2]
    found: set[str] = set()
    for module in [*package.glob("notebooks/**/*.py"), *package.glob("workspace/**/*.py")]:
        nodes = list(ast.walk(ast.parse(module.read_text("utf-8"))))
        # What is awaited is a method of a document or of `workspace.files`.
        awaited = {id(node.value) for node in nodes if isinstance(node, ast.Await)}
        calls = [n for n in nodes if isinstance(n, ast.Call) and id(n) not in awaited]
        if any(map(_opens_a_file, calls)):
            found.add(module.relative_to(package).as_posix())
    assert found == set(_OTHERWISE)
