"""What a command is."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tk_ai_extension.cli.parsing import STDIN, FromStdin
from tk_ai_extension.cli.session import Session

WHOLE = 2_000_000
"""Characters of a notebook's text that are read at once, unless told otherwise."""

Run = Callable[[Session, argparse.Namespace], Awaitable[int]]
"""Does what a command is for; answers with the exit status."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of `nb`.

    Attributes:
        name: What is typed.
        summary: What it does, in a line.
        configure: Adds its arguments.
        run: Does it.
        examples: Calls to learn from, with a comment each.
        group: The heading under which it is listed.
    """

    name: str
    summary: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Run
    examples: tuple[str, ...] = ()
    group: str = "The project"


async def given(session: Session, args: argparse.Namespace) -> dict[str, Any]:
    """The arguments that were typed, paths from the project's root, ``-`` read from standard input."""
    arguments = session.located({k: v for k, v in vars(args).items() if v is not None})
    for name, value in arguments.items():
        if value == STDIN:
            arguments[name] = without_last_newline(await session.terminal.read())
        elif isinstance(value, FromStdin):
            arguments[name] = value.parse(await session.terminal.read())
    return arguments


def without_last_newline(text: str) -> str:
    """A cell's source has no newline at its end, and what a shell pipes always has one."""
    return text.removesuffix("\n")
