"""Parsers of commands, made from the descriptions of tools, and the commands' examples."""

from __future__ import annotations

import argparse
import json
import re

from tk_ai_extension.cli.project_folder import CommandError
from tk_ai_extension.tools.parameter_docs import meaning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn

STDIN = "-"
"""Stands for standard input in place of a text."""

DEFAULTS = {
    "execution_id": "the execution's id (default: your last one)",
    "text": "file with the edited text of nb read (default: standard input)",
}
"""Help of arguments that tools need and commands do not."""

GROUPS = {"READ": "Read", "WRITE": "Change", "EXECUTE": "Run"}
"""Headings of the commands of tools, by effect."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `CommandError`; options cannot be abbreviated."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise `CommandError` with the usage."""
        raise CommandError(f"{message}\n{self.format_usage().rstrip()}")


def command_parser(name: str, summary: str, examples: Sequence[str]) -> Parser:
    """Return a parser with the options that all commands have."""
    shown = "\n".join(f"  {line}" for line in examples)
    parser = Parser(
        prog=f"nb {name}",
        description=summary,
        epilog=f"examples:\n{shown}" if shown else None,
    )
    parser.add_argument("--json", action="store_true", help="answer as JSON, for programs")
    return parser


class NotebookArgument(argparse.Action):
    """A notebook may be given as a positional argument or by ``-n``, but not twice."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        """Set the notebook."""
        if values is None:
            return
        if getattr(namespace, self.dest, None) is not None:
            parser.error(f"{option_string or 'NOTEBOOK'}: the notebook is already given")
        setattr(namespace, self.dest, values)


def add_notebook(
    parser: argparse.ArgumentParser,
    *,
    by_place: bool = True,
    required: bool = False,
    help: str = "path or name of the notebook (default: the current one)",  # noqa: A002 - argparse's name
) -> None:
    """Add a command's notebook argument: ``-n``, and a positional one unless `by_place` is false."""
    described: dict[str, Any] = {"action": NotebookArgument, "metavar": "NOTEBOOK"}
    if by_place:
        nargs = None if required else "?"
        parser.add_argument("notebook", nargs=nargs, help=help, **described)
        help = argparse.SUPPRESS  # noqa: A001
        required = False
    parser.add_argument("-n", "--notebook", required=required, help=help, **described)


def signature(tool: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the name of a tool's command and its positional arguments; the others are options."""
    if tool["command"]:
        name, *positionals = tool["command"].split()
        return name, positionals
    return tool["name"].replace("_", "-").lower(), list(tool["input_schema"].get("required", ()))


def tool_parser(tool: Mapping[str, Any]) -> Parser:
    """Return the parser of a tool's command."""
    name, _ = signature(tool)
    summary = in_command(tool["description"], tool)
    parser = command_parser(name, summary, EXAMPLES.get(name, ()))
    add_tool_arguments(parser, tool)
    if name == "open":
        parser.add_argument(
            "--sandbox",
            action=argparse.BooleanOptionalAction,
            help="run this project's kernels without network, with access to its folder only",
        )
    return parser


def add_tool_arguments(parser: argparse.ArgumentParser, tool: Mapping[str, Any]) -> None:
    """Add a tool's arguments to a parser; omitted ones are not in its namespace."""
    schema = tool["input_schema"]
    _, positionals = signature(tool)
    needed = schema.get("required", ())
    for name in [*positionals, *(each for each in schema["properties"] if each not in positionals)]:
        if (tool["name"], name) != ("use_notebook", "mode"):  # `nb open` creates a notebook.
            is_required = name in needed and name not in DEFAULTS
            _add(parser, tool, name, by_place=name in positionals, required=is_required)


def _option(name: str) -> str:
    """Return the option for an argument."""
    return "--kernel" if name == "kernel_name" else f"--{name.replace('_', '-')}"


def _add(
    parser: argparse.ArgumentParser,
    tool: Mapping[str, Any],
    name: str,
    *,
    by_place: bool,
    required: bool,
) -> None:
    schema = tool["input_schema"]["properties"][name]
    described: dict[str, Any] = {"help": DEFAULTS.get(name) or _help(tool, name, schema)}
    if name == "notebook":
        add_notebook(parser, by_place=by_place, required=required, **described)
        return
    option = _option(name)
    if schema.get("type") == "boolean" and not by_place:
        described |= {"action": argparse.BooleanOptionalAction, "default": argparse.SUPPRESS}
        parser.add_argument(option, dest=name, **described)
        return
    if "enum" in schema:
        described["choices"] = schema["enum"]
    else:
        described["type"] = _converter(schema)
        described["metavar"] = name.upper().replace("_", "-")
    if by_place:
        parser.add_argument(name, nargs=None if required else "?", **described)
    else:
        described |= {"required": required, "default": argparse.SUPPRESS}
        parser.add_argument(option, dest=name, **described)


def in_command(text: str, tool: Mapping[str, Any]) -> str:
    """Write a tool's arguments in a text as the command's: `` `old` `` as ``OLD``, others as options."""
    _, positionals = signature(tool)

    def written(found: re.Match[str]) -> str:
        name = found[1]
        if name not in tool["input_schema"]["properties"]:
            return found[0]
        return name.upper() if name in positionals else _option(name)

    return re.sub("`([a-z_]+)`", written, " ".join(text.split()))


def _help(tool: Mapping[str, Any], name: str, schema: Mapping[str, Any]) -> str:
    text = in_command(str(schema.get("description") or meaning(tool["name"], name)), tool)
    # As a phrase in a list, without links to the documentation.
    text = re.sub(r"\[([^][]+)\]\([^()]*\)", r"\1", text).replace("%", "%%").replace("`", "")
    text = text[:1].lower() + text[1:].removesuffix(".")
    text = text.replace("relative to the server's root", "relative to the current folder")
    text = text.replace("the server's root", "the project's folder")
    if name == "wait":
        return f"{text} (default: until it ends)"
    if schema.get("default") not in (None, "", False):
        text = f"{text} (default: {schema['default']})".strip()
    return text


def _converter(schema: Mapping[str, Any]) -> Callable[[str], Any]:
    kinds = schema.get("type")
    if isinstance(kinds, list):
        # A cell: an id or an index; the tool tells them apart.
        return str
    return {"string": str, "integer": int, "number": float}.get(str(kinds), json_of)


def json_of(text: str) -> Any:
    """Parse JSON; ``-`` stays as it is: the caller reads standard input.

    Raises:
        CommandError: It is not JSON.
    """
    try:
        return STDIN if text == STDIN else json.loads(text)
    except ValueError as error:
        raise CommandError(f"not JSON: {error}") from None


def first_sentence(text: str) -> str:
    """Return the first sentence of a summary, for a list of commands."""
    first = re.split(r"(?<=[.;:]) ", text, maxsplit=1)[0].rstrip(";:.")
    return re.sub(r" \([^)]*$", "", first) + "."


EXAMPLES: Mapping[str, Sequence[str]] = {
    "add": ("nb add 'df.describe()'              # append a cell and run it", "nb add - < new.py"),
    "apply": (
        """nb apply '[{"action": "delete", "cell": 3}, {"action": "insert", "source": "x = 1"}]'""",
        "nb apply - --run < operations.json  # all or nothing, then run the changed cells",
    ),
    "cat": ("nb cat data.csv --limit 20", "nb cat train.log --grep loss"),
    "cell": ("nb cell 3", "nb cell 318a --no-outputs"),
    "cells": ("nb cells", "nb cells other.ipynb --json"),
    "clear": ("nb clear 0-3,7", "nb clear --all"),
    "create": (
        "nb create new.ipynb --kernel python3",
        """nb create new.ipynb --cells '[{"source": "# Prices", "cell_type": "markdown"}]'""",
    ),
    "edit": (
        "nb edit 3 'x = 1'",
        "nb edit 318a.9f2c - < new.py         # only if it is still that version",
    ),
    "files": ("nb files", "nb files data --pattern '*.csv'"),
    "insert": (
        "nb insert 2 'x = 1'                 # at index 2",
        "nb insert - < new.py                # at the end",
        "nb insert 0 '# Title' --cell-type markdown",
    ),
    "kernels": ("nb kernels                          # for: nb open new.ipynb --kernel NAME",),
    "mv": ("nb mv 318a 0                        # make it the first cell",),
    "notebooks": ("nb notebooks --recursive",),
    "open": (
        "nb open analysis.ipynb",
        "nb open new.ipynb --kernel ir       # a new notebook, for R",
        "nb open --sandbox work.ipynb        # no network, access to this folder only",
    ),
    "output": ("nb output 9f2c0b1d7e44 --grep Error  # the id is where the output was cut",),
    "read": ("nb read analysis.ipynb > a.txt", "nb read --view reading --cells 0-9"),
    "replace": ("nb replace 318a 'lr = 0.1' 'lr = 0.01'",),
    "rm": ("nb rm 3", "nb rm 318a.9f2c                     # only if it is still that version"),
    "search": (
        "nb search 'read_csv'",
        "nb search Error --where outputs",
        "nb search 'read_csv' -n data         # all notebooks in the folder",
    ),
    "stop": ("nb stop                             # loses its variables; the notebook is kept",),
    "undo": ("nb undo", "nb undo 3"),
    "unuse": ("nb unuse --shutdown-kernel",),
    "exec": (
        "nb exec 3                           # the cell at index 3",
        "nb exec 318a                        # the cell with an id that starts with 318a",
        "nb exec 0-3,7",
        "nb exec --which stale               # the cells that have to run again",
        "nb exec --which all --restart --timeout 600",
    ),
    "write": (
        "nb read > a.txt && $EDITOR a.txt && nb write a.txt",
        "sed s/foo/bar/ a.txt | nb write",
    ),
    "watch": (
        "nb exec 3 --wait 0; nb watch        # your last execution",
        "nb watch 3f2a90bc11                  # an agent's execution",
    ),
    "vars": ("nb vars 'df*'",),
}
"""Examples by command; a test parses each."""
