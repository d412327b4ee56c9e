"""Rounds of concurrent calls, each checked once nothing is running."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tk_ai_extension.model.diffs import unified
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.outputs import stream_text
from tk_ai_extension.notebooks.base import NotebookStore
from tk_ai_extension.testing.concurrency.agents import Agent, Names, Session
from tk_ai_extension.testing.concurrency.history import (
    Call,
    CellState,
    Entry,
    History,
    State,
)
from tk_ai_extension.testing.concurrency.interleaving import interleaved
from tk_ai_extension.testing.concurrency.kernels import SaidLog
from tk_ai_extension.testing.concurrency.linearizability import Event, Verdict, linearize
from tk_ai_extension.testing.concurrency.model import events_of, printed
from tk_ai_extension.testing.concurrency.people import Person, choice
from tk_ai_extension.testing.document_bench import DEADLINE, code, notebook, written
from tk_ai_extension.workspace.change_encoding import decode_changes
from tk_ai_extension.workspace.journal import Journal

ROUNDS = 20
"""Rounds per notebook."""
CELLS = 12
"""Initial number of cells."""

# The journal itself forgets the changes of an entry that were undone, if others stand.
_MADE = """
CREATE TABLE IF NOT EXISTS made (entry INTEGER PRIMARY KEY, data TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS made_first AFTER INSERT ON changes BEGIN
    INSERT OR REPLACE INTO made VALUES (new.entry, new.data);
END;
"""
_ENTRIES = """
SELECT id, time, caller_key, turn, tool, kind, state, data
FROM entries LEFT JOIN made ON entry = id WHERE id > ? AND path = ? ORDER BY id
"""


class Violation(AssertionError):
    """No serial order explains the history, or something was lost, duplicated or mixed up."""


@dataclass(frozen=True)
class Fault:
    """A fault that is injected during a round.

    Attributes:
        name: For reports.
        inject: Injects it into the notebook at a path.
        excused: Error codes and statuses of runs that it explains.
    """

    name: str
    inject: Callable[[str, Random], Awaitable[None]]
    excused: frozenset[str] = frozenset()


async def nothing(path: str) -> None:
    """Do nothing: calls leave nothing to settle."""


@dataclass
class ConcurrencyBench:
    """Everything that the suite needs.

    Attributes:
        name: Name of the backend and the executor.
        root: The folder of the notebooks.
        store: The server's store; the notebook is read through it after each round.
        journal: The journal's file.
        said: Log of printed tokens.
        sessions: The agents' sessions.
        opened: Called with a new notebook's path before its first round.
        settle: Waits until nothing is running for a path and the file matches the document.
        person: Edits by other means, concurrently.
        program: Another program that writes the file between rounds, if it cannot write concurrently.
        faults: Faults to inject.
    """

    name: str
    root: Path
    store: NotebookStore
    journal: Path
    said: SaidLog
    sessions: Sequence[Session]
    opened: Callable[[str], Awaitable[Any]] = nothing
    settle: Callable[[str], Awaitable[Any]] = nothing
    person: Person | None = None
    program: Person | None = None
    faults: Sequence[Fault] = ()


@dataclass
class Tally:
    """Counts of a run.

    Attributes:
        steps: Calls and edits.
        calls: Calls and edits by name, and by error.
        states: Number of states that the checker visited.
    """

    steps: int = 0
    rounds: int = 0
    calls: dict[str, int] = field(default_factory=dict[str, int])
    states: int = 0

    def add(self, calls: Sequence[Call], verdict: Verdict) -> None:
        self.rounds += 1
        self.steps += len(calls)
        self.states += verdict.states
        for call in calls:
            error = call.answer.error if call.answer is not None else None
            name = f"{call.name}: {error}" if error else call.name
            runs = call.answer.data.get("runs", ()) if call.answer is not None else ()
            cut = [f"cut: {run['status']}" for run in runs if run["status"] not in ("ok", "error")]
            for each in (name, *cut):
                self.calls[each] = self.calls.get(each, 0) + 1


async def run_rounds(bench: ConcurrencyBench, seed: int, steps: int) -> Tally:
    """Run rounds until a number of steps is done.

    Raises:
        Violation: with the seed, the history of the round and the problem.
    """
    tally, random, names = Tally(), Random(f"{bench.name} {seed}"), Names()
    journal = Journal(bench.journal)
    await journal.check()
    await journal.close()
    with closing(sqlite3.connect(bench.journal)) as db:
        db.executescript(_MADE)
    while tally.steps < steps:
        played = _Notebook(bench, seed, random, names, tally)
        await played.begin()
        for _ in range(ROUNDS):
            if tally.steps < steps:
                await played.round()
    return tally


class _Notebook:
    """A notebook in which rounds are run."""

    def __init__(
        self, bench: ConcurrencyBench, seed: int, random: Random, names: Names, tally: Tally
    ) -> None:
        self._bench = bench
        self._seed = seed
        self._random = random
        self._names = names
        self._tally = tally
        self._agents = [
            Agent("abcdefghijkl"[number], session, names)
            for number, session in enumerate(bench.sessions)
        ]
        self._path = f"{names.token('n')}.ipynb"
        self._entry = 0
        # The lines of each run of each cell, in order.
        self._runs: dict[str, list[list[str]]] = {}
        # Lines of runs whose results were errors, which report no lines.
        self._unreported: set[str] = set()
        self._said: set[int] = set(bench.said.said())

    async def begin(self) -> None:
        """Make the notebook."""
        cells = [
            code(self._names.source("s"), f"{self._names.token('s')}start") for _ in range(CELLS)
        ]
        (self._bench.root / self._path).write_bytes(written(notebook(*cells)))
        await self._bench.opened(self._path)

    async def round(self) -> None:
        """Run all actors concurrently, and check the result."""
        bench, random = self._bench, self._random
        if bench.program is not None and random.random() < 0.3:
            await bench.program.edit(self._path, choice(random, self._names))
        start, _ = await self._read()
        history = History()
        actors = self._actors(history)
        fault = random.choice(bench.faults) if bench.faults and random.random() < 0.3 else None
        if fault is not None:
            actors.append(fault.inject(self._path, Random(random.random())))
        delays = interleaved(Random(random.random())) if random.random() < 0.8 else nullcontext()
        try:
            with delays:
                async with asyncio.timeout(3 * DEADLINE), asyncio.TaskGroup() as group:
                    for actor in actors:
                        group.create_task(_awaited(actor))
            await bench.settle(self._path)
        except* Exception as errors:
            raise Violation(self._report(history.calls, f"It did not end well: {errors!r}")) from (
                errors
            )
        end, outputs = await self._read()
        self._assign(history.calls)
        excused = fault.excused if fault is not None else frozenset[str]()
        verdict = self._check_order(history.calls, start, end, excused)
        self._check_outputs(history.calls, outputs)
        await self._check_copies(history.calls, end, outputs)
        self._tally.add(history.calls, verdict)

    # --- acting

    def _actors(self, history: History) -> list[Awaitable[None]]:
        random = self._random
        at_one_index = random.random() < 0.08
        actors: list[Awaitable[None]] = []
        for agent in self._agents:
            lanes = random.choice([1, agent.session.lanes])
            if at_one_index and agent.session.lanes > 1:
                lanes = 4
            count = 1 if at_one_index else random.choice([1, 2, 3])
            for lane in range(lanes):
                calls = self._calls(agent, Random(random.random()), lane, count, at_one_index)
                actors.append(self._agent(history, agent, calls))
        if self._bench.person is not None:
            actors.append(self._person(history, self._bench.person, Random(random.random())))
        return actors

    def _calls(
        self,
        agent: Agent,
        random: Random,
        lane: int,
        count: int,
        at_one_index: bool,
    ) -> Iterator[Call]:
        """Make the calls of one lane, each chosen after the previous one has returned."""
        for number in range(count):
            if at_one_index:
                chosen = agent.insert_and_execute_first()
            elif lane == 0 and number == 0 and random.random() < 0.3:
                chosen = agent.first()
            else:
                chosen = agent.next(random, beside=lane > 0)
            tool, arguments, expected = chosen
            arguments = {"notebook": self._path, **arguments}
            yield Call(agent.name, tool, arguments, expected, self._names.token("turn"))

    async def _agent(self, history: History, agent: Agent, calls: Iterator[Call]) -> None:
        for call in calls:
            work = partial(agent.session.call, call.name, call.arguments, call.turn)
            agent.learn(await history.record(call, work))

    async def _person(self, history: History, person: Person, random: Random) -> None:
        for _ in range(random.choice([0, 1, 2])):
            work = partial(person.edit, self._path, choice(random, self._names))
            await history.record(Call("person", "person", {}), work)
            for _ in range(random.randrange(30)):
                await asyncio.sleep(0)

    # --- checking

    async def _read(self) -> tuple[State, dict[str, str]]:
        """Return the notebook, and the text of each code cell's outputs."""
        document = await self._bench.store.open(self._path)
        stored = await document.raw()
        cells: list[Json] = stored["cells"]
        state = tuple(
            CellState(cell["id"], cell["cell_type"], "".join(cell["source"]))  # pyrefly: ignore[unknown-argument-type]
            for cell in cells
        )
        return state, {cell["id"]: _text(cell.get("outputs", ())) for cell in cells}

    def _assign(self, calls: Sequence[Call]) -> None:
        """Assign each call the rows of the journal that it wrote."""
        with closing(sqlite3.connect(self._bench.journal)) as db:
            rows = db.execute(_ENTRIES, (self._entry, self._path)).fetchall()
        by_turn = {call.turn: call for call in calls if call.turn}
        sessions = {agent.name: agent.session.name for agent in self._agents}
        for number, at, session, turn, tool, kind, state, data in rows:
            self._entry = number
            if kind == "run":
                continue
            changes = decode_changes(data) if data else ()
            entry = Entry(number, at, session, turn, tool, kind, state, changes)
            call = by_turn.get(turn) or next(
                (
                    each
                    for each in calls
                    if sessions.get(each.actor) == session
                    and each.name == tool
                    and each.wall[0] <= at <= each.wall[1]
                ),
                None,
            )
            if call is None:
                raise Violation(self._report(calls, f"Nobody's row of the journal: {entry}"))
            call.entries.append(entry)

    def _check_order(
        self, calls: Sequence[Call], start: State, end: State, excused: frozenset[str]
    ) -> Verdict:
        events: list[Event] = []
        for call in calls:
            events += events_of(call, excused=excused)
        verdict = linearize(start, events, end)
        if verdict.order is None:
            why = (
                "The search was given up." if verdict.exhausted else "No serial order explains it."
            )
            tried = "".join(f"  {n}. {each.label}\n" for n, each in enumerate(verdict.longest, 1))
            refused = "".join(f"  {each}\n" for each in verdict.refused)
            raise Violation(
                self._report(
                    calls,
                    f"{why} The longest that was found:\n{tried}Then:\n{refused}"
                    f"The notebook there (-) and at the end (+):\n{_diff(verdict.state, end)}",
                )
            )
        return verdict

    def _check_outputs(self, calls: Sequence[Call], outputs: dict[str, str]) -> None:
        """Check that code ran once for each result that says so, and that outputs match the runs."""
        said = self._bench.said.said()
        new = {number: token for number, token in said.items() if number not in self._said}
        self._said |= new.keys()
        ran: dict[str, list[list[str]]] = {}
        has_unreported = False
        for call in calls:
            if call.answer is None:
                continue
            # An aborted run has no result that says how far it got.
            has_unreported |= call.answer.error is not None and "execute" in call.name
            has_unreported |= call.answer.error is not None and bool(call.arguments.get("run"))
            for run in call.answer.data.get("runs", ()):
                # An interrupted run may have printed more than its result has.
                has_unreported |= run["status"] not in ("ok", "error")
                ran.setdefault(run.get("cell", ""), []).append(printed(run.get("output", "")))
        lines = [line for runs in ran.values() for each in runs for line in each]
        for line in lines:
            token, number = line.split()
            if new.pop(int(number), None) != token:
                raise Violation(
                    self._report(calls, f"`{line}` was reported twice, or never printed.")
                )
        if new and not has_unreported:
            raise Violation(self._report(calls, f"This was printed but not reported: {new}."))
        self._unreported |= {f"{token} {number}" for number, token in new.items()}
        for cell, runs in ran.items():
            self._runs.setdefault(cell, []).extend(runs)
        if not has_unreported:
            self._check_each_output(calls, outputs, ran)

    def _check_each_output(
        self, calls: Sequence[Call], outputs: dict[str, str], ran: dict[str, list[list[str]]]
    ) -> None:
        touched = {
            change.cell for call in calls for entry in call.entries for change in entry.changes
        } | {call.edit.key for call in calls if call.edit is not None}
        for cell, text in outputs.items():
            shown = printed(text)
            runs = self._runs.get(cell, [])
            reported = any(run[len(run) - len(shown) :] == shown for run in runs)
            if shown and not reported and not self._unreported.issuperset(shown):
                raise Violation(
                    self._report(calls, f"The outputs of {cell} are {shown}; its runs: {runs}.")
                )
            if cell in ran and cell not in touched and shown not in ran[cell]:
                raise Violation(
                    self._report(calls, f"Of {cell} is left {shown}; its runs: {ran[cell]}.")
                )

    async def _check_copies(
        self, calls: Sequence[Call], end: State, outputs: dict[str, str]
    ) -> None:
        """Check that the file and a person's view match what is read through the store."""
        stored = await self._stored()
        on_disk = tuple(
            CellState(cell["id"], cell["cell_type"], "".join(cell["source"]))  # pyrefly: ignore[unknown-argument-type]
            for cell in stored
        )
        if on_disk != end:
            differ = _diff(on_disk, end)
            raise Violation(self._report(calls, f"In the file (-) and read (+):\n{differ}"))
        texts = {cell["id"]: _text(cell.get("outputs", ())) for cell in stored}
        if texts != outputs:
            differ = [
                (key, texts[key], outputs[key]) for key in texts if texts[key] != outputs[key]
            ]
            raise Violation(self._report(calls, f"Outputs in the file, and read: {differ}"))
        if self._bench.person is not None:
            seen = tuple(await self._bench.person.cells(self._path))
            if seen != end:
                differ = _diff(seen, end)
                raise Violation(self._report(calls, f"A person sees (-), and read (+):\n{differ}"))

    async def _stored(self) -> list[Json]:
        """Return the cells in the file; Jupyter's own save, caused by a person's edit, writes in place."""
        async with asyncio.timeout(DEADLINE):
            while True:
                try:
                    return json.loads((self._bench.root / self._path).read_bytes())["cells"]
                except ValueError:
                    await asyncio.sleep(0)

    def _report(self, calls: Sequence[Call], wrong: str) -> str:
        history = "\n".join(f"  {call}" for call in calls)
        return (
            f"{self._bench.name}, seed {self._seed}, {self._path}, "
            f"step {self._tally.steps}, round {self._tally.rounds + 1}:\n{history}\n{wrong}"
        ).replace('__import__("saying").', "")


def _text(outputs: Sequence[Json]) -> str:
    return "".join(stream_text(output) for output in outputs if output.get("name") == "stdout")


def _diff(before: State, after: State) -> str:
    lines = [
        [f"{cell.key} {cell.type} {cell.source!r}" for cell in state] for state in (before, after)
    ]
    return "\n".join(unified(lines[0], lines[1]))


async def _awaited(work: Awaitable[None]) -> None:
    await work
