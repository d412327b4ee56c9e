"""Edits in a scripted tab: each answer at each request, with a person's change in between.

Whatever the tab answers, and whenever it disconnects, an edit is recorded as done if and only if the
notebook has it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.support.document_bench import code, notebook, sources, written
from tests.support.tab_notebook import TabNotebook
from tk_ai_extension.model.cells import CellContent, source_hash
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.operations import (
    Delete,
    Insert,
    Move,
    Operation,
    Replace,
)
from tk_ai_extension.notebooks.live import NotebookRouter
from tk_ai_extension.notebooks.notebook import Notebook
from tk_ai_extension.notebooks.pages import Page, Pages, Tab, TabGone, TabRefused

KEY = " typed"
A, B = "aaaa1111", "bbbb2222"
STORED = notebook(code("a", A), code("b", B))
OPERATIONS: dict[str, tuple[Operation, Callable[[list[str]], bool]]] = {
    # Each edit, and whether cells have it.
    "insert": (
        Insert(CellContent("code", "new"), index=1),
        lambda cells: any(each.startswith("new") for each in cells),
    ),
    "replace": (
        Replace(A, "xyz", expect=source_hash("a")),
        lambda cells: any(each.startswith("xyz") for each in cells),
    ),
    "delete": (
        Delete(A, expect=source_hash("a")),
        lambda cells: not any(each.startswith("a") for each in cells),
    ),
    "move": (Move(A, to=1, after=B), lambda cells: index_of("a", cells) > index_of("b", cells)),
}


def index_of(start: str, cells: list[str]) -> int:
    return next(n for n, each in enumerate(cells) if each.startswith(start))


ANSWERS = (
    "answer",
    "cut before",  # The tab returns at once, without having seen the request.
    "cut after",
    "away before",  # It returns after the grace period.
    "away after",
    "closed before",
    "closed after",
    "refused",  # Before it does anything.
    "refused after",  # It has done it, and cannot answer.
    "refused for good",  # This request and all like it.
)
PERSON = ("", "type", "insert", "save")


class Script:
    """The choices of one run: the given ones, then the first of each.

    Attributes:
        sizes: The number of options of each choice that was made.
    """

    def __init__(self, given: tuple[int, ...], rng: random.Random | None = None) -> None:
        self.given = given
        self.sizes: list[int] = []
        self.made: list[str] = []
        self._rng = rng

    def choose(self, options: tuple[str, ...]) -> str:
        number = len(self.sizes)
        self.sizes.append(len(options))
        chosen = self.given[number] if number < len(self.given) else 0
        if self._rng is not None and self._rng.random() < 0.3:
            chosen = self._rng.randrange(len(options))
        self.made.append(options[chosen])
        return options[chosen]


class ScriptedTab(Tab):
    """A notebook in a tab that answers as the script says."""

    def __init__(self, script: Script, file: Path) -> None:
        super().__init__(Page("ann", "c" * 16), "1", Notebook("n.ipynb"))
        self.script = script
        self.file = file
        self.content = TabNotebook(self.path, STORED, sha256(written(STORED)).hexdigest())
        self.place = "open"
        self.typed = False
        self.asked = 0
        self.refusing: set[str] = set()
        self.refused_reverts = 0

    async def ask(self, method: str, **arguments: Any) -> Json:
        for _ in range(3):  # As a socket does: other tasks go on meanwhile.
            await asyncio.sleep(0)
        if self.place != "open":
            raise TabGone
        self.asked += 1
        self.person(self.script.choose(PERSON))
        answer = self.script.choose(ANSWERS) if self.asked < 30 else "answer"
        if method in self.refusing or answer == "refused for good":
            self.refusing.add(method)
            answer = "refused"
        if not answer.endswith(" before") and answer != "refused":
            answer_of = self.carried_out(method, arguments)
        else:
            answer_of = {}
        if answer.startswith("closed"):
            self.place = "closed"
        if answer.startswith("away"):
            self.place = "away"
        if answer.startswith(("closed", "away", "cut")):
            raise TabGone
        if answer.startswith("refused"):
            self.refused_reverts += "reverts" in arguments
            raise TabRefused("file_changed" if method == "save" else "too_large", "Refused.")
        return answer_of

    def carried_out(self, method: str, arguments: Json) -> Json:
        match method:
            case "read":
                return self.content.changes(arguments["since"], 1_000_000)
            case "apply":
                return self.content.apply(arguments, 1_000_000)
            case "save":
                base = (
                    self.content.hold(arguments["ops"], arguments["cells"]) if arguments else None
                )
                if base is not None:
                    return {"base": base}
                self.save()
        return {}

    async def tell(self, method: str, **arguments: Any) -> None:
        assert method == "written"
        if self.place == "open":
            self.content.written(arguments["hash"])

    def save(self) -> None:
        other, data = self.file.with_suffix(".new"), written(self.content.stored())
        other.write_bytes(data)
        other.replace(self.file)
        self.content.hash = sha256(data).hexdigest()
        self.content.is_saved(self.content.version)

    def person(self, does: str) -> None:
        cells = self.content.cells
        match does:
            case "type":
                self.typed = True
                # Where the edit is, if its cell is there.
                changed = next((c for c in cells if c["source"] in {"new", "xyz", "a"}), cells[0])
                self.content.edit(changed, source=changed["source"] + KEY)
            case "insert":
                cell = code("", f"p{self.asked:07}") | {"source": "of a person"}
                self.content.insert(0, cell)
            case "save":
                self.save()


class ScriptedPages(Pages):
    """The connection to the tab."""

    def __init__(self, tab: ScriptedTab) -> None:
        super().__init__()
        self.tab = tab

    def present(self, path: str) -> list[Tab]:
        return [self.tab] if self.tab.place == "open" and path == self.tab.path else []

    async def find(self, path: str) -> Tab | None:
        if self.tab.place == "away":
            self.tab.place = "closed"
        return next(iter(self.present(path)), None)

    async def returns(self, tab: Tab) -> bool:
        assert tab is self.tab
        await asyncio.sleep(0)
        if self.tab.place == "away":
            self.tab.place = self.tab.script.choose(("open", "closed"))
        return self.tab.place == "open"


class Run:
    """One edit, recorded as the journal does."""

    def __init__(self, store: NotebookRouter, tab: ScriptedTab) -> None:
        self._store = store
        self._tab = tab
        self.warnings: list[str] = []

    async def outcome(self, operation: Operation) -> str:
        """The journal's state of the edit, once nothing goes on any more."""
        router = NotebookRouter(
            self._tab.file.parent, str, tabs=ScriptedPages(self._tab), warn=self.warnings.append
        )
        document = await router.open(self._tab.path)
        try:
            applied = await document.apply([operation])
        except ToolError as error:
            return "unknown" if "unknown" in error.message else "failed"
        assert applied.changes
        return "done"

    async def cells(self) -> list[str]:
        """The sources as the person has them: in the tab, or in the file if that is closed."""
        if self._tab.place != "closed":
            return sources(self._tab.content.cells)
        return sources((await (await self._store.open(self._tab.path)).read()).cells)


async def check(kind: str, store: NotebookRouter, file: Path, script: Script) -> None:
    operation, is_in = OPERATIONS[kind]
    tab = ScriptedTab(script, file)
    tab.save()
    run = Run(store, tab)
    state = await run.outcome(operation)
    tab.script = Script(())
    cells, story = await run.cells(), f"{state} after {script.made}"
    if state == "unknown":
        assert tab.refused_reverts, story
    else:
        assert is_in(cells) == (state == "done"), f"{cells}: {story}"
    assert cells.count("new") + cells.count("new" + KEY) <= 1, f"{cells}: {story}"
    # What a person typed is in the tab, whole.
    if tab.typed and tab.place != "closed":
        assert any(KEY in each for each in cells), f"{cells}: {story}"
    parts = "".join(cells).replace(KEY, "").replace("of a person", "").replace("new", "")
    assert sorted(parts.replace("xyz", "a")) in (["a", "b"], ["b"]), f"{cells}: {story}"


def with_deviations(limit: int) -> Iterator[Script]:
    """Every script with this many choices at most that are not the first one."""
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        given = waiting.pop()
        script = Script(given)
        yield script
        if sum(choice != 0 for choice in given) < limit:
            for number in range(len(given), len(script.sizes)):
                before = given + (0,) * (number - len(given))
                waiting += [(*before, other) for other in range(1, script.sizes[number])]


@pytest.mark.proves("fault:tab-lost", "edit:linearizable")
@pytest.mark.parametrize("kind", OPERATIONS)
@pytest.mark.parametrize(
    ("deviations", "seeds"), [(1, 100), pytest.param(2, 500, marks=pytest.mark.soak)]
)
async def test_an_edit_is_recorded_as_done_if_and_only_if_the_notebook_has_it(
    kind: str, deviations: int, seeds: int, tmp_path: Path
) -> None:
    store = NotebookRouter(tmp_path, str)
    tried = 0
    for script in with_deviations(deviations):
        await check(kind, store, tmp_path / "n.ipynb", script)
        tried += 1
    assert tried > 20**deviations
    rng = random.Random(kind)
    for _ in range(seeds):
        await check(kind, store, tmp_path / "n.ipynb", Script((), rng))
    await store.close()
