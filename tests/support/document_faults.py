"""Conformance of documents: broken notebooks, files that cannot be written, disks that are full."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.support.document_bench import (
    DocumentBench,
    code,
    notebook,
    sources,
    written,
)
from tk_ai_extension.model.cell_operations import Insert, Replace, expecting
from tk_ai_extension.model.cells import CellData
from tk_ai_extension.model.errors import DiskFull, InvalidNotebook, ReadOnly, ToolError

NOBODY = 65534
THROUGH = stat.S_IXGRP | stat.S_IXOTH

BROKEN: dict[str, tuple[bytes, int, int]] = {
    "empty": (b"", 1, 1),
    "blank": (b" \n ", 2, 2),
    "byte order mark": (b"\xef\xbb\xbf" + written(notebook()), 1, 1),
    "not UTF-8": (b'{\n "cells": ["\xff"]}', 2, 13),
    "not JSON": (b"{\n cells: []}", 2, 2),
    "cut off": (b'{"cells": [\n{"cell_type": "code"', 2, 21),
    "text after": (b'{"cells": []} x', 1, 15),
    "no object": (b"[]", 1, 1),
    "no cells": (b'{"nbformat": 4}', 1, 1),
    "cells is no array": (b'{"nbformat": 4,\n "cells": {}}', 2, 11),
    "a cell is no object": (b'{"nbformat": 4, "cells": [\n1]}', 2, 1),
    "a cell has no type": (b'{"nbformat": 4, "cells": [\n {"source": ""}]}', 2, 2),
    "a cell has a wrong type": (
        b'{"nbformat": 4, "cells": [{"cell_type": "code"},\n{"cell_type": "x"}]}',
        2,
        1,
    ),
    "nested too deeply": (b'{"cells": ' + b"[" * 100_000, 1, 1),
    "old and empty": (b'{"nbformat": 3}', 1, 1),
}


@contextmanager
def another_user(folder: Path, mode: int = 0o777) -> Generator[None]:
    """Act as a user without root's override of file permissions.

    Args:
        folder: Folder of the files, made reachable for that user.
        mode: New mode of the folder.
    """
    folder.chmod(mode)
    if os.geteuid() != 0:
        yield
        return
    for parent in folder.parents:
        mode = stat.S_IMODE(parent.stat().st_mode)
        if mode & THROUGH != THROUGH:
            parent.chmod(mode | THROUGH)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def no_file_larger_than(size: int) -> Generator[None]:
    """Make writes beyond a size in bytes fail, as on a full disk."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class FaultConformance:
    """Handling of faulty files."""

    @pytest.mark.proves("doc:errors", "doc:lenient")
    @pytest.mark.parametrize("fault", BROKEN)
    async def test_a_broken_notebook_is_refused_by_name_and_place_and_left_alone(
        self, bench: DocumentBench, fault: str
    ) -> None:
        data, line, column = BROKEN[fault]
        path = bench.put(data)
        os.utime(bench.root / path, (1, 1))  # Otherwise another program may still be writing it.
        document = await bench.store.open(path)
        insert = Insert(CellData("code", "new"))
        for attempt in (document.read, document.raw, partial(document.apply, [insert])):
            with pytest.raises(InvalidNotebook, match=path) as raised:
                await attempt()
            if bench.says_where:
                where = raised.value.details["line"], raised.value.details["column"]
                assert where == (line, column)
        assert (bench.root / path).read_bytes() == data

    @pytest.mark.proves("doc:lenient")
    @pytest.mark.filterwarnings("ignore::nbformat.warnings.DuplicateCellId")
    async def test_other_faults_are_warnings_and_the_notebook_stays_editable(
        self, bench: DocumentBench
    ) -> None:
        twice = notebook(code("a", "twice"), code("b", "twice"), code("c", "once1234"))
        document = await bench.open(twice)
        snapshot = await document.read()
        if bench.keeps_bytes:  # Jupyter's own open repairs it.
            assert [cell.key for cell in snapshot.cells] == ["cell-0", "cell-1", "once1234"]
            assert any("twice" in warning for warning in snapshot.warnings)
        keys = [cell.key for cell in snapshot.cells]
        edits = [Replace(keys[1], "new b"), Replace(keys[2], "new c")]
        await document.apply(expecting(snapshot, edits))
        assert sources((await document.read()).cells) == ["a", "new b", "new c"]

    @pytest.mark.proves("fault:disk-full", "doc:atomic-write")
    async def test_a_file_that_may_not_be_written_is_not(self, bench: DocumentBench) -> None:
        document = await bench.open(notebook(code("a", "aaaa1111")))
        await document.read()
        file = bench.root / document.path
        before = file.read_bytes()
        file.chmod(0o444)
        with another_user(bench.root), pytest.raises(ReadOnly, match=document.path):
            await document.apply([Replace("aaaa1111", "new")])
        assert file.read_bytes() == before
        assert sources((await document.read()).cells) == ["a"]
        file.chmod(0o644)
        await document.apply([Replace("aaaa1111", "new")])
        assert sources((await bench.on_disk(document))["cells"]) == ["new"]

    @pytest.mark.proves("fault:disk-full", "doc:atomic-write")
    async def test_a_full_disk_is_reported_and_changes_nothing(self, bench: DocumentBench) -> None:
        document = await bench.open(notebook(code("a" * 10_000, "aaaa1111")))
        await document.read()
        file = bench.root / document.path
        before = file.read_bytes()
        with no_file_larger_than(8_000), pytest.raises(DiskFull, match=document.path):
            await document.apply([Replace("aaaa1111", "new " * 5_000)])
        assert file.read_bytes() == before
        assert sources((await document.read()).cells) == ["a" * 10_000]
        await document.apply([Replace("aaaa1111", "new")])
        assert sources((await bench.on_disk(document))["cells"]) == ["new"]

    @pytest.mark.proves("fault:disk-full")
    async def test_outputs_on_a_full_disk_stay_in_memory_until_the_end(
        self, bench: DocumentBench
    ) -> None:
        from tests.support.document_outputs import run

        document = await bench.open(notebook(code("a" * 10_000, "aaaa1111"), code("b", "bbbb2222")))
        await document.read()
        before = (bench.root / document.path).read_bytes()
        with no_file_larger_than(8_000):
            try:
                await run(document, "bbbb2222", "out", 1)
            except ToolError as error:
                assert isinstance(error, DiskFull)  # noqa: PT017 - a tab may raise it at the next edit
        assert json.loads((bench.root / document.path).read_bytes()) == json.loads(before)
        await run(document, "bbbb2222", "out", 2)
        stored = (await bench.on_disk(document))["cells"][1]
        assert "".join(stored["outputs"][0]["text"]) == "out"
