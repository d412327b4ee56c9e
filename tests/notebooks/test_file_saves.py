"""Saves of files: killed, on a full disk, hooked, against other writers."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.conftest import file_bench
from tests.support.document_bench import (
    DEADLINE,
    DocumentBench,
    code,
    notebook,
    prose,
    sources,
    written,
)
from tests.support.document_faults import another_user
from tk_ai_extension.model.cell_operations import Replace
from tk_ai_extension.model.errors import (
    DiskFull,
    NotebookNotFound,
    ReadOnly,
)

KILLS = 15

SAVING = """
import asyncio, os, sys
from functools import partial
from pathlib import Path
from tk_ai_extension.model.cell_operations import Replace
from tk_ai_extension.notebooks.notebook_store import NotebookStore
from tk_ai_extension.model.paths import notebook_path

root = Path(sys.argv[1])

async def save_on_and_on():
    store = NotebookStore(root, partial(notebook_path, root))
    document = await store.open("n.ipynb")
    source = (await document.read()).cells[0].source
    first = number = int(source.split()[1])
    parent = os.getppid()
    # Not for longer than there is a test.
    while os.getppid() == parent:
        number += 1
        # Longer and shorter, so that half of one is never the other.
        await document.apply([Replace("aaaa1111", f"save {number} " * (1 + number % 7 * 1000))])
        os.write(acknowledged, b"%d\\n" % number)
        if number == first + 1:
            os.write(1, b"saving\\n")

acknowledged = os.open(sys.argv[3], os.O_CREAT | os.O_APPEND | os.O_WRONLY)

for _ in range(int(sys.argv[2])):
    child = os.fork()
    if child == 0:
        asyncio.run(save_on_and_on())
    os.write(1, b"%d\\n" % child)
    os.waitpid(child, 0)
    sys.stdin.readline()
"""


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[DocumentBench]:
    async with file_bench(tmp_path) as made:
        yield made


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


# --- killed


@pytest.mark.proves("fault:killed-in-save", "doc:atomic-write")
@pytest.mark.timeout(300)
def test_a_save_that_is_killed_leaves_old_or_new_and_every_acknowledged_edit(
    tmp_path: Path,
) -> None:
    acknowledged = tmp_path / "acknowledged"
    root = tmp_path / "root"
    root.mkdir()
    file = root / "n.ipynb"
    file.write_bytes(written(notebook(code("save 0", "aaaa1111"), prose("x" * 500_000))))
    wrong: list[str] = []
    stop = threading.Event()

    def look() -> None:
        """What any reader finds at any time."""
        while not stop.wait(0.001):
            try:
                source = "".join(json.loads(file.read_bytes())["cells"][0]["source"])
            except (OSError, ValueError) as error:
                wrong.append(repr(error))
                return
            if len(set(source.split()[1::2])) > 1:
                wrong.append(source[:100])

    reader = threading.Thread(target=look)
    reader.start()
    command = [sys.executable, "-c", SAVING, str(root), str(KILLS), str(acknowledged)]
    chance = random.Random(4)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(KILLS):
            child = int(process.stdout.readline())
            assert process.stdout.readline() == "saving\n"
            # Somewhere in the next few saves.
            stop.wait(chance.random() * 0.03)
            os.kill(child, signal.SIGKILL)
            last = int(acknowledged.read_text().split()[-1])
            source = "".join(json.loads(file.read_bytes())["cells"][0]["source"])
            if int(source.split()[1]) < last:
                wrong.append(f"{last} was acknowledged, the file has {source[:20]}")
            process.stdin.write("next\n")
            process.stdin.flush()
    stop.set()
    reader.join(DEADLINE)
    assert not wrong
    assert process.returncode == 0
    # A save that is killed may leave a hidden file.
    assert [name for name in names(root) if not name.startswith(".~tk-")] == ["n.ipynb"]


# --- full, read-only


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("a disk can be mounted by root alone; RLIMIT_FSIZE stands in for it elsewhere")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.proves("fault:disk-full")
async def test_a_disk_without_room_keeps_the_old_content(small_disk: Path) -> None:
    async with file_bench(small_disk) as bench:
        document = await bench.open(notebook(code("a" * 300_000, "aaaa1111")))
        file = bench.root / document.path
        before = file.read_bytes()
        with pytest.raises(DiskFull, match=document.path):
            await document.apply([Replace("aaaa1111", "b" * 900_000)])
        assert file.read_bytes() == before
        assert sources((await document.read()).cells) == ["a" * 300_000]
        assert names(small_disk) == [document.path]
        with pytest.raises(DiskFull):
            await bench.store.create("new.ipynb", notebook(code("c" * 900_000)))
        assert names(small_disk) == [document.path]
        await document.apply([Replace("aaaa1111", "c")])
        assert sources((await document.read()).cells) == ["c"]


@pytest.mark.proves("fault:disk-full")
async def test_a_folder_that_may_not_be_written(bench: DocumentBench) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111")))
    file = bench.root / document.path
    file.chmod(0o666)
    before = file.read_bytes()
    with another_user(bench.root, mode=0o555):
        with pytest.raises(ReadOnly):
            await document.apply([Replace("aaaa1111", "new")])
        with pytest.raises(ReadOnly):
            await bench.store.create("new.ipynb", notebook())
    bench.root.chmod(0o755)
    assert file.read_bytes() == before
    assert names(bench.root) == [document.path]


# --- others write too


def write_at(
    monkeypatch: pytest.MonkeyPatch, moment: str, write: Callable[[], object]
) -> list[str]:
    """Has another program write when a function of `os` is done for the first time."""
    moments: list[str] = []
    real = getattr(os, moment)

    def function(*arguments: Any, **named: Any) -> Any:
        result = real(*arguments, **named)
        if not moments:
            moments.append(moment)
            write()
        return result

    monkeypatch.setattr(os, moment, function)
    return moments


@pytest.mark.proves("fault:concurrent-edit")
async def test_a_write_between_reading_and_replacing_is_not_lost(
    bench: DocumentBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program writes at the worst moment: after the new content was made from the old."""
    document = await bench.open(notebook(code("a", "aaaa1111"), code("b", "bbbb2222")))
    file = bench.root / document.path

    def write() -> None:
        other = json.loads(file.read_bytes())
        other["cells"][1]["source"] = ["theirs"]
        file.write_bytes(written(other))

    moments = write_at(monkeypatch, "fsync", write)
    await document.apply([Replace("aaaa1111", "mine")])
    assert moments
    assert await bench.person.sources(document.path) == ["mine", "theirs"]
    assert names(bench.root) == [document.path]


@pytest.mark.proves("fault:concurrent-edit")
async def test_a_file_that_goes_in_the_last_moment_stays_gone(
    bench: DocumentBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111")))
    write_at(monkeypatch, "fsync", (bench.root / document.path).unlink)
    with pytest.raises(NotebookNotFound):
        await document.apply([Replace("aaaa1111", "mine")])
    assert names(bench.root) == []


async def test_a_reader_waits_for_a_writer_in_the_middle_of_the_file(bench: DocumentBench) -> None:
    """Jupyter's own save shows half a file for a moment."""
    data = written(notebook(code("a" * 10_000, "aaaa1111")))
    path = bench.put(data[:5_000])
    reading = asyncio.create_task((await bench.store.open(path)).read())
    await asyncio.wait([reading], timeout=0.1)
    assert not reading.done()
    (bench.root / path).write_bytes(data)
    snapshot = await asyncio.wait_for(reading, DEADLINE)
    assert sources(snapshot.cells) == ["a" * 10_000]
