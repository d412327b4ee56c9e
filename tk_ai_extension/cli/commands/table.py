"""Table of all commands, from tools and from modules, and how a command is run."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from tk_ai_extension.cli import wire
from tk_ai_extension.cli.commands import (
    approve,
    cells,
    chat,
    completion,
    doctor,
    notebook,
    project,
    run,
    verify,
)
from tk_ai_extension.cli.commands.command import Command, given
from tk_ai_extension.cli.commands.examples import EXAMPLES
from tk_ai_extension.cli.commands.topics import errors_topic, json_topic
from tk_ai_extension.cli.context import CommandContext
from tk_ai_extension.cli.no_kernels import ServerRequired
from tk_ai_extension.cli.parsing import (
    CommandSignature,
    HelpAsked,
    Parser,
    WrongCall,
    add_tool_arguments,
    in_command,
)
from tk_ai_extension.cli.servers import Server
from tk_ai_extension.cli.session import LONG, Options, Session
from tk_ai_extension.cli.terminal import NothingRead, Terminal
from tk_ai_extension.model.callers import MAX_KEY, checked_key
from tk_ai_extension.model.errors import (
    InvalidArguments,
    KernelStartFailed,
    NotFound,
    OpenElsewhere,
    ToolError,
)
from tk_ai_extension.notebooks.atomic_file import save_error
from tk_ai_extension.tools.execution_results import ExecutionResult
from tk_ai_extension.tools.registry import Registry, Tool

OWN = (
    *project.COMMANDS,
    *notebook.COMMANDS,
    *cells.COMMANDS,
    *run.COMMANDS,
    *verify.COMMANDS,
    *approve.COMMANDS,
    *chat.COMMANDS,
    *completion.COMMANDS,
    *doctor.COMMANDS,
)
"""Commands beyond a single tool call."""

_USAGE = "usage: nb [-C FOLDER] COMMAND [ARGUMENTS] [--json]"
_INTRODUCTION = """\
Notebooks on the command line: read and change their cells, run them in kernels that keep running
between commands.

A cell is named by its id or a prefix of it, its index (-1 is the last), or `id.version`,
which makes a change conditional on the version. `-` stands for standard input.

  nb open analysis.ipynb            start its kernel and make it the current notebook
  nb cells                          one line per cell
  nb insert -1 'df.describe()'      a new cell at the end
  nb exec 318a                      run a cell and save its outputs in the notebook
  nb read > a.txt; nb write a.txt   the notebook as text and back, merged with changes by others
"""


class Commands:
    """The commands of a registry's tools and of the modules."""

    def __init__(self, registry: Registry) -> None:
        own = {command.name for command in OWN}
        self._commands = {command.name: command for command in OWN}
        self._by_tool: dict[str, str] = {}
        for tool in registry:
            command = tool_command(tool)
            self._by_tool[tool.name] = command.name
            if command.name not in own:
                self._commands[command.name] = command
        self._parsers: dict[str, Parser] = {}

    def __iter__(self) -> Iterator[Command]:
        return iter(self._commands.values())

    def parser(self, name: str) -> Parser:
        """Return the parser of a command.

        Raises:
            WrongCall: there is no such command.
        """
        if name not in self._parsers:
            command = self._commands.get(name)
            if command is None:
                raise WrongCall(f"nb: unknown command `{name}`; `nb --help` lists them.\n")
            examples = "\n".join(f"  {line}" for line in command.examples)
            parser = Parser(
                prog=f"nb {name}",
                description=command.summary,
                epilog=f"examples:\n{examples}" if examples else None,
            )
            command.configure(parser)
            parser.add_argument("--json", action="store_true", help="answer as JSON, for programs")
            self._parsers[name] = parser
        return self._parsers[name]

    def overview(self) -> str:
        """Return the text of ``nb --help``."""
        groups: dict[str, list[Command]] = {}
        for command in self:
            groups.setdefault(command.group, []).append(command)
        lines = [_USAGE, "", _INTRODUCTION]
        for title, commands in groups.items():
            lines.append(f"{title}:")
            lines += [
                f"  {command.name:<12} {_first_sentence(command.summary)}" for command in commands
            ]
            lines.append("")
        lines += [
            "`nb COMMAND --help` says more; `nb help json` describes the answers of `--json`,",
            "`nb help errors` the codes of errors. -C FOLDER works in another folder; NB_CALLER",
            "separates callers of one project; `nb --version` prints the version.",
            "",
            "Exit status: 0; 1 the cell failed, or the output cannot be written; 2 an error;",
            "3 no kernel or server answers; 4 it still runs (`--wait` is over); 130 Ctrl-C (while",
            "a cell runs the second one: the first interrupts the cell).",
        ]
        return "\n".join(lines) + "\n"

    def help(self, words: list[str]) -> str:
        """Return the help of a topic or a command, or the overview.

        Raises:
            WrongCall: there is no such command.
        """
        topic = next((word for word in words if word != "--json"), None)
        if topic is None:
            return self.overview()
        if topic == "json":
            return json_topic((command.name, command.answers) for command in self)
        return errors_topic() if topic == "errors" else self.parser(topic).format_help()

    def with_commands(self, error: ToolError, command: str) -> ToolError:
        """Replace tools by commands in an error."""
        if error.hint == InvalidArguments.default_hint:
            error.hint = f"See `nb {command} --help`."
        error.message, error.hint = (
            re.sub(
                r"\b[a-z]+(?:_[a-z]+)+\b",
                lambda m: f"`nb {self._by_tool[m[0]]}`" if m[0] in self._by_tool else m[0],
                said.replace("`notebook`", "`-n NOTEBOOK`"),
            )
            for said in (error.message, error.hint)
        )
        return error

    async def run(self, context: CommandContext, argv: list[str], terminal: Terminal) -> int:
        """Run a command line; return the exit status."""
        if not argv or argv[0] in ("-h", "--help", "help"):
            try:
                terminal.out(self.help(argv[1:]))
            except WrongCall as wrong:
                return refuse_call(terminal, wrong, json="--json" in argv)
            return wire.OK
        try:
            caller = context.caller(_key(terminal))
        except InvalidArguments as error:
            options = Options(json="--json" in argv)
            return Session(context, terminal, context.caller(), options).refuse(error)
        if argv[0] == "complete":
            return await self._complete(Session(context, terminal, caller, Options()), argv[1:])
        try:
            args = self.parser(argv[0]).parse_args(argv[1:])
            options = Options(json=args.json)
            delattr(args, "json")
        except HelpAsked as asked:
            terminal.out(str(asked))
            return wire.OK
        except WrongCall as wrong:
            return refuse_call(terminal, wrong, json="--json" in argv)
        context.memory.recall(context.workspace, caller)
        if terminal.info.notebook is not None:
            with suppress(ToolError):  # not a path here: the command reports it
                path = context.workspace.contain(terminal.info.notebook)
                context.workspace.notebooks.add(caller, None, path, kernel_id=None)
        try:
            session = Session(context, terminal, caller, options)
            return await self._run(self._commands[argv[0]], session, args)
        finally:
            context.memory.save(context.workspace, caller)

    async def _run(self, command: Command, session: Session, args: argparse.Namespace) -> int:
        try:
            return await command.run(session, args)
        except WrongCall as wrong:
            return refuse_call(session.terminal, wrong, json=session.options.json)
        except NothingRead:
            return wire.REFUSED
        except ToolError as error:
            if await self._redirected(session, error):
                return wire.OK
            return session.refuse(self.with_commands(error, command.name))
        except OSError as error:
            where = str(error.filename or session.context.root)
            return session.refuse(save_error(error, where))

    async def _redirected(self, session: Session, error: ToolError) -> bool:
        """Redirect a command to the server that its error names; return whether it was redirected."""
        project = session.context.project
        is_stopping = project is not None and project.stopping
        if isinstance(error, KernelStartFailed if is_stopping else ServerRequired):
            # The next server starts the kernel.
            return session.redirect(None)
        server = await self._elsewhere(session, error)
        return server is not None and session.redirect(server)

    async def _elsewhere(self, session: Session, error: ToolError) -> Server | None:
        """Return the server that an error names as the owner."""
        project = session.context.project
        if project is None:
            return None
        if isinstance(error, OpenElsewhere) and error.details.get("server"):
            return project.ownership.attached or project.servers.at(error.details["server"])
        if isinstance(error, NotFound):
            return await session.context.owner_of("")
        return None

    async def _complete(self, session: Session, words: list[str]) -> int:
        words = words[1:] if words[:1] == ["--"] else words
        return await completion.complete(session, words, self._commands, self.parser)


def _key(terminal: Terminal) -> str | None:
    """Return the caller's key from the environment.

    Raises:
        InvalidArguments: the key is invalid.
    """
    try:
        return checked_key(terminal.info.env.get("NB_CALLER"))
    except InvalidArguments as error:
        error.hint = f"Set NB_CALLER to at most {MAX_KEY} printable characters."
        raise


def _first_sentence(text: str) -> str:
    first = re.split(r"(?<=[.;:]) ", text, maxsplit=1)[0].rstrip(";:.")
    return re.sub(r" \([^)]*$", "", first) + "."


def refuse_call(terminal: Terminal, wrong: WrongCall, *, json: bool) -> int:
    """Print the usage of a command; return the exit status."""
    if json:
        import json as encoder

        error = InvalidArguments(str(wrong).strip(), hint="See --help for the usage.")
        terminal.out(encoder.dumps({"error": error.as_dict()}) + "\n")
    else:
        terminal.err(str(wrong))
    return wire.REFUSED


def tool_command(tool: Tool) -> Command:
    """Create the command of a tool."""
    signature = CommandSignature.of(tool)
    return Command(
        signature.name,
        in_command(" ".join(tool.description.split()), tool, signature.positionals),
        partial(_configure, tool=tool, signature=signature),
        partial(_call, tool=tool),
        examples=EXAMPLES.get(signature.name, ()),
        group={"READ": "Read", "WRITE": "Change", "EXECUTE": "Run"}[tool.effect],
        answers=(tool.result,),
    )


def _configure(parser: argparse.ArgumentParser, *, tool: Tool, signature: CommandSignature) -> None:
    add_tool_arguments(parser, tool, signature.positionals)


async def _call(session: Session, args: argparse.Namespace, *, tool: Tool) -> int:
    arguments = await given(session, args)
    if issubclass(tool.result, ExecutionResult):
        return session.finish(await session.run(tool.name, **arguments))
    if "wait" in tool.arguments.model_fields:
        arguments.setdefault("wait", LONG)
    return session.finish(await session.call(tool.name, **arguments))
