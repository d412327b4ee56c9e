"""Several writers of one text file: of those that expect the same content, one succeeds.

A writer is another chat, an undo, another server of the same folder, or one that knows the file by a link.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.harness import ALICE, BOB, ToolHarness, backend, documents, harness, jp_server_config
from tk_ai_extension.model.errors import Conflict, DiskFull, InvalidArguments, ToolError
from tk_ai_extension.server.files import ContentsFiles
from tk_ai_extension.workspace import file_edits
from tk_ai_extension.workspace.files import Files
from tk_ai_extension.workspace.folder_files import FolderFiles
from tk_ai_extension.workspace.undo_entries import undo_entries

__all__ = ["backend", "documents", "harness", "jp_server_config"]

pytestmark = pytest.mark.proves("perm:agent-files")

NAMES = ("notes.py", "link.py", "folder/notes.py")
"""Names of one file."""


def same(path: str) -> str:
    """A path as it is: it is inside the root."""
    return path


def names_in(folder: Path) -> set[str]:
    """What a folder has, hidden files too."""
    return {each.name for each in folder.iterdir()}


class Stored:
    """A contents manager that does not store files, as one of an object store."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)


@pytest.fixture
def root(harness: ToolHarness) -> Path:
    for name in NAMES[1:]:
        link = harness.root / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(harness.root / NAMES[0])
    return harness.root


@pytest.fixture(params=["files", "stored"])
def writers(request: pytest.FixtureRequest, root: Path, harness: ToolHarness) -> list[Files]:
    """Those of several servers of the same folder; or of one without files, where only one can compare."""
    manager = harness.app.contents_manager
    if request.param == "stored":
        return [ContentsFiles(Stored(manager), same, same)] * 2
    return [harness.workspace.files, FolderFiles(root), FolderFiles(root)]


@pytest.mark.parametrize("seed", range(4))
async def test_no_write_that_succeeded_is_lost(writers: list[Files], root: Path, seed: int) -> None:
    random, file = Random(seed), root / NAMES[0]
    file.write_text("")
    written: list[str] = []

    async def write(number: int) -> None:
        files, name = random.choice(writers), random.choice(NAMES)
        for step in range(3):
            line = f"{number}.{step}\n"
            before = await files.read_text(name)
            try:
                await files.replace(name, before, before + line * random.choice([1, 20_000]))
            except Conflict:
                continue
            written.append(line)

    await asyncio.gather(*(write(number) for number in range(8)))
    lines = file.read_text().splitlines(keepends=True)
    assert list(dict.fromkeys(lines)) == written
    assert names_in(root) == {"notes.py", "link.py", "folder"}


@pytest.mark.parametrize("exists", [True, False])
async def test_of_those_that_expect_the_same_one_succeeds(
    writers: list[Files], root: Path, *, exists: bool
) -> None:
    file, before = root / NAMES[0], "old" if exists else None
    for after in ("new", None) if exists else ("new",):
        if exists:
            file.write_text("old")
        else:
            file.unlink(missing_ok=True)
        texts = [after if number % 2 else "other" for number in range(6)]
        tried = [
            writers[number % len(writers)].replace(NAMES[number % 3], before, text)
            for number, text in enumerate(texts)
        ]
        results = await asyncio.gather(*tried, return_exceptions=True)
        (index,) = [number for number, result in enumerate(results) if result is None]
        assert all(isinstance(each, Conflict) for each in results if each is not None)
        assert (file.read_text() if file.exists() else None) == texts[index]


Act = Callable[[], Awaitable[Any]]


@pytest.mark.proves("edit:history")
@pytest.mark.parametrize("seed", range(6))
async def test_an_undo_and_a_write_at_once_are_one_after_the_other(
    harness: ToolHarness, seed: int
) -> None:
    random, workspace, name = Random(seed), harness.workspace, NAMES[0]
    file = harness.root / name
    for _ in range(8):
        file.write_text("old")
        await workspace.journal.deleted(name)
        await file_edits.write(workspace, ALICE, name, "A", expect="old", tool="write")
        entries = await workspace.journal.undoable(ALICE, name)
        acts: dict[str, Act] = {
            "B": lambda: file_edits.write(workspace, BOB, name, "B", expect="A", tool="write"),
            "C": lambda: file_edits.write(workspace, ALICE, name, "C", expect="A", tool="write"),
            "old": lambda of=entries: undo_entries(workspace, ALICE, of),
            "old, too": lambda of=entries: undo_entries(workspace, BOB, of),
        }
        order = random.sample(sorted(acts), random.randint(2, 4))
        results = await asyncio.gather(*(acts[each]() for each in order), return_exceptions=True)
        done = [
            act
            for act, result in zip(order, results, strict=True)
            if not isinstance(result, Exception)
            and not (isinstance(result, list) and result[0].left)
        ]
        assert all(isinstance(each, Conflict) for each in results if isinstance(each, Exception))
        assert len(done) == 1, "both would have changed A"
        assert file.read_text() == done[0].partition(",")[0]
        history = await workspace.journal.history(name, 10, ALICE.user)
        assert {each.state for each in history} <= {"done", "failed", "undone"}
        assert (history[-1].state == "undone") == done[0].startswith("old")


@pytest.mark.proves("edit:history")
async def test_what_was_undone_is_not_undone_again(harness: ToolHarness) -> None:
    """From a list of before, and where another chat has written the same text since."""
    workspace, name = harness.workspace, NAMES[0]
    await file_edits.write(workspace, ALICE, name, "A", expect=None, tool="write")
    entries = await workspace.journal.undoable(ALICE, name)
    await undo_entries(workspace, ALICE, entries)
    await file_edits.write(workspace, BOB, name, "A", expect=None, tool="write")
    with pytest.raises(Conflict):
        await undo_entries(workspace, ALICE, entries)
    assert (harness.root / name).read_text() == "A"
    assert len(await workspace.journal.undoable(BOB, name)) == 1


@pytest.mark.proves("doc:atomic-write")
async def test_a_reader_sees_a_whole_text(root: Path, harness: ToolHarness) -> None:
    file, texts = root / NAMES[0], ["a" * 3_000_000, "b" * 2_000_000]
    seen, stopped = set[str](), threading.Event()
    file.write_text(texts[0])

    def read() -> None:
        while not stopped.is_set():
            seen.add(file.read_text())

    reading = asyncio.create_task(asyncio.to_thread(read))
    for files in (harness.workspace.files, FolderFiles(root)):
        for before, after in (texts, texts[::-1]) * 4:
            await files.replace(NAMES[0], before, after)
    stopped.set()
    await reading
    assert seen <= set(texts)


@contextmanager
def full_disk() -> Generator[None]:
    """No file of this process may grow beyond some bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.proves("doc:atomic-write")
async def test_a_write_to_a_full_disk_changes_nothing(root: Path, harness: ToolHarness) -> None:
    file, old = root / NAMES[0], "precious\n" * 1_000
    file.write_text(old)
    for files in (harness.workspace.files, FolderFiles(root)):
        for name, before in ((NAMES[0], old), ("new.py", None)):
            with full_disk(), pytest.raises(DiskFull):
                await files.replace(name, before, old + "more")
    assert file.read_text() == old
    assert names_in(root) == {"notes.py", "link.py", "folder"}


@pytest.mark.parametrize("link", NAMES[1:])
async def test_a_file_keeps_its_mode_and_its_links(
    root: Path, harness: ToolHarness, link: str
) -> None:
    file = root / NAMES[0]
    for files in (harness.workspace.files, FolderFiles(root)):
        file.write_text("old")
        file.chmod(0o751)
        await files.replace(link, "old", "new")
        assert file.read_text() == "new"
        assert file.stat().st_mode & 0o777 == 0o751
        assert (root / link).is_symlink()


@pytest.mark.proves("text:encodable")
async def test_a_text_that_is_no_unicode_leaves_nothing(
    writers: list[Files], root: Path, harness: ToolHarness
) -> None:
    for files in writers:
        with pytest.raises(InvalidArguments):
            await files.replace("new.py", None, "bad \ud800")
    workspace = harness.workspace
    with pytest.raises(InvalidArguments):
        await file_edits.write(workspace, ALICE, "new.py", "bad \ud800", expect=None, tool="write")
    assert await workspace.journal.history("new.py", 10, ALICE.user) == []
    assert not (root / "new.py").exists()


async def test_a_save_hook_changes_a_text_and_may_refuse_it(
    harness: ToolHarness, root: Path
) -> None:
    from tornado.web import HTTPError

    def hook(model: dict[str, Any], path: str, **_: Any) -> None:
        if "secret" in model["content"]:
            raise HTTPError(403, f"{path} has a secret")
        model["content"] = model["content"].rstrip(" ")

    harness.app.contents_manager.register_pre_save_hook(hook)
    await harness.workspace.files.replace("new.py", None, "text   ")
    assert (root / "new.py").read_text() == "text"
    with pytest.raises(ToolError):
        await harness.workspace.files.replace("new.py", "text", "secret")
    assert (root / "new.py").read_text() == "text"


@pytest.mark.proves("doc:errors")
@pytest.mark.parametrize(
    "name", ["n.ipynb", "n.ipynb/", "n.ipynb/.", "n.ipynb//", "./n.ipynb", "N.IPYNB", "link.txt"]
)
async def test_a_notebook_is_no_text_file_by_any_of_its_names(
    harness: ToolHarness, name: str
) -> None:
    harness.write("n.ipynb", "a = 1")
    (harness.root / "link.txt").symlink_to("n.ipynb")
    for path in (name, f"{harness.root}/{name}"):
        with pytest.raises(ToolError, match="is a notebook"):
            await harness.call("read_file", path=path)
