"""Agents: sessions that call random tools, based on what they have read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Protocol

from tk_ai_extension.model import celltext
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import VERSION_LENGTH, source_hash
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.testing.concurrency.history import Answer, Call
from tk_ai_extension.testing.concurrency.kernels import line
from tk_ai_extension.testing.concurrency.refusals import plain, reported_left
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.workspace import Workspace


class Session(Protocol):
    """One caller, through one interface.

    Attributes:
        name: Name of the session in the journal.
        lanes: Maximum number of concurrent calls.
    """

    name: str
    lanes: int

    async def call(self, tool: str, arguments: Mapping[str, Any], turn: str) -> Answer:
        """Call a tool."""
        ...


class RegistrySession:
    """A caller of the registry in this process.

    Args:
        workspace: The server's workspace.
        registry: The tools.
        caller: The caller.
    """

    lanes = 2

    def __init__(self, workspace: Workspace, registry: Registry, caller: Caller) -> None:
        self.name = caller.session or ""
        self._workspace = workspace
        self._registry = registry
        self._caller = caller

    async def call(self, tool: str, arguments: Mapping[str, Any], turn: str) -> Answer:
        """See `Session.call`; the journal has the turn."""
        caller = Caller(
            self._caller.user,
            self._caller.key,
            self._caller.interface,
            name=self._caller.name,
            turn=turn,
        )
        try:
            result = await self._registry.call(
                tool, arguments, ToolContext(self._workspace, caller)
            )
        except ToolError as error:
            return Answer({}, error.code, dict(error.details), error.message)
        return Answer(result.structured())


class Names:
    """Generator of unique tokens for sources."""

    def __init__(self) -> None:
        self._count = itertools.count(1)

    def token(self, actor: str) -> str:
        """Return a new token."""
        return f"{actor}{next(self._count)}"

    def source(self, actor: str, verb: str = "say") -> str:
        """Return a source that prints a new token."""
        return line(self.token(actor), verb)


class Agent:
    """An agent and its view of the notebook.

    Args:
        name: Short name, one word.
        session: Its session.
        names: Token generator shared by all actors.

    Attributes:
        view: Last read source of each cell.
        order: The cells as last listed.
    """

    def __init__(self, name: str, session: Session, names: Names) -> None:
        self.name = name
        self.session = session
        self.view: dict[str, str] = {}
        self.order: list[str] = []
        self._names = names
        self._text = ""
        self._base: dict[str, str] = {}

    # --- choosing

    def first(self) -> tuple[str, Json, dict[str, str]]:
        """Return the first call in a new notebook: read it."""
        return "read_notebook", {}, {}

    def next(self, random: Random, *, beside: bool = False) -> tuple[str, Json, dict[str, str]]:
        """Return the next call: a tool, its arguments, and the sources that it expects cells to have.

        Args:
            random: Source of randomness.
            beside: Whether the session makes a concurrent call: then choose one that does
                not depend on what was read.
        """
        if not self.order:
            # A concurrent read would change the sources that the other call's cells are compared with.
            return self.insert_and_execute_first() if beside else self.first()
        kinds = _BESIDE if beside else _KINDS
        weights = dict(kinds)
        if len(self.order) > 18:
            weights = {
                kind: weight * (0.3 if kind in _GROWING else 6 if kind in _SHRINKING else 1)
                for kind, weight in kinds.items()
            }
        if len(self.order) < 12:
            weights = {kind: w * (0 if kind in _SHRINKING else 1) for kind, w in kinds.items()}
        (kind,) = random.choices(list(weights), list(weights.values()))
        return _CHOICES[kind](self, random)

    def _cell(self, random: Random) -> str:
        return random.choice(self.order)

    def _seen(self, random: Random) -> tuple[str, str, dict[str, str]]:
        """Choose a cell with a known source: the key, an address, and the source."""
        key = random.choice([key for key in self.order if key in self.view] or [*self.view])
        source = self.view[key]
        version = source_hash(source)[:VERSION_LENGTH]
        return key, random.choice([key, f"{key}.{version}"]), {key: source}

    def _place(self, random: Random) -> Json:
        count = len(self.order)
        return random.choice(
            [
                {"index": 0},
                {"index": 0},
                {"index": 1},
                {"index": random.randrange(count + 1)},
                {},
                {"after": self._cell(random)},
            ]
        )

    def read_notebook(self, _: Random) -> tuple[str, Json, dict[str, str]]:
        return self.first()

    def list_cells(self, _: Random) -> tuple[str, Json, dict[str, str]]:
        return "list_cells", {}, {}

    def read_cell(self, random: Random) -> tuple[str, Json, dict[str, str]]:
        return "read_cell", {"cell": self._cell(random)}, {}

    def insert(self, random: Random) -> tuple[str, Json, dict[str, str]]:
        return (
            "insert_cell",
            {"source": self._names.source(self.name), **self._place(random)},
            {},
        )

    def insert_and_execute(self, random: Random) -> tuple[str, Json, dict[str, str]]:
        _, arguments, _ = self.insert(random)
        return "insert_and_execute_cell", arguments, {}

    def insert_and_execute_first(self) -> tuple[str, Json, dict[str, str]]:
        """Insert at the index that all agents use."""
        source = self._names.source(self.name)
        return "insert_and_execute_cell", {"source": source, "index": 0}, {}

    def overwrite(self, random: Random) -> tuple[str, Json, dict[str, str]]:
        _, address, expected = self._seen(random)
        source = self._names.source(self.name)
        return "overwrite_cell", {"cell": address, "source": source}, expected

    def edit(self, random: Random) -> tuple[str, Json, dict[str, str]]:
        key, address, expected = self._seen(random)
        return "edit_cell", {"cell": address, **self._edit_of(expected[key], random)}, expected

    def _edit_of(self, source: str, random: Random) -> Json:
        old = random.choice(source.splitlines())
        return {"old": old, "new": line(self._names.token(self.name))}

    def delete(self, random: Random) -> tuple[str, Json, dict[str, str]]:
        _, address, expected = self._seen(random)
        return "delete_cell", {"cell": address}, expected

    def move(self, random: Random) -> tuple[str, Json, dict[str, str]]:
        to = random.choice([0, 0, 1, random.randrange(len(self.order))])
        return "move_cell", {"cell": self._cell(random), "to": to}, {}

    def clear(self, random: Random) -> tuple[str, Json, dict[str, str]]:
        cells = random.sample(self.order, min(3, len(self.order)))
        return "clear_outputs", {"cells": ",".join(cells)}, {}

    def execute(self, random: Random) -> tuple[str, Json, dict[str, str]]:
        return "execute_cell", {"cell": self._cell(random)}, {}

    def execute_several(self, random: Random) -> tuple[str, Json, dict[str, str]]:
        cells = random.sample(self.order, min(2, len(self.order)))
        return "execute_cells", {"cells": ",".join(cells)}, {}

    def batch(self, random: Random) -> tuple[str, Json, dict[str, str]]:
        operations: list[Json] = []
        expected: dict[str, str] = {}
        run = random.random() < 0.5
        for kind in random.sample(["insert", "overwrite", "edit", "delete", "move"], 3):
            key, address, source = self._seen(random)
            if kind == "insert":
                verb = "fail" if run and random.random() < 0.3 else "say"
                new = self._names.source(self.name, verb)
                operations.append({"action": kind, "source": new, "index": random.choice([0, 1])})
            elif kind == "move":
                operations.append({"action": kind, "cell": self._cell(random), "to": 0})
            elif key not in expected:
                expected |= source
                operation: Json = {"action": kind, "cell": address}
                if kind == "overwrite":
                    operation["source"] = self._names.source(self.name)
                elif kind == "edit":
                    operation |= self._edit_of(source[key], random)
                operations.append(operation)
        gone = {each["cell"].partition(".")[0] for each in operations if each["action"] == "delete"}
        kept = [
            each
            for each in operations
            if each["action"] == "delete" or each.get("cell", "").partition(".")[0] not in gone
        ]
        return "edit_cells", {"operations": kept, "run": run}, expected

    def undo(self, random: Random) -> tuple[str, Json, dict[str, str]]:
        return "undo", {"steps": random.choice([1, 1, 2, 3])}, {}

    def write(self, random: Random) -> tuple[str, Json, dict[str, str]]:
        """Write the last read text with one cell changed and one appended."""
        parsed = celltext.parse(self._text)
        text = self._text
        if parsed.cells:
            old = random.choice(random.choice(parsed.cells).source.splitlines())
            text = text.replace(old, line(self._names.token(self.name)), 1)
        text = f"{text.rstrip(chr(10))}\n# %% [code]\n{self._names.source(self.name)}\n"
        return "write_notebook", {"text": text}, dict(self._base)

    # --- learning

    def learn(self, call: Call) -> None:
        """Update the view from a result."""
        answer = call.answer
        assert answer is not None
        data = answer.data
        if answer.error is not None:
            self._learn_error(call, answer)
            return
        match call.name:
            case "read_notebook":
                shown = celltext.parse(data["text"]).cells
                self.order = list(data["cells"])
                self._base = {key: cell.source for key, cell in zip(self.order, shown, strict=True)}
                self.view |= self._base
                self._text = data["text"]
            case "list_cells":
                self._learn_list(data["cells"])
            case "read_cell":
                self.view[data["cell"]] = data["source"]
            case "insert_and_execute_cell":
                self.view[data["runs"][0]["cell"]] = call.arguments["source"]
            case _:
                self._learn_changes(call, data.get("changes", ()))

    def _learn_error(self, call: Call, answer: Answer) -> None:
        for cell in answer.details.get("cells", ()):
            if cell.get("source") is not None:
                self.view[cell["cell"]] = cell["source"]
        if answer.error == "cell_not_found" and "cell" in call.arguments:
            self._forget(call.arguments["cell"].partition(".")[0])
        if reported_left(answer):
            # The error does not have the current sources of these cells.
            for operation in call.arguments.get("operations", ()):
                self.view.pop(plain(operation.get("cell")), None)

    def _learn_list(self, cells: Any) -> None:
        """Learn the sources of list entries with an address: they show the whole source."""
        for cell in cells:
            keys = [key for key in self.order if key.startswith(cell["cell"])]
            if "address" in cell and len(keys) == 1:
                self.view[keys[0]] = cell["first_line"]

    def _learn_changes(self, call: Call, changes: Any) -> None:
        for change in changes:
            key = change["cell"]
            if change["action"] == "delete":
                self._forget(key)
            elif change["action"] in ("insert", "replace"):
                # The result of an edit or an undo does not have the new source.
                whole = call.name in ("insert_cell", "overwrite_cell")
                if whole:
                    self.view[key] = call.arguments["source"]
                else:
                    self.view.pop(key, None)
                if change["action"] == "insert" and key not in self.order:
                    self.order.append(key)

    def _forget(self, key: str) -> None:
        self.view.pop(key, None)
        if key in self.order:
            self.order.remove(key)


_Choice = Callable[[Agent, Random], "tuple[str, Json, dict[str, str]]"]

_CHOICES: dict[str, _Choice] = {
    "read_notebook": Agent.read_notebook,
    "list_cells": Agent.list_cells,
    "read_cell": Agent.read_cell,
    "insert": Agent.insert,
    "insert_and_execute": Agent.insert_and_execute,
    "overwrite": Agent.overwrite,
    "edit": Agent.edit,
    "delete": Agent.delete,
    "move": Agent.move,
    "clear": Agent.clear,
    "execute": Agent.execute,
    "execute_several": Agent.execute_several,
    "batch": Agent.batch,
    "undo": Agent.undo,
    "write": Agent.write,
}
_KINDS = {
    "read_notebook": 10,
    "list_cells": 3,
    "read_cell": 5,
    "insert": 12,
    "insert_and_execute": 10,
    "overwrite": 12,
    "edit": 8,
    "delete": 7,
    "move": 8,
    "clear": 4,
    "execute": 10,
    "execute_several": 2,
    "batch": 8,
    "undo": 7,
    "write": 5,
}
_BESIDE = {"insert": 10, "insert_and_execute": 10, "move": 4, "execute": 6, "clear": 2, "undo": 2}
_GROWING = frozenset(("insert", "insert_and_execute", "write"))
_SHRINKING = frozenset(("delete", "undo"))
