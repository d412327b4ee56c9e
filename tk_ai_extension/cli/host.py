"""The host: one process for a project, which owns its kernels and answers commands and MCP.

``python -m tk_ai_extension.cli.host ROOT FD`` is how a command starts it: it writes to the file
descriptor that it listens, or why it cannot. It ends at SIGTERM, or when
``nb shutdown`` says so; kernels outlive it unless they are shut down.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from tk_ai_extension import __version__
from tk_ai_extension.cli import wire
from tk_ai_extension.cli.commands.table import Commands
from tk_ai_extension.cli.drawing import harmless
from tk_ai_extension.cli.headless import Headless
from tk_ai_extension.cli.launch import LISTENS
from tk_ai_extension.cli.project import HOST_LOCK, Project
from tk_ai_extension.cli.session import as_json
from tk_ai_extension.cli.terminal import NothingRead, Surroundings
from tk_ai_extension.model import file_locks
from tk_ai_extension.model.errors import InternalError, InvalidArguments
from tk_ai_extension.model.masking import MaskingFormatter, masked

if TYPE_CHECKING:
    from tk_ai_extension.cli.mcp import McpOverSocket
from tk_ai_extension.workspace.dumpable import hide_process

logger = logging.getLogger(__name__)

NO_COMMAND = {"err": "That is not how a command of nb speaks.\n", "exit": wire.REFUSED}


class SocketTerminal:
    """The terminal at the other end of a command's socket."""

    def __init__(self, greeting: Mapping[str, Any], writer: asyncio.StreamWriter) -> None:
        self.surroundings = Surroundings(
            cwd=greeting["cwd"],
            columns=greeting["columns"],
            tty=greeting["tty"],
            env=greeting["env"],
        )
        self.interrupted = asyncio.Event()
        self._writer = writer
        self._answer: asyncio.Future[str | None] | None = None
        # Why nothing more is heard of the command: it is gone, or says what cannot be understood.
        self._silent: Exception | None = None

    def out(self, text: str) -> None:
        """Prints what was asked for."""
        self.say(out=text)

    def err(self, text: str) -> None:
        """Prints what is said besides."""
        self.say(err=text)

    async def read(self) -> str:
        """All of standard input."""
        text = await self._ask(ask="stdin")
        if text is None:
            raise NothingRead
        return text

    async def edit(self, text: str, name: str) -> str | None:
        """The text after a person has edited it."""
        return await self._ask(ask="edit", text=text, name=name)

    async def ask(self, prompt: str) -> str | None:
        """A line that a person types; None where they end it, or nobody is there."""
        return await self._ask(ask="line", prompt=prompt)

    def say(self, **frame: object) -> None:
        """Sends a frame; nothing happens where nobody is there any more."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(frame).encode() + b"\n")

    def say_last(self, **frame: object) -> None:
        """Sends a frame, and keeps the connection open until this process is no more."""
        os.dup(self._writer.get_extra_info("socket").fileno())
        self.say(**frame)

    def heard(self, frame: object) -> None:
        """Takes what the command says.

        Raises:
            TypeError: it is no message.
        """
        if not isinstance(frame, dict):
            raise TypeError
        said = cast("dict[str, Any]", frame)
        if "interrupt" in said:
            self.interrupted.set()
        elif "too_long" in said:
            self.unheard(_too_long())
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result(said.get("answer"))

    def unheard(self, why: Exception) -> None:
        """No answer comes any more: who waits for one is told why."""
        self._silent = why
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(why)

    async def _ask(self, **frame: str) -> str | None:
        if self._silent is not None:
            raise self._silent
        self._answer = asyncio.get_running_loop().create_future()
        self.say(**frame)
        return await self._answer


class Host:
    """Answers commands on one socket of the project's ``.nb`` and MCP on another."""

    def __init__(self, project: Project, headless: Headless) -> None:
        self._project = project
        self._headless = headless
        self._commands = Commands(headless.registry)
        self._running: set[asyncio.Task[None]] = set()
        self._mcp: McpOverSocket | None = None
        self._mcp_starting = asyncio.Lock()

    async def serve(self, ready: int) -> None:
        """Serves until it is told to stop.

        Args:
            ready: The file descriptor to close when it listens.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._headless.stop)
        listeners = [self._project.bind(name) for name in (wire.SOCKET, wire.MCP_SOCKET)]
        commands = await asyncio.start_unix_server(
            self._command, sock=listeners[0], limit=wire.LONGEST_LINE
        )
        mcp = await asyncio.start_unix_server(
            self._speak_mcp, sock=listeners[1], limit=wire.LONGEST_LINE
        )
        os.write(ready, LISTENS.encode())
        os.close(ready)
        logger.info("Host %s of %s listens", os.getpid(), self._project.root)
        await self._headless.stopped.wait()
        for name in (wire.SOCKET, wire.MCP_SOCKET):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._project.folder, name))
        commands.close()
        mcp.close()
        await self._headless.workspace.executions.close()
        if self._mcp is not None:
            await self._mcp.close()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _command(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            greeting = json.loads(await reader.readline())
            terminal = SocketTerminal(greeting, writer)
        except (ValueError, LookupError, TypeError, ConnectionError):
            # Nobody of ours: a command says what it was called with.
            writer.write(json.dumps(NO_COMMAND).encode() + b"\n")
            writer.close()
            return
        if greeting["version"] != __version__:
            terminal.err(
                f"The host runs version {__version__}, and this is {greeting['version']}: "
                "`nb shutdown`, then `nb open` makes them one.\n"
            )
        task = asyncio.create_task(self._answer(greeting["argv"], terminal))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        listening = asyncio.create_task(_listen(reader, terminal))
        try:
            await asyncio.shield(task)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
        finally:
            listening.cancel()
            writer.close()

    async def _answer(self, argv: list[str], terminal: SocketTerminal) -> None:
        """Runs a command to its end, whether or not somebody still waits for it."""
        try:
            status = await self._commands.run(self._headless, argv, terminal)
        except Exception as problem:
            logger.exception("nb %s failed", argv)
            error = InternalError(
                f"nb {argv[0]} failed: {type(problem).__name__}: {problem}",
                hint="This is a defect of nb; .nb/host.log has the traceback.",
            )
            if "--json" in argv:
                terminal.out(as_json({"error": error.as_dict()}))
            else:
                terminal.err(f"{harmless(error.as_text())}\n")
            status = wire.REFUSED
        if self._headless.stopped.is_set():
            terminal.say_last(exit=status, ending=True)
        else:
            terminal.say(exit=status)

    async def _speak_mcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._mcp_starting:
            if self._mcp is None:
                # Half a second of imports: only for who speaks it.
                from tk_ai_extension.cli.mcp import McpOverSocket

                self._mcp = McpOverSocket(self._headless)
        await self._mcp.serve(reader, writer)


async def _listen(reader: asyncio.StreamReader, terminal: SocketTerminal) -> None:
    try:
        while line := await reader.readline():
            terminal.heard(json.loads(line))
        terminal.unheard(NothingRead())
    except ConnectionError:
        terminal.unheard(NothingRead())
    except (json.JSONDecodeError, UnicodeDecodeError, TypeError):
        terminal.unheard(InvalidArguments("What the command said cannot be understood."))
    except ValueError:  # StreamReader's, for a line beyond its limit
        terminal.unheard(_too_long())


def _too_long() -> InvalidArguments:
    return InvalidArguments(
        f"What was read is longer than {wire.LONGEST_LINE >> 20} MB as JSON.",
        hint="Nothing was changed. Write less at once.",
    )


async def host(project: Project, ready: int) -> None:
    """Is the host of a project until it is told to stop."""
    headless = await Headless.with_kernels(project)
    try:
        await Host(project, headless).serve(ready)
    finally:
        await headless.close()
    if headless.cleans:
        project.clean()


def main() -> int:
    """Runs the host; the exit status."""
    hide_process()
    project, ready = Project(sys.argv[1]), int(sys.argv[2])
    said = logging.StreamHandler()
    said.setFormatter(MaskingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[said])
    logger.setLevel(logging.INFO)
    lock = os.open(os.path.join(project.folder, HOST_LOCK), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        file_locks.lock(lock, wait=False)
    except BlockingIOError:
        os.write(ready, b"another host of this project is ending just now; try again.")
        return wire.REFUSED
    try:
        asyncio.run(host(project, ready))
    except Exception as problem:
        with contextlib.suppress(OSError):
            os.write(
                ready, f"the host ended: {masked(str(problem))}; {project.log} has more.".encode()
            )
        logger.exception("The host ended")
        return wire.REFUSED
    return wire.OK


if __name__ == "__main__":
    sys.exit(main())
