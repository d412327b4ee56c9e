"""Definition of a command."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from tk_ai_extension.cli.parsing import STDIN, FromStdin
from tk_ai_extension.cli.session import Session

Run = Callable[[Session, argparse.Namespace], Awaitable[int]]
"""Runs a command and returns the exit status."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of `nb`.

    Attributes:
        name: The name on the command line.
        summary: One-line description.
        configure: Adds its arguments.
        run: Runs it.
        examples: Example calls, with comments.
        group: Heading in the list of commands.
        answers: What `--json` prints: one of these.
    """

    name: str
    summary: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Run
    examples: tuple[str, ...] = ()
    group: str = "The project"
    answers: tuple[type[BaseModel], ...] = ()


async def given(session: Session, args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments with paths relative to the project's root, and ``-`` read from standard input."""
    arguments = session.located({k: v for k, v in vars(args).items() if v is not None})
    for name, value in arguments.items():
        if value == STDIN:
            arguments[name] = without_last_newline(await session.terminal.read())
        elif isinstance(value, FromStdin):
            arguments[name] = value.parse(await session.terminal.read())
    return arguments


def without_last_newline(text: str) -> str:
    """Remove the final newline that shells add: a cell's source has none."""
    return text.removesuffix("\n")
