"""What a command is typed into: a terminal or a pipe, here or at the other end of a socket."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tk_ai_extension.cli import client, wire

_CONTROLS = {
    **{code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"},
    **dict.fromkeys(range(0x7F, 0xA0), 0xFFFD),
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD),
}
"""What a notebook could tell the terminal to do, as the pictures of what it is; also what would show
code in another order than it runs in."""


def harmless(text: str) -> str:
    """The same text without what a terminal would obey."""
    return text.translate(_CONTROLS)


class NothingRead(Exception):
    """The command went away before it had answered: that is not an empty input."""


@dataclass(frozen=True, slots=True)
class TerminalInfo:
    """How and where a command was called.

    Attributes:
        cwd: The folder that paths on the command line are relative to.
        project: The folder of the project that it is in.
        notebook: The whole path of the caller's current notebook, where another server has said it.
        columns: The terminal's width; 0 for a pipe.
        tty: Whether the output goes to a terminal.
        env: What is known of the environment (`wire.ENVIRONMENT`).
    """

    cwd: str
    project: str
    notebook: str | None = None
    columns: int = 0
    tty: bool = False
    env: Mapping[str, str] = field(default_factory=dict[str, str])


class UnreadableFile(Exception):
    """A file that is named on the command line cannot be read; the message says why."""


class Terminal(Protocol):
    """One command's terminal."""

    info: TerminalInfo
    interrupted: asyncio.Event
    """Set by Ctrl-C; whoever acts on it clears it."""

    def out(self, text: str) -> None:
        """Print what was asked for."""
        ...

    def err(self, text: str) -> None:
        """Print what is said besides."""
        ...

    async def read(self) -> str:
        """All of standard input.

        Raises:
            NothingRead: nobody is there any more who could say what it is.
        """
        ...

    async def read_file(self, path: str) -> str:
        """A text file where the command was typed.

        Raises:
            UnreadableFile: it cannot be read.
        """
        ...

    async def edit(self, text: str, name: str) -> str | None:
        """The text after a person has edited it as a file of this name; None where they gave up."""
        ...

    def browse(self, url: str) -> None:
        """Open a page in the person's browser."""
        ...

    def redirect(self, url: str, token: str, notebook: str | None = None) -> None:
        """Have the command run in another server instead; it has done nothing here.

        Args:
            url: The server's address; empty for the project's own, which is started.
            token: What lets in there.
            notebook: The whole path of the caller's current notebook.
        """
        ...

    async def ask(self, prompt: str) -> str | None:
        """A line that a person types; None where they end it, or nobody is there."""
        ...


class LocalTerminal:
    """This process's own terminal."""

    def __init__(self, project: str, console: client.Console) -> None:
        tty = sys.stdout.isatty()
        self.info = TerminalInfo(
            cwd=os.getcwd(),
            project=project,
            columns=os.get_terminal_size().columns if tty else 0,
            tty=tty,
            env={name: os.environ[name] for name in wire.ENVIRONMENT if name in os.environ},
        )
        self.interrupted = asyncio.Event()
        self.elsewhere: client.Redirect | None = None
        self._console = console

    def out(self, text: str) -> None:
        """Print what was asked for."""
        client.write(sys.stdout, text)

    def err(self, text: str) -> None:
        """Print what is said besides."""
        client.write(sys.stderr, text)

    async def read(self) -> str:
        """All of standard input."""
        # In this thread, since nothing else goes on, and for Ctrl-C to end it at once.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return self._console.read()
        finally:
            signal.signal(signal.SIGINT, before)

    async def edit(self, text: str, name: str) -> str | None:
        """The text after a person has edited it."""
        return self._console.edit(text, name)

    async def read_file(self, path: str) -> str:
        """A text file."""
        try:
            return client.read_file(path)
        except OSError as error:
            raise UnreadableFile(error.strerror) from None

    def browse(self, url: str) -> None:
        """Open a page in the person's browser."""
        client.browse(url)

    def redirect(self, url: str, token: str, notebook: str | None = None) -> None:
        """Have the command run in a server instead."""
        self.elsewhere = client.Redirect(url, token, notebook)

    async def ask(self, prompt: str) -> str | None:
        """A line that a person types; None where they end it, or nobody is there."""
        return client.read_line(prompt)
