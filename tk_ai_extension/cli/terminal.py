"""Terminal of a command: a terminal or a pipe, in this process or at the other end of a socket."""

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
"""Translation of control characters to visible symbols; also of bidirectional controls, which would show
code in another order than it runs."""


def harmless(text: str) -> str:
    """Replace control characters in a text by visible symbols."""
    return text.translate(_CONTROLS)


class NothingRead(Exception):
    """The command disconnected before it sent its input: that is not an empty input."""


@dataclass(frozen=True, slots=True)
class TerminalInfo:
    """Where and how a command was called.

    Attributes:
        cwd: The folder that paths on the command line are relative to.
        project: The project's folder.
        notebook: Absolute path of the caller's current notebook, if a redirecting server named it.
        columns: The terminal's width; 0 for a pipe.
        tty: Whether the output goes to a terminal.
        env: Part of its environment (`wire.ENVIRONMENT`).
    """

    cwd: str
    project: str
    notebook: str | None = None
    columns: int = 0
    tty: bool = False
    env: Mapping[str, str] = field(default_factory=dict[str, str])


class UnreadableFile(Exception):
    """A file of the command line cannot be read or written; the message has the reason."""


class Terminal(Protocol):
    """One command's terminal."""

    info: TerminalInfo
    interrupted: asyncio.Event
    """Set by Ctrl-C; cleared by its handler."""
    gone: asyncio.Event
    """Set when the command has disconnected."""

    def out(self, text: str) -> None:
        """Print to standard output."""
        ...

    def err(self, text: str) -> None:
        """Print to standard error."""
        ...

    async def read(self) -> str:
        """Read all of standard input.

        Raises:
            NothingRead: the command has disconnected.
        """
        ...

    async def read_file(self, path: str) -> str:
        """Read a text file relative to the command's folder.

        Raises:
            UnreadableFile: it cannot be read.
        """
        ...

    async def write_file(self, path: str, text: str) -> None:
        """Write a text file that the command names.

        Raises:
            UnreadableFile: it cannot be written.
            NothingRead: the command has disconnected.
        """
        ...

    async def edit(self, text: str, name: str) -> str | None:
        """Let the person edit text as a file of this name; return None if they cancel."""
        ...

    def browse(self, url: str) -> None:
        """Open a page in the person's browser."""
        ...

    def redirect(self, url: str, token: str, notebook: str | None = None) -> None:
        """Redirect the command to another server; nothing was done here.

        Args:
            url: The server's address; empty for the project's own, which is started if needed.
            token: The server's token.
            notebook: Absolute path of the caller's current notebook.
        """
        ...

    async def ask(self, prompt: str) -> str | None:
        """Read a line from the person; None at the end of input, or without a terminal."""
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
        self.gone = asyncio.Event()
        self.elsewhere: client.Redirect | None = None
        self._console = console

    def out(self, text: str) -> None:
        """Print to standard output."""
        client.write(sys.stdout, text)

    def err(self, text: str) -> None:
        """Print to standard error."""
        client.write(sys.stderr, text)

    async def read(self) -> str:
        """Read all of standard input."""
        # In this thread, since nothing else runs, and so that Ctrl-C ends it at once.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return self._console.read()
        finally:
            signal.signal(signal.SIGINT, before)

    async def edit(self, text: str, name: str) -> str | None:
        """Let the person edit text."""
        return self._console.edit(text, name)

    async def read_file(self, path: str) -> str:
        """Read a text file."""
        try:
            return client.read_file(path)
        except OSError as error:
            raise UnreadableFile(error.strerror) from None

    async def write_file(self, path: str, text: str) -> None:
        """Write a text file."""
        try:
            client.write_file(path, text)
        except OSError as error:
            raise UnreadableFile(error.strerror) from None

    def browse(self, url: str) -> None:
        """Open a page in the person's browser."""
        client.browse(url)

    def redirect(self, url: str, token: str, notebook: str | None = None) -> None:
        """Redirect the command to a server."""
        self.elsewhere = client.Redirect(url, token, notebook)

    async def ask(self, prompt: str) -> str | None:
        """Read a line from the person; None at the end of input, or without a terminal."""
        return client.read_line(prompt)
