"""What belongs to a notebook stays with it: another one of the same name does not get it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.harness import ToolHarness, backend, documents, harness, jp_server_config
from tests.proposals import running
from tests.workspace.test_journal import A, ids, made
from tests.workspace.test_permissions import Shows
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import (
    Conflict,
    NothingToUndo,
    PermissionNotFound,
    PermissionRequired,
)
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.notebook_runs import run_notebook, run_plan
from tk_ai_extension.workspace import file_edits
from tk_ai_extension.workspace.journal import Journal
from tk_ai_extension.workspace.permissions import PermissionPolicy
from tk_ai_extension.workspace.standing_approvals import StandingApprovals

__all__ = ["backend", "documents", "harness", "jp_server_config"]

NAMES = ["a.ipynb", "b.ipynb", "x/a.ipynb", "x/b.ipynb", "y/a.ipynb"]


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = Journal(tmp_path / "state" / "journal.sqlite")
    yield journal
    await journal.close()


def below(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")


@dataclass
class Folder:
    """Notebooks by path: the entries of each, and the users who approved changes of it."""

    journal: Journal
    approvals: StandingApprovals = field(default_factory=StandingApprovals)
    entries: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    approved: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    users: list[Caller] = field(default_factory=list[Caller])

    def present(self, place: str) -> list[str]:
        return [path for path in self.entries if below(path, place)]

    async def create(self, path: str) -> None:
        if path in NAMES and not self.present(path):
            self.entries[path], self.approved[path] = [], set()

    async def change(self, path: str) -> None:
        if path in self.entries:
            self.entries[path].append(await made(self.journal, path=path))

    async def approve(self, path: str) -> None:
        if path in self.entries:
            self.users.append(Caller(f"user {len(self.users)}", "s"))
            self.approvals.add(self.users[-1], "WRITE", notebook=path, tool=None)
            self.approved[path].add(self.users[-1].user)

    async def rename(self, old: str, new: str) -> None:
        same_kind = (old in NAMES) == (new in NAMES)
        if not same_kind or not self.present(old) or self.present(new):
            return
        for path in self.present(old):
            self.entries[new + path[len(old) :]] = self.entries.pop(path)
            self.approved[new + path[len(old) :]] = self.approved.pop(path)
        await self.journal.renamed(old, new)
        self.approvals.renamed(old, new)

    async def delete(self, place: str) -> None:
        if self.present(place):
            for path in self.present(place):
                del self.entries[path], self.approved[path]
            await self.journal.deleted(place)
            self.approvals.deleted(place)

    def approving(self, path: str) -> set[str]:
        """The users whose agents may change a notebook without asking."""
        return {
            each.user
            for each in self.users
            if self.approvals.applies(each, "WRITE", notebook=path, tool="x", scope="any")
        }


@dataclass
class Asking:
    """Notebooks by path, each the only one that its answers may concern.

    A call of a notebook is asked about with its path; the answer arrives after renames and deletes.
    """

    policy: PermissionPolicy = field(default_factory=PermissionPolicy)
    notebooks: dict[str, int] = field(default_factory=dict[str, int])
    asked: dict[str, tuple[Caller, int]] = field(default_factory=dict[str, tuple[Caller, int]])
    answers: list[tuple[Caller, int]] = field(default_factory=list[tuple[Caller, int]])
    calls: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def check(self, caller: Caller, path: str, **how: Any) -> Coroutine[Any, Any, None]:
        proposal = running("x", path)
        return self.policy.check(caller, "x", "WRITE", arguments={}, proposal=proposal, **how)

    async def ask(self, path: str, *, within_call: bool) -> None:
        number = len(self.asked)
        caller = Caller(f"user {number}", "s", mode="ask")
        if within_call:
            call = asyncio.create_task(self.check(caller, path, approver=Shows()))
            self.calls.add(call)
            await asyncio.sleep(0)
        else:
            with pytest.raises(PermissionRequired):
                await self.check(caller, path)
        (request,) = self.policy.pending(caller.user)
        self.asked[request.id] = caller, self.notebooks[path]

    def answer(self, choice: random.Random) -> None:
        request = choice.choice(list(self.asked))
        caller, notebook = self.asked[request]
        with suppress(PermissionNotFound):
            self.policy.answer(caller.user, request, choice.choice(["once", "notebook"]))
            self.answers.append((caller, notebook))

    def rename(self, old: str, new: str) -> None:
        if old in self.notebooks:
            # A former notebook there was removed by another program, which nobody noticed.
            self.notebooks[new] = self.notebooks.pop(old)
            self.policy.renamed(old, new)

    def delete(self, path: str) -> None:
        if self.notebooks.pop(path, None) is not None:
            self.policy.deleted(path)

    async def runs(self, caller: Caller, path: str) -> bool:
        """Whether this call runs now without asking."""
        try:
            await self.check(caller, path)
        except PermissionRequired:
            return False
        return True


@pytest.mark.proves("perm:ask")
@pytest.mark.parametrize("seed", range(12))
async def test_an_answer_concerns_the_notebook_that_was_asked_about(seed: int) -> None:
    choice, asking = random.Random(seed), Asking()
    for number in range(40):
        path, other = choice.sample(NAMES[:2], 2)
        asking.notebooks.setdefault(path, number)
        match choice.randrange(6):
            case 0:
                asking.rename(path, other)
            case 1:
                asking.delete(path)
            case 2 if asking.asked:
                asking.answer(choice)
            case _:
                await asking.ask(path, within_call=choice.random() < 0.5)
        # Calls that were answered or withdrawn go on.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    for caller, notebook in asking.answers:
        for path, there in asking.notebooks.items():
            assert there == notebook or not await asking.runs(caller, path)
    for call in asking.calls:
        call.cancel()
    for ended in await asyncio.gather(*asking.calls, return_exceptions=True):
        assert ended is None or isinstance(ended, asyncio.CancelledError | Conflict)


@pytest.mark.proves("edit:history", "kernel:shared-live")
@pytest.mark.parametrize("seed", range(8))
async def test_entries_and_approvals_are_of_the_notebook_and_not_of_its_name(
    journal: Journal, seed: int
) -> None:
    """Notebooks and folders are made, changed, renamed and deleted, in any order."""
    randomness, folder = random.Random(seed), Folder(journal)
    for _ in range(60):
        place, other = (randomness.choice([*NAMES, "x", "y"]) for _ in range(2))
        steps: list[Coroutine[None, None, None]] = [
            folder.create(place),
            folder.change(place),
            folder.approve(place),
            folder.rename(place, other),
            folder.delete(place),
        ]
        step = randomness.choice(steps)
        await step
        for each in steps:
            if each is not step:
                each.close()
        for path in NAMES:
            known = sorted(folder.entries.get(path, []), reverse=True)
            assert ids(await journal.undoable(A, path)) == known
            assert ids(await journal.history(path, 100, "ada")) == known
            assert folder.approving(path) == folder.approved.get(path, set())
        everything = [each for some in folder.entries.values() for each in some]
        assert ids(await journal.undoable(A, None)) == sorted(everything, reverse=True)


@pytest.mark.proves("edit:history")
async def test_nothing_of_a_deleted_notebook_is_undone_in_the_next_one_of_its_name(
    harness: ToolHarness, jp_fetch: Any
) -> None:
    for replacement in ("created", "renamed", "written over", "run"):
        path = f"{replacement}.ipynb"
        harness.write(path, "1", "2", "secret = 3")
        harness.write("draft.ipynb", "3", "4")
        await harness.call("read_notebook", notebook=path)
        await harness.call("delete_cell", notebook=path, cell=2)
        if replacement in ("created", "renamed"):
            await jp_fetch("api", "contents", path, method="DELETE")
        if replacement == "created":
            harness.write(path, "3", "4")
        elif replacement == "written over":  # As git does.
            notebook = json.loads((harness.root / "draft.ipynb").read_text())
            for number, cell in enumerate(notebook["cells"]):
                cell["id"] = f"other-{number}"
            (harness.root / path).write_text(json.dumps(notebook))
        elif replacement == "run":
            await run_into(harness, "draft.ipynb", path)
        else:
            body = json.dumps({"path": path})
            await jp_fetch("api", "contents", "draft.ipynb", method="PATCH", body=body)
        with pytest.raises((NothingToUndo, Conflict)):
            await harness.call("undo", notebook=path)
        assert harness.sources(path) == ["3", "4"]


async def run_into(harness: ToolHarness, path: str, output: str) -> None:
    """Runs a notebook into a file that is there, which the proposal says."""
    context = ToolContext(harness.workspace, harness.caller)
    plan = await run_notebook.function(context, path, output=output, wait=60)
    assert plan.proposal().steps[0].title == f"Replace {output} by a notebook with 2 cells"
    result = await run_plan(context, plan, "run_notebook")
    assert result.status == "ok"
    create = replace(plan, replaces=False)
    with pytest.raises(Conflict):
        await run_plan(context, create, "run_notebook")


@pytest.mark.proves("perm:agent-files")
async def test_a_file_that_changes_while_its_entry_is_written_is_left_alone(
    harness: ToolHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = harness.workspace
    file = harness.root / "notes.txt"
    intend = workspace.journal.intend

    async def saved_meanwhile(*args: Any, **options: Any) -> int:
        entry = await intend(*args, **options)
        file.write_text("A person's.")
        return entry

    for before in (None, "old"):
        file.unlink(missing_ok=True)
        if before is not None:
            file.write_text(before)
        with monkeypatch.context() as patched:
            patched.setattr(workspace.journal, "intend", saved_meanwhile)
            with pytest.raises(Conflict):
                await file_edits.write(workspace, A, "notes.txt", "new", expect=before, tool="x")
        assert file.read_text() == "A person's."
    await file_edits.write(workspace, A, "notes.txt", "new", expect="A person's.", tool="x")
    entries = await workspace.journal.undoable(A, "notes.txt")
    with monkeypatch.context() as patched:
        patched.setattr(workspace.journal, "intend", saved_meanwhile)
        with pytest.raises(Conflict):
            await file_edits.undo(workspace, A, "notes.txt", entries)
    assert file.read_text() == "A person's."
