"""Each option of a command reaches what the command calls, or is refused: none is ignored."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tk_ai_extension.cli import fresh_runs
from tk_ai_extension.cli.commands.table import Commands
from tk_ai_extension.cli.parsing import WrongCall
from tk_ai_extension.cli.session import Options, Session
from tk_ai_extension.cli.terminal import Terminal, TerminalInfo
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.tools.results import Result

COMMANDS = Commands(Registry.load())

Calls = list[tuple[str, Any]]

BASES = [
    ["exec", "0"],
    ["exec", "--all"],
    ["exec", "--stale"],
    ["edit", "0", "source"],
    ["edit", "0", "--editor"],
    ["edit", "--editor"],
    ["read"],
    ["write"],
    ["watch"],
    ["watch", "1234"],
    ["run", "code"],
    ["run", "n.ipynb"],
    ["open", "n.ipynb"],
    ["apply", '[{"action": "delete", "cell": 0}]'],
    ["insert", "0", "source"],
    ["output", "1234"],
]
"""Calls that need no more. Commands for a chat, and those that only print, are not among them."""


class Answer(Result):
    """An answer of any tool."""

    notebook: str = "n.ipynb"
    text: str = "# %% notebook: n.ipynb rev:1"
    source: str = "before"
    cell_type: str = "code"
    address: str = "abcd.1234"
    execution_id: str = "1234"
    status: str = "ok"
    total_cells: int = 1

    def as_text(self) -> str:
        return "done"


class Typed:
    """A terminal of which nobody looks at the output."""

    def __init__(self, folder: Path, calls: Calls) -> None:
        self.info = TerminalInfo(cwd=str(folder), project=str(folder))
        self.interrupted, self.gone = asyncio.Event(), asyncio.Event()
        self._calls = calls

    def out(self, text: str) -> None:
        pass

    err = out

    async def read(self) -> str:
        return "standard input"

    async def read_file(self, path: str) -> str:
        self._calls.append(("read_file", path))
        return "a: 1"

    async def edit(self, text: str, name: str) -> str:
        return f"{text} edited in {name}"


class Spy(Session):
    """A session that calls nothing and remembers what it was to call."""

    def __init__(self, folder: Path, calls: Calls) -> None:
        async def confine(*_args: object, **given: object) -> None:
            calls.append(("confine", given))

        async def attach(*given: object) -> None:
            calls.append(("attach", given))

        context = SimpleNamespace(
            root=str(folder),
            project=SimpleNamespace(confine=confine, attach=attach),
            workspace=SimpleNamespace(kernels=None, contain=lambda path: path),
            last_run=lambda _caller: "the last one",
            check_owner=self._check_owner,
        )
        terminal = cast("Terminal", Typed(folder, calls))
        super().__init__(cast("Any", context), terminal, Caller("a", "nb", "nb"), Options())
        self._calls = calls

    async def _check_owner(self, *given: object) -> None:
        self._calls.append(("check_owner", given))

    async def run(self, tool: str, **arguments: Any) -> Any:
        return await self._call_for(self.caller, tool, arguments)

    async def _call_for(self, _caller: Caller, tool: str, arguments: Any) -> Result:  # pyrefly: ignore[bad-override-param-name]
        self._calls.append((tool, dict(arguments)))
        return Answer()


class Started(Exception):
    """A run of a whole notebook was to start."""


@pytest.fixture(autouse=True)
def no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(session: Spy, _tool: object, **arguments: object) -> None:
        session._calls.append(("run_notebook", arguments))
        raise Started

    monkeypatch.setattr(fresh_runs, "start", start)


async def called(folder: Path, words: list[str]) -> Calls | None:
    """What a command line calls; None if it is refused."""
    calls: Calls = []
    session = Spy(folder, calls)
    command = next(command for command in COMMANDS if command.name == words[0])
    try:
        args = COMMANDS.parser(words[0]).parse_args(words[1:])
        delattr(args, "json")
        await command.run(session, args)
    except WrongCall:
        return None
    except Started:
        pass
    return calls


def actions(name: str) -> Iterator[argparse.Action]:
    for action in COMMANDS.parser(name)._actions:
        if action.dest not in ("help", "json"):
            yield action


def samples(action: argparse.Action) -> Iterator[list[str]]:
    """Each way to give an option."""
    for name in action.option_strings:
        if not name.startswith("--"):
            continue
        if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction):
            yield [name]
        elif action.choices:
            yield from ([name, str(choice)] for choice in action.choices)
        elif action.dest == "parameter":
            yield [name, "a=1"]
        else:
            # Nought is given, too.
            numbers = action.type is not None and action.type is not str
            yield from ([name, value] for value in (("0", "7") if numbers else ("other.ipynb",)))


def changes_nothing(sample: list[str]) -> bool:
    """Whether an option asks for what a command does without it."""
    return sample[0].startswith("--no-") and sample != ["--no-sandbox"]


@pytest.mark.proves("nb:commands")
@pytest.mark.parametrize("base", BASES, ids=" ".join)
async def test_an_option_changes_what_is_called_or_is_refused(
    tmp_path: Path, base: list[str]
) -> None:
    without = await called(tmp_path, base)
    assert without
    ignored = [
        sample
        for action in actions(base[0])
        for sample in samples(action)
        if sample[0] not in base
        and not changes_nothing(sample)
        and await called(tmp_path, base + sample) == without
    ]
    assert ignored == []


def takes_text(action: argparse.Action) -> bool:
    return action.nargs != 0 and not isinstance(action, argparse.BooleanOptionalAction)


def has_empty_text(value: Any) -> bool:
    """Whether an empty text is among what was called."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return any(has_empty_text(each) for each in value)
    return value == ""


@pytest.mark.proves("nb:commands")
@pytest.mark.parametrize("base", BASES, ids=" ".join)
async def test_an_empty_text_is_given_as_it_is_or_refused(tmp_path: Path, base: list[str]) -> None:
    lines = [
        [*base[:1], *("" if word == base[at] else word for word in base[1:])]
        for at in range(1, len(base))
        if not base[at].startswith("--")
    ]
    for action in actions(base[0]):
        if not takes_text(action):
            continue
        if action.option_strings:
            lines.append([*base, action.option_strings[-1], ""])
        elif action.nargs == "?":
            lines.append([*base, ""])
    for flags in ([], ["--restart"], ["--editor"]):
        for line in lines:
            calls = await called(tmp_path, line + flags)
            assert calls is None or has_empty_text([given for _, given in calls]), line + flags
