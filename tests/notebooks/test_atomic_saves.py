"""Jupyter's own saves replace files."""

from __future__ import annotations

import errno
import json
import os
import stat
from base64 import b64encode
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.services.contents.filemanager import (
    AsyncFileContentsManager,
    FileContentsManager,
)
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from tests.support.document_faults import no_file_larger_than
from tk_ai_extension.notebooks.save_hooks import copy_beside, replace_on_save

MANAGERS = (AsyncFileContentsManager, FileContentsManager)


def notebook(*sources: str) -> dict[str, Any]:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    return json.loads(nbformat.writes(nbformat.v4.new_notebook(cells=cells)))


async def save(manager: Any, path: str, *sources: str) -> None:
    model = {"type": "notebook", "format": "json", "content": notebook(*sources)}
    await ensure_async(manager.save(model, path))


def sources(file: Path) -> list[str]:
    return [cell["source"] for cell in nbformat.read(file, 4).cells]


def names_in(folder: Path, pattern: str) -> set[str]:
    return {path.name for path in folder.glob(pattern) if path.is_file()}


def managers(root: Path) -> list[Any]:
    made = [kind(root_dir=str(root)) for kind in MANAGERS]
    for manager in made:
        assert replace_on_save(manager, lambda: False)
    return made


@pytest.mark.proves("fault:killed-in-save")
async def test_a_save_replaces_the_file_and_keeps_what_it_is(tmp_path: Path) -> None:
    for number, manager in enumerate(managers(tmp_path)):
        folder = tmp_path / str(number)
        (folder / "real").mkdir(parents=True)
        file, link = folder / "real" / "a.ipynb", folder / "link.ipynb"
        link.symlink_to(Path("real", "a.ipynb"))
        await save(manager, f"{number}/real/a.ipynb", "first")
        assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~_umask()
        file.chmod(0o640)
        copy_beside(file).write_text("of an earlier crash")
        with file.open("rb") as old:
            before = old.read()
            await save(manager, f"{number}/link.ipynb", "second")
            old.seek(0)
            # Who had the old one open reads it to its end: it was replaced, not overwritten.
            assert old.read() == before
        assert link.is_symlink()
        assert sources(file) == ["second"]
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
        assert not copy_beside(file).exists()
        assert names_in(file.parent, "*") == {"a.ipynb"}


def _umask() -> int:
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


async def test_a_file_with_two_names_keeps_both(tmp_path: Path) -> None:
    for number, manager in enumerate(managers(tmp_path)):
        file, other = tmp_path / f"{number}.ipynb", tmp_path / f"{number}-other.ipynb"
        await save(manager, file.name, "first")
        other.hardlink_to(file)
        await save(manager, file.name, "second")
        assert file.samefile(other)
        assert sources(other) == ["second"]


async def test_a_file_of_somebody_else_stays_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder such as /tmp nobody else may replace it, either."""
    somebody_else = os.geteuid() + 1
    for number, manager in enumerate(managers(tmp_path)):
        file = tmp_path / f"{number}.ipynb"
        await save(manager, file.name, "first")
        before = file.stat().st_ino
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: somebody_else)
            await save(manager, file.name, "second")
        assert file.stat().st_ino == before
        assert sources(file) == ["second"]


@pytest.mark.parametrize("kind", ["notebook", "text", "base64"])
async def test_a_file_that_is_a_mount_point_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As in a container whose user mounts a single file: nothing replaces that."""

    def busy(*_: Any, **__: Any) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    models = {
        "notebook": {"type": "notebook", "format": "json", "content": notebook("second")},
        "text": {"type": "file", "format": "text", "content": "two\nlines \N{SNOWMAN}"},
        "base64": {"type": "file", "format": "base64", "content": b64encode(bytes(300)).decode()},
    }
    for number, manager in enumerate(managers(tmp_path)):
        file, usual = tmp_path / f"{number}.{kind}.ipynb", tmp_path / f"usual.{kind}.ipynb"
        file.write_bytes(b"{}")
        before = file.stat().st_ino
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", busy)
            await ensure_async(manager.save(dict(models[kind]), file.name))
        await ensure_async(manager.save(dict(models[kind]), usual.name))
        assert file.stat().st_ino == before
        assert file.read_bytes() == usual.read_bytes()
        assert names_in(tmp_path, f"*{number}.{kind}*") == {file.name}


@pytest.mark.proves("fault:disk-full")
async def test_a_save_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    for number, manager in enumerate(managers(tmp_path)):
        file = tmp_path / f"{number}.ipynb"
        await save(manager, file.name, "first")
        before = file.read_bytes()
        with no_file_larger_than(2000), pytest.raises(HTTPError):
            await save(manager, file.name, "x" * 4000)
        assert file.read_bytes() == before
        names = names_in(tmp_path, f"{number}*")
        assert names == {file.name}


def test_a_manager_with_writing_of_its_own_is_left_alone(tmp_path: Path) -> None:
    class Own(FileContentsManager):
        def atomic_writing(self, *args: Any, **kwargs: Any) -> Any:
            return super().atomic_writing(*args, **kwargs)

    manager: Any = Own(root_dir=str(tmp_path))
    assert not replace_on_save(manager, lambda: False)
    assert "atomic_writing" not in vars(manager)
