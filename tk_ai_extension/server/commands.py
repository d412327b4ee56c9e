"""Runs commands of `nb` in the server, for a terminal at the other end of a connection."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from typing import Any, Protocol, cast

from tk_ai_extension._version import __version__
from tk_ai_extension.cli import wire
from tk_ai_extension.cli.chat_client import ChatClient
from tk_ai_extension.cli.command_state import CommandState
from tk_ai_extension.cli.commands.table import Commands
from tk_ai_extension.cli.context import MEMORY, CommandContext
from tk_ai_extension.cli.session import as_json
from tk_ai_extension.cli.terminal import NothingRead, TerminalInfo, UnreadableFile, harmless
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.errors import InternalError, InvalidArguments
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.server.agents import named_models
from tk_ai_extension.server.components import ServerComponents
from tk_ai_extension.server.composition import root_of
from tk_ai_extension.server.handlers.upgrades import LineStream, LineTooLong
from tk_ai_extension.server.services import Services
from tk_ai_extension.tools.registry import Registry

logger = logging.getLogger(__name__)

NO_COMMAND = {"err": "Invalid client message.\n", "exit": wire.REFUSED}

LASTING = ("chat", "lab", "open", "serve")
"""Commands that open something for longer: with it, the server stays until `nb shutdown`."""

_OPENS_NOTHING = ("-h", "--help", "--list", "--show", "--off")
"""Options with which such a command opens nothing."""


def command_context(
    services: Services, components: ServerComponents, registry: Registry
) -> CommandContext:
    """Build the context of `nb`'s commands in this server."""
    server = services.managers.server
    project = components.project

    async def chats(user: str, models: Mapping[str, str]) -> ChatClient:
        if project is not None:
            named_models.set(models)
        return ChatClient(await services.chats(), components.models, components.workspace, user)

    return CommandContext(
        root=str(root_of(services.managers.contents) or ""),
        user=services.owner,
        workspace=components.workspace,
        registry=registry,
        memory=CommandState(components.state / MEMORY),
        project=project,
        host=None if project is None else os.getpid(),
        url="" if project is not None else str(server.connection_url),
        chats=chats,
    )


def _opens(argv: list[str]) -> bool:
    """Whether a command, if it succeeds, opens something for longer."""
    return argv[:1] != [] and argv[0] in LASTING and not set(_OPENS_NOTHING) & set(argv)


class RemoteTerminal:
    """The terminal at the other end of a command's connection."""

    def __init__(self, greeting: Mapping[str, Any], lines: LineStream) -> None:
        self.info = TerminalInfo(
            cwd=greeting["cwd"],
            project=greeting["project"],
            notebook=greeting.get("notebook"),
            columns=greeting["columns"],
            tty=greeting["tty"],
            env=greeting["env"],
        )
        self.interrupted = asyncio.Event()
        self.gone = asyncio.Event()
        self.redirected = False
        self._lines = lines
        self._answer: asyncio.Future[str | None] | None = None
        # Why nothing more is received: the command disconnected, or sent an invalid message.
        self._silent: Exception | None = None

    def out(self, text: str) -> None:
        """Print to standard output."""
        self.send(out=text)

    def err(self, text: str) -> None:
        """Print to standard error."""
        self.send(err=text)

    async def read(self) -> str:
        """Read all of standard input."""
        text = await self._ask(ask="stdin")
        if text is None:
            raise NothingRead
        return text

    async def read_file(self, path: str) -> str:
        """Read a text file relative to the command's folder."""
        text = await self._ask(ask="file", path=path)
        if text is None:
            raise NothingRead
        return text

    async def write_file(self, path: str, text: str) -> None:
        """Write a text file that the command names."""
        if await self._ask(ask="write", path=path, text=text) is None:
            raise NothingRead

    async def edit(self, text: str, name: str) -> str | None:
        """Let the person edit text."""
        return await self._ask(ask="edit", text=text, name=name)

    async def ask(self, prompt: str) -> str | None:
        """Read a line from the person; None at the end of input, or without a terminal."""
        return await self._ask(ask="line", prompt=prompt)

    def browse(self, url: str) -> None:
        """Open a page in the person's browser."""
        self.send(browse=url)

    def redirect(self, url: str, token: str, notebook: str | None = None) -> None:
        """Redirect the command to another server."""
        self.redirected = True
        self.send(redirect=url, token=token, notebook=notebook)

    def send(self, **frame: object) -> None:
        """Send a frame; ignored after a disconnect."""
        self._lines.write(json.dumps(frame).encode() + b"\n")

    def send_last(self, **frame: object) -> None:
        """Send a frame and keep the connection open until this process exits."""
        self._lines.keep_open()
        self.send(**frame)

    def receive(self, frame: object) -> None:
        """Handle a message of the command.

        Raises:
            TypeError: the message is invalid.
        """
        if not isinstance(frame, dict):
            raise TypeError
        said = cast("Json", frame)
        if "interrupt" in said:
            self.interrupted.set()
        elif "too_long" in said:
            self.fail(_too_long())
        elif self._answer is not None and not self._answer.done():
            if "problem" in said:
                self._answer.set_exception(UnreadableFile(said["problem"]))
            else:
                self._answer.set_result(said.get("answer"))

    def fail(self, why: Exception) -> None:
        """Fail pending requests to the command with a reason."""
        self._silent = why
        if isinstance(why, NothingRead):
            self.gone.set()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(why)

    async def _ask(self, **frame: str) -> str | None:
        if self._silent is not None:
            raise self._silent
        self._answer = asyncio.get_running_loop().create_future()
        self.send(**frame)
        return await self._answer


ANSWERING = 1.0
"""Seconds in which commands may end by themselves when the server stops."""


class Stoppable(Protocol):
    """A server that a command can stop."""

    def stop(self) -> None:
        """Stop the server."""
        ...


class Usage(Protocol):
    """What is known of the use of a server."""

    def is_unused(self, *, ending: int = 0) -> bool:
        """Whether nothing needs the server but the connections of so many commands that have ended."""
        ...


class CommandServer:
    """Runs commands of `nb`.

    Args:
        context: Their context; each connection sets its user.
        server: The server that `nb shutdown` stops, and the last command if it is temporary.
        usage: The use of the server.
    """

    def __init__(self, context: CommandContext, server: Stoppable, usage: Usage) -> None:
        self._context = context
        self._server = server
        self._usage = usage
        self._commands = Commands(context.registry)
        self._running = BackgroundTasks(logger)
        # Commands that have ended and whose connection is still open.
        self._ending = 0

    async def answer(self, lines: LineStream, user: str) -> None:
        """Run the command in the first line of a connection; it continues after a disconnect."""
        try:
            greeting = json.loads(await lines.read_line())
            terminal = RemoteTerminal(greeting, lines)
            argv = [str(word) for word in greeting["argv"]]
            version = greeting["version"]
        except (ValueError, LookupError, TypeError):
            # Not a client of `nb`: the first line must be the call.
            lines.write(json.dumps(NO_COMMAND).encode() + b"\n")
            await lines.drain()
            return
        if version != __version__:
            terminal.err(
                f"The server runs version {__version__}, and nb is version {version}: run "
                "`nb shutdown`, then `nb open`.\n"
            )
        running = self._running.spawn(self._run(argv, terminal, user), "A command")
        listening = asyncio.create_task(_listen(lines, terminal))
        try:
            await asyncio.shield(running)
            await lines.drain()
        finally:
            listening.cancel()
            self._ending -= running.done()
        if self._context.project is not None and self._context.project.is_done:
            self._server.stop()

    async def close(self) -> None:
        """Cancel what still runs, once it could answer that its kernel has ended."""
        await self._running.close(grace=ANSWERING)

    async def _run(self, argv: list[str], terminal: RemoteTerminal, user: str) -> None:
        """Run a command to its end, even after a disconnect."""
        context = self._context.for_user(user)
        try:
            status = await self._commands.run(context, argv, terminal)
        except Exception as problem:
            logger.exception("nb %s failed", argv)
            error = InternalError(
                f"nb {argv[0]} failed: {type(problem).__name__}: {problem}",
                hint="This is a bug in nb; the server's log has the traceback.",
            )
            if "--json" in argv:
                terminal.out(as_json({"error": error.as_dict()}))
            else:
                terminal.err(f"{harmless(error.as_text())}\n")
            status = wire.REFUSED
        finally:
            self._ending += 1
        project = context.project
        if project is not None and status == wire.OK and _opens(argv) and not terminal.redirected:
            project.is_temporary = False
        if terminal.redirected:
            return
        if project is None:
            terminal.send(exit=status)
            return
        if project.is_temporary and self._usage.is_unused(ending=self._ending):
            project.stop_unused()
        if project.stopping:
            terminal.send_last(exit=status, ending=True)
        else:
            terminal.send(exit=status)


async def _listen(lines: LineStream, terminal: RemoteTerminal) -> None:
    try:
        while line := await lines.read_line():
            terminal.receive(json.loads(line))
        terminal.fail(NothingRead())
    except LineTooLong:
        terminal.fail(_too_long())
    except (ValueError, TypeError):
        terminal.fail(InvalidArguments("The command sent an invalid message."))


def _too_long() -> InvalidArguments:
    return InvalidArguments(
        f"The input is longer than {wire.LONGEST_LINE >> 20} MB as JSON.",
        hint="Nothing was changed. Write less at a time.",
    )
