"""Entry point of `nb`: finds the project and the command, and runs it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from tk_ai_extension._version import __version__
from tk_ai_extension.cli.command_context import (
    INTERRUPTED,
    OK,
    REFUSED,
    CommandContext,
    write,
    write_err,
)
from tk_ai_extension.cli.parsing import GROUPS, first_sentence, in_command, signature, tool_parser
from tk_ai_extension.cli.project_folder import CommandError, Project
from tk_ai_extension.cli.servers import ToolFailed
from tk_ai_extension.cli.special_commands import COMMANDS, commands_of, tool_call, tools_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

USAGE = "usage: nb [-C FOLDER] COMMAND [ARGUMENTS] [--json]"
INTRODUCTION = """\
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
CONCLUSION = """\
`nb COMMAND --help` says more. -C FOLDER works in another folder; NB_CALLER separates callers of one
project; `nb --version` prints the version.

Exit status: 0; 1 the cell failed; 2 an error; 3 no kernel or server answers; 4 it still runs (`--wait`
is over); 130 Ctrl-C (while a cell runs the second one: the first interrupts the cell).
"""

OFFLINE = ("cells", "cell", "read")
"""Commands that read the file where no server runs."""


def main(argv: list[str] | None = None) -> int:
    """Run one command; return the exit status (see `CONCLUSION`)."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        argv = _in_folder(argv)
        return _run(_context(argv), argv)
    except (CommandError, OSError) as error:  # such as a full disk, or a folder that was deleted
        message = f"nb: {error}"
        if "--json" not in argv:
            write_err(message)
            return REFUSED
        said = {"code": "invalid_arguments", "message": message, "hint": "See --help."}
        return CommandContext(Project(os.sep), "nb", as_json=True).refuse(said)
    except KeyboardInterrupt:
        return INTERRUPTED


def _context(argv: list[str]) -> CommandContext:
    project = Project.find(os.getcwd())
    if project.notice:
        write_err(f"nb: {project.notice}")
    context = CommandContext(project, os.environ.get("NB_CALLER") or "nb", as_json="--json" in argv)
    if "_ARGCOMPLETE" in os.environ:
        from tk_ai_extension.cli.completion import complete

        complete(context)
    return context


def _in_folder(argv: list[str]) -> list[str]:
    """Change to the folder of ``-C FOLDER``; return the other words."""
    if argv[:1] != ["-C"]:
        return argv
    if len(argv) < 2:
        raise CommandError("-C needs a folder.")
    try:
        os.chdir(argv[1])
    except OSError as error:
        raise CommandError(f"{argv[1]}: {error.strerror}.") from None
    return argv[2:]


def _run(context: CommandContext, argv: list[str]) -> int:
    if argv[:1] == ["--version"]:
        write(f"nb {__version__}")
        return OK
    words = [word for word in argv if word != "--json"]
    if words[:1] in ([], ["-h"], ["--help"], ["help"]):
        if len(words) < 2:
            write(overview(tools_of(context)))
            return OK
        argv = [words[1], "--help"]
    name, rest = argv[0], argv[1:]
    tools: list[dict[str, Any]] = []
    try:
        if name in OFFLINE and "--help" not in rest:
            from tk_ai_extension.cli.offline_reading import read_offline

            done = read_offline(context, name, rest)
            if done is not None:
                return done
        if own := COMMANDS.get(name):
            args = _parsed(own.parser(), rest)
            return OK if args is None else own.run(context, args)
        tools = tools_of(context)
        tool = commands_of(tools).get(name)
        if tool is None:
            raise CommandError(f"unknown command `{name}`; `nb --help` lists them.")
        args = _parsed(tool_parser(tool), rest)
        return OK if args is None else tool_call(context, tool, args)
    except ToolFailed as error:
        if not tools:
            with suppress(ToolFailed):
                tools = tools_of(context)
        return context.refuse(error.error, {each["name"]: signature(each)[0] for each in tools})


def _parsed(parser: Any, words: list[str]) -> Any:
    """Return the parsed arguments; None if only the help was asked for."""
    try:
        return parser.parse_args(words)
    except SystemExit:
        return None


def groups(tools: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the headings of the overview, each with its commands and their summaries."""
    found: dict[str, dict[str, str]] = {}
    for command in COMMANDS.values():
        found.setdefault(command.group, {})[command.name] = command.summary
    for name, tool in commands_of(tools).items():
        text = in_command(tool["description"], tool)
        found.setdefault(GROUPS[tool["effect"]], {})[name] = text
    yield from found.items()


def overview(tools: list[dict[str, Any]]) -> str:
    """Return the text of ``nb --help``."""
    lines = [USAGE, "", INTRODUCTION]
    for title, members in groups(tools):
        lines.append(f"{title}:")
        lines += [f"  {name:<12} {first_sentence(text)}" for name, text in members.items()]
        lines.append("")
    return "\n".join([*lines, CONCLUSION])
