"""Completion of commands by argcomplete: commands, options, notebooks, and the cells of the notebook."""

from __future__ import annotations

import argparse
import os
from typing import Any

import argcomplete
from argcomplete.completers import DirectoriesCompleter, FilesCompleter

from tk_ai_extension.cli.command_context import CommandContext
from tk_ai_extension.cli.offline_reading import stored_notebook
from tk_ai_extension.cli.parsing import NotebookArgument, add_tool_arguments
from tk_ai_extension.cli.special_commands import COMMANDS, commands_of, tools_of
from tk_ai_extension.model.errors import ToolError


def complete(context: CommandContext) -> None:
    """Print the completions that the shell asks for, and end the process."""
    parser = argparse.ArgumentParser(prog="nb", add_help=False)
    _completed(parser.add_argument("-C", metavar="FOLDER"), DirectoriesCompleter())
    commands = parser.add_subparsers()
    for command in COMMANDS.values():
        added = commands.add_parser(command.name)
        if command.configure is not None:
            command.configure(added)  # type: ignore[arg-type]
    for name, tool in commands_of(tools_of(context)).items():
        add_tool_arguments(commands.add_parser(name), tool)

    def cells(parsed_args: argparse.Namespace, **_: object) -> list[str]:
        return _cells(context.path(getattr(parsed_args, "notebook", None)))

    for each in commands.choices.values():
        each.add_argument("--json", action="store_true")
        for action in each._actions:  # noqa: SLF001 - argcomplete reads them there, too
            if action.dest in ("notebook", "paths", "code"):
                _completed(action, FilesCompleter(("ipynb",)))
            elif action.dest in ("cell", "cells", "after", "before"):
                _completed(action, cells)
    # argcomplete runs no other actions, and `cells` would not see the named notebook.
    safe_actions: set[Any] = argcomplete.safe_actions
    safe_actions.add(NotebookArgument)
    argcomplete.autocomplete(parser)


def _completed(action: argparse.Action, completer: Any) -> None:
    action.completer = completer  # type: ignore[attr-defined]


def _cells(path: str | None) -> list[str]:
    """Return the ids of the cells in a notebook's file."""
    try:
        _, snapshot = stored_notebook(path or "", os.path.basename(path or ""))
    except (ToolError, OSError):
        return []
    return list(snapshot.short_keys.values())
