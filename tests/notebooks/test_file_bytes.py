"""What was not edited stays byte-identical in the file, whatever program wrote it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.corpus import notebooks
from tests.notebooks.conftest import file_bench
from tests.notebooks.forms import forms
from tests.support.document_bench import DocumentBench, stream
from tk_ai_extension.model.cell_marked_text import parse, render
from tk_ai_extension.model.cell_operations import (
    Delete,
    Insert,
    Move,
    Operation,
    Replace,
    SetOutputs,
    expecting,
)
from tk_ai_extension.model.cells import CellData
from tk_ai_extension.model.errors import InvalidNotebook
from tk_ai_extension.model.three_way_merge import merge
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.notebooks.parsed_notebooks import read_notebook

FILES: dict[str, bytes] = forms() | {
    path.name: path.read_bytes() for path in notebooks("nbformat", "real", ".")
}


def is_writable(data: bytes) -> bool:
    try:
        return read_notebook(data, "").nbformat[0] == 4
    except InvalidNotebook:
        return False


WRITABLE = [name for name, data in FILES.items() if is_writable(data)]
ODD = {
    "sources on one line",
    "half surrogate pairs",
    "keys twice",
    "numbers as written",
    "odd white space",
}
"""Files with cells that no encoder writes: an edited one is rewritten."""
OTHERS = [name for name in FILES if name not in WRITABLE]


async def edit(document: NotebookDocument, operations: Sequence[Operation]) -> None:
    """Apply operations to the notebook as it is now; its cells may have no ids."""
    await document.apply(expecting(await document.read(), operations))


OfOne = Callable[[DocumentBench, str], Awaitable[None]]


def each_of(names: Sequence[str]) -> Callable[[OfOne], Callable[..., Awaitable[None]]]:
    """Makes a test of one file a test of several, each of which is a subtest."""

    def decorate(of_one: OfOne) -> Callable[..., Awaitable[None]]:
        async def of_each(bench: DocumentBench, subtests: pytest.Subtests) -> None:
            for name in names:
                with subtests.test(name):
                    await of_one(bench, name)

        return of_each

    return decorate


@dataclass
class NotebookBytes:
    """A file taken apart: what is around the cells, and each cell."""

    before: bytes
    cells: list[bytes]
    after: bytes

    @classmethod
    def of(cls, data: bytes) -> NotebookBytes:
        found = read_notebook(data, "")
        cells = list(found.chunks[1::2])
        for cell in cells:
            json.loads(cell)
        return cls(found.before, cells, found.after)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[DocumentBench]:
    async with file_bench(tmp_path) as made:
        yield made


async def opened(bench: DocumentBench, name: str) -> tuple[NotebookDocument, Path]:
    document = await bench.open(FILES[name])
    return document, bench.root / document.path


def faults(data: bytes) -> list[str]:
    """Errors of nbformat's validator."""
    version = json.loads(data)
    checker = nbformat.validator.get_validator(4, min(version.get("nbformat_minor", 0), 5))
    return [] if checker is None else [e.message for e in checker.iter_errors(version)]


async def through_text(document: NotebookDocument, change: Any) -> None:
    """Reads the text, changes it, writes it back."""
    base = await document.read()
    text = change(render(base))
    await edit(document, merge(base, await document.read(), parse(text)))


@pytest.mark.proves("text:round-trip", "doc:untouched-bytes")
@each_of(WRITABLE)
async def test_reading_and_writing_back_unchanged_leaves_the_file_alone(
    bench: DocumentBench, name: str
) -> None:
    document, file = await opened(bench, name)
    before = file.stat()
    await through_text(document, lambda text: text)
    assert file.read_bytes() == FILES[name]
    assert file.stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.proves("doc:untouched-bytes", "doc:unknown-fields")
@each_of(WRITABLE)
async def test_changing_one_cell_through_the_text_leaves_all_other_bytes(
    bench: DocumentBench, name: str
) -> None:
    document, file = await opened(bench, name)
    old = NotebookBytes.of(FILES[name])
    for number in {0, len(old.cells) // 2, len(old.cells) - 1} & set(range(len(old.cells))):
        was = (await document.read()).cells[number]
        before = NotebookBytes.of(file.read_bytes())
        source = f"{was.source}\nchanged ü {number}"
        await document.apply([Replace(was.key, source, keep_outputs=True, expect=was.hash)])
        new = NotebookBytes.of(file.read_bytes())
        assert (new.before, new.after) == (before.before, before.after)
        assert [c for n, c in enumerate(new.cells) if n != number] == [
            c for n, c in enumerate(before.cells) if n != number
        ]
        assert (await document.read()).cells[number].source == source
        stored, previous = json.loads(new.cells[number]), json.loads(before.cells[number])
        assert "".join(stored.pop("source")) == source
        previous.pop("source", None)
        assert repr(stored) == repr(previous)
    assert set(faults(file.read_bytes())) <= set(faults(FILES[name]))


@pytest.mark.proves("doc:untouched-bytes")
@each_of(WRITABLE)
async def test_moving_inserting_and_deleting_leave_the_bytes_of_all_other_cells(
    bench: DocumentBench, name: str
) -> None:
    document, file = await opened(bench, name)
    old = NotebookBytes.of(FILES[name])
    cells, count = list(old.cells), len(old.cells)

    async def check(new: set[int] | frozenset[int] = frozenset()) -> None:
        now = NotebookBytes.of(file.read_bytes())
        assert (now.before, now.after) == (old.before, old.after)
        for number in new:
            cells[number] = now.cells[number]
        assert now.cells == cells
        # The document's state of the file equals a fresh read.
        snapshot = await document.read()
        index = read_notebook(file.read_bytes(), document.path)
        assert snapshot.cells == index.cells
        assert snapshot.warnings == index.warnings

    for at in {0, count // 2, count}:
        await document.apply([Insert(CellData("markdown", f"new ü\n{at}"), index=at)])
        cells.insert(at, b"")
        await check({at})
    last = len(cells) - 1
    for move, to in [(0, last), (last, min(1, last)), (last // 2, 0)]:
        await edit(document, [Move((await document.read()).cells[move].key, to)])
        cells.insert(to, cells.pop(move))
        await check()
    for at in sorted({0, last // 2, last}, reverse=True):
        await edit(document, [Delete((await document.read()).cells[at].key)])
        del cells[at]
        await check()
    assert set(faults(file.read_bytes())) <= set(faults(FILES[name]))


@pytest.mark.proves("doc:untouched-bytes")
@each_of(WRITABLE)
async def test_running_a_cell_changes_its_outputs_and_count_alone(
    bench: DocumentBench, name: str
) -> None:
    document, file = await opened(bench, name)
    snapshot = await document.read()
    number = next((index for index, cell in enumerate(snapshot.cells) if cell.type == "code"), None)
    if number is None:
        return
    key = snapshot.cells[number].key
    before = NotebookBytes.of(FILES[name])
    await edit(document, [SetOutputs(key, (stream("one ü\ntwo"),), 42)])
    new = NotebookBytes.of(file.read_bytes())
    assert (new.before, new.after) == (before.before, before.after)
    assert [c for n, c in enumerate(new.cells) if n != number] == [
        c for n, c in enumerate(before.cells) if n != number
    ]
    stored, previous = json.loads(new.cells[number]), json.loads(before.cells[number])
    (output,) = stored.pop("outputs")
    assert (stored.pop("execution_count"), "".join(output["text"])) == (42, "one ü\ntwo")
    for field in ("outputs", "execution_count"):
        previous.pop(field, None)
    assert repr(stored) == repr(previous)


@pytest.mark.proves("doc:lenient", "doc:errors")
@each_of(OTHERS)
async def test_a_broken_or_old_file_is_left_untouched(bench: DocumentBench, name: str) -> None:
    document, file = await opened(bench, name)
    os.utime(file, (1, 1))
    with suppress(InvalidNotebook):
        assert (await document.read()).warnings
    with pytest.raises(InvalidNotebook):
        await document.apply([Insert(CellData("code", "x"))])
    assert file.read_bytes() == FILES[name]


@pytest.mark.proves("doc:new-file")
async def test_new_values_look_like_their_neighbours(bench: DocumentBench) -> None:
    """A file that is edited and edited back is the same again, in every form."""
    for name in WRITABLE:
        document, file = await opened(bench, name)
        cells = (await document.read()).cells
        for cell in cells if name in forms() else cells[len(cells) // 2 :][:1]:
            await edit(document, [Replace(cell.key, "other\nsource", keep_outputs=True)])
            await edit(document, [Replace(cell.key, cell.source, keep_outputs=True)])
        if name not in ODD:
            assert file.read_bytes() == FILES[name], name


@pytest.mark.proves("doc:untouched-bytes")
async def test_mode_owner_link_and_attributes_stay(bench: DocumentBench) -> None:
    document, file = await opened(bench, "as nbformat writes it")
    link = bench.root / "link.ipynb"
    link.symlink_to(file.name)
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, 12345, 54321)
    with suppress(OSError):  # Not every file system has them.
        os.setxattr(file, "user.note", b"mine")
    linked = await bench.store.open("link.ipynb")
    await linked.apply([Replace("aaaa1111", "through the link")])
    status = file.stat()
    assert link.is_symlink()
    assert stat.S_IMODE(status.st_mode) == 0o640
    if os.geteuid() == 0:
        assert (status.st_uid, status.st_gid) == (12345, 54321)
    with suppress(OSError):
        assert os.getxattr(file, "user.note") == b"mine"
    assert (await document.read()).cells[0].source == "through the link"
    assert sorted(path.name for path in bench.root.iterdir()) == sorted([file.name, link.name])


@pytest.mark.proves("doc:lenient", "doc:errors")
async def test_a_notebook_cut_off_anywhere_is_refused_and_left_alone(bench: DocumentBench) -> None:
    whole = FILES["fifty_cells.ipynb"]
    for size in range(0, len(whole) - 1024, 1024):
        cut = whole[:size]
        file = bench.root / bench.put(cut, "cut.ipynb")
        os.utime(file, (1, 1))
        document = await bench.store.open("cut.ipynb")
        with pytest.raises(InvalidNotebook, match=r"cut\.ipynb, line \d+, column \d+") as raised:
            await document.apply([Insert(CellData("code", "x"))])
        assert raised.value.details["line"] <= cut.count(b"\n") + 1
        assert file.read_bytes() == cut
