"""Many clients that complete names and list notebooks at once, in folders with many files."""

from __future__ import annotations

import asyncio
import builtins
import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import mcp_types as types
import nbformat
import pytest
from mcp import Client

from tests.cases import Cases
from tests.harness import loop_turns
from tests.mcp.conftest import Connect
from tests.mcp.lines import lines_transport
from tk_ai_extension.mcp.notebook_list import NotebookList
from tk_ai_extension.model.errors import FileMissing
from tk_ai_extension.server.files import ContentsFiles
from tk_ai_extension.workspace import files
from tk_ai_extension.workspace.files import FileEntry

DEADLINE = 60
ARGUMENT = {"name": "path", "value": "a"}
TEMPLATE = types.ResourceTemplateReference(type="ref/resource", uri="notebook://{+path}")


@pytest.fixture
def folders(jp_root_dir: Path) -> list[str]:
    """The folders of the root, with a notebook in each."""
    names = ["", "a", "a/b", "c"]
    for name in names:
        (jp_root_dir / name).mkdir(exist_ok=True)
        nbformat.write(nbformat.v4.new_notebook(), jp_root_dir / name / "all.ipynb")
    return names


@pytest.mark.proves("mcp:completion", "mcp:resources", "threat:exhaustion")
async def test_clients_that_ask_at_once_share_one_walk(
    connect: Connect,
    *,
    workspace: Any,
    folders: list[str],
    address: str,
    jp_auth_header: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed: Counter[str] = Counter()
    list_folder = workspace.files.list

    async def count(path: str) -> Any:
        listed[path] += 1
        return await list_folder(path)

    monkeypatch.setattr(workspace.files, "list", count)
    async with (
        asyncio.timeout(DEADLINE),
        connect() as first,
        connect("?caller=other") as second,
        Client(lines_transport(address, jp_auth_header), mode="auto") as third,
    ):
        asking = [
            *(client.complete(TEMPLATE, ARGUMENT) for client in (first, second, third) * 8),
            *(client.list_resources() for client in (first, second, third) * 4),
        ]
        for answer in await asyncio.gather(*asking):
            found = (
                answer.completion.values
                if isinstance(answer, types.CompleteResult)
                else [each.title for each in answer.resources]
            )
            assert len(found) == len(folders)
    # It may take longer than a list is kept until all have asked.
    assert set(listed) == set(folders)
    assert max(listed.values()) <= 3


class Folder:
    """Files whose listing takes until the test ends it."""

    def __init__(self) -> None:
        self.count = 0
        self.running: asyncio.Future[list[FileEntry]] | None = None

    async def list(self, path: str) -> builtins.list[FileEntry]:
        assert path == ""
        assert self.running is None, "Two walks at once."
        self.count += 1
        self.running = asyncio.get_running_loop().create_future()
        try:
            return await self.running
        finally:
            self.running = None


async def test_a_walk_that_fails_or_that_nobody_awaits_is_not_kept() -> None:
    with Cases() as cases:
        for seed in range(40):
            with cases.case(seed):
                async with asyncio.timeout(DEADLINE):
                    await schedule(random.Random(seed))


async def schedule(rng: random.Random) -> None:
    folder: Any = Folder()
    notebooks = NotebookList(folder)
    for number in range(6):
        asking = [
            asyncio.create_task(notebooks.get(recent=True)) for _ in range(rng.randrange(1, 5))
        ]
        await loop_turns()
        for each in asking:
            if rng.random() < 0.3:
                each.cancel()
        await loop_turns()
        before, fails = folder.count, rng.random() < 0.5
        walk = folder.running
        if walk is None:
            fails = True  # Nobody awaits it any more.
        elif fails:
            walk.set_exception(FileMissing("gone"))
        else:
            walk.set_result([FileEntry(f"{number}.ipynb", "notebook")])
        results = await asyncio.gather(*asking, return_exceptions=True)
        others = [each for each in results if not isinstance(each, asyncio.CancelledError)]
        assert walk is not None or not others
        await loop_turns()
        assert folder.count == before
        for each in others:
            assert isinstance(each, FileMissing) if fails else each == [f"{number}.ipynb"]
        if not fails:
            # It is kept, and used again without another walk.
            assert await notebooks.get(recent=True) == [f"{number}.ipynb"]
            assert folder.count == before
            # What has changed since is listed.
            listing = [asyncio.create_task(notebooks.get(recent=False)) for _ in range(3)]
            await loop_turns()
            folder.running.set_result([FileEntry("new.ipynb", "notebook")])
            assert await asyncio.gather(*listing) == [["new.ipynb"]] * 3
            assert folder.count == before + 1
            break
    await notebooks.close()


@pytest.mark.proves("threat:exhaustion", "threat:path")
async def test_no_path_of_a_listed_folder_is_checked_on_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each check may ask the file system, and there may be very many of them."""
    here = threading.get_ident()
    checked: set[int] = set()

    def contain(path: str) -> str:
        checked.add(threading.get_ident())
        return path

    class Contents:
        async def get(self, path: str, **_options: Any) -> Any:
            kinds = ("file", "notebook", "directory")
            names = [f"{path}/{number:05}".strip("/") for number in range(30)]
            return {
                "content": [
                    {"name": name, "path": name, "type": kind}
                    for name, kind in zip(names, kinds * 10, strict=True)
                ]
            }

    monkeypatch.setattr(files, "MAX_DEPTH", 2)
    listed = ContentsFiles(Contents(), contain, lambda path: path)
    found = [entry.path async for entry in files.Walk(listed, "", recursive=True)]
    assert len(found) == 30 + 10 * 30 + 100 * 30
    assert checked
    assert here not in checked
