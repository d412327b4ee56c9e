"""Completion of commands by argcomplete: commands, options, notebooks, and the cells of the notebook."""

from __future__ import annotations

import argparse
from typing import Any

import argcomplete
from argcomplete.completers import FilesCompleter

from tk_ai_extension.cli.commands import COMMANDS, commands_of, notebook_argument, tools_of
from tk_ai_extension.cli.parsing import add_tool_arguments
from tk_ai_extension.cli.servers import ToolFailed
from tk_ai_extension.cli.session import Session


def complete(session: Session) -> None:
    """Print the completions that the shell asks for, and end the process."""
    parser = argparse.ArgumentParser(prog="nb", add_help=False)
    parser.add_argument("-C", metavar="FOLDER")
    commands = parser.add_subparsers()
    for command in COMMANDS.values():
        added = commands.add_parser(command.name)
        if command.configure is not None:
            command.configure(added)  # type: ignore[arg-type]
    for name, tool in commands_of(tools_of(session)).items():
        add_tool_arguments(commands.add_parser(name), tool)
    for each in commands.choices.values():
        each.add_argument("--json", action="store_true")
        for action in each._actions:  # noqa: SLF001 - argcomplete reads them there, too
            action.completer = _completer(session, action)  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser)


def _completer(session: Session, action: argparse.Action) -> Any:
    if action.dest in ("notebook", "paths", "code"):
        return FilesCompleter(("ipynb",))
    if action.dest in ("cell", "cells", "after", "before"):

        def cells(parsed_args: argparse.Namespace, **_: object) -> list[str]:
            return _cells(session, getattr(parsed_args, "notebook", None))

        return cells
    return FilesCompleter()


def _cells(session: Session, notebook: str | None) -> list[str]:
    """Return the ids of the cells of a notebook."""
    try:
        server = session.server(session.path(notebook), starts=False, changes=False)
        listed = session.call(server, "list_cells", **notebook_argument(session, server, notebook))
    except ToolFailed:
        return []
    return [each["cell"] for each in listed["result"]["cells"]]
