"""Parsing of command lines into a tool's arguments; the parsers are generated from the registry."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tk_ai_extension.tools.glossary import meaning
from tk_ai_extension.tools.registry import Tool

STDIN = "-"
"""Stands for standard input in place of a text."""


class WrongCall(Exception):
    """The command line is invalid; the message has the usage."""


class HelpAsked(Exception):
    """``--help``: the message is the help."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of ending the process, and prints nothing itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise `WrongCall` with the usage."""
        raise WrongCall(f"{self.prog}: {message}\n{self.format_usage()}")

    def print_help(self, file: Any = None) -> NoReturn:  # noqa: ARG002 - argparse's signature
        """Raise `HelpAsked` with the help."""
        raise HelpAsked(self.format_help())


@dataclass(frozen=True, slots=True)
class CommandSignature:
    """Signature of a tool on the command line: ``@tool(..., command="insert index source")``.

    Attributes:
        name: The command's name.
        positionals: The positional arguments; the others are options.
    """

    name: str
    positionals: tuple[str, ...]

    @classmethod
    def of(cls, tool: Tool) -> CommandSignature:
        """Return a tool's signature: its own, else its name with dashes and its required arguments."""
        if tool.command:
            name, *positionals = tool.command.split()
            return cls(name, tuple(positionals))
        required = [name for name, f in tool.arguments.model_fields.items() if f.is_required()]
        return cls(tool.name.replace("_", "-"), tuple(required))


class _OneNotebook(argparse.Action):
    """A notebook as a positional argument or by ``-n``; two different ones are refused."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,  # noqa: ARG002 - argparse's signature
    ) -> None:
        given = getattr(namespace, self.dest, None)
        if values is None:
            # The positional was omitted: keep the value of -n.
            values = given
        elif given not in (None, values):
            parser.error(f"two notebooks are given: {given} and {values}")
        setattr(namespace, self.dest, values)


def add_notebook(
    parser: argparse.ArgumentParser,
    *,
    by_place: bool = True,
    required: bool = False,
    help: str = "path or name (default: the current one)",  # noqa: A002 - argparse's name for it
) -> None:
    """Add a command's notebook argument: ``-n``, and a positional unless `by_place` is false."""
    described: dict[str, Any] = {"action": _OneNotebook, "metavar": "NOTEBOOK"}
    if by_place:
        nargs = None if required else "?"
        parser.add_argument("notebook", nargs=nargs, help=help, **described)
        help = argparse.SUPPRESS  # noqa: A001
        required = False
    parser.add_argument("-n", "--notebook", required=required, help=help, **described)


def add_tool_arguments(
    parser: argparse.ArgumentParser,
    tool: Tool,
    positionals: Sequence[str],
    *,
    exclude: Sequence[str] = (),
) -> None:
    """Add a tool's arguments to a parser.

    Args:
        parser: The parser.
        tool: The tool.
        positionals: The positional arguments, in order.
        exclude: Arguments to leave out.
    """
    properties: Mapping[str, Mapping[str, Any]] = tool.input_schema["properties"]
    names = [*positionals, *(name for name in properties if name not in positionals)]
    for name in names:
        if name in exclude:
            continue
        schema = properties[name]
        required = tool.arguments.model_fields[name].is_required()
        help_text = _help(tool, name, schema, positionals)
        _add(parser, name, schema, by_place=name in positionals, required=required, help=help_text)


def _add(
    parser: argparse.ArgumentParser,
    name: str,
    schema: Mapping[str, Any],
    *,
    by_place: bool,
    required: bool,
    help: str,  # noqa: A002 - argparse's name for it
) -> None:
    if name == "notebook":
        add_notebook(parser, by_place=by_place, required=required, help=help)
        return
    described: dict[str, Any] = {"help": help}
    if schema.get("type") == "boolean" and not by_place:
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            dest=name,
            action=argparse.BooleanOptionalAction,
            default=argparse.SUPPRESS,
            **described,
        )
        return
    if "enum" in schema:
        described["choices"] = schema["enum"]
    else:
        described["type"] = _converter(schema)
        described["metavar"] = name.upper().replace("_", "-")
    if by_place:
        parser.add_argument(
            name,
            nargs=None if required else "?",
            **described,
        )
        return
    parser.add_argument(
        f"--{name.replace('_', '-')}",
        dest=name,
        required=required,
        default=argparse.SUPPRESS,
        **described,
    )


def in_command(text: str, tool: Tool, positionals: Sequence[str]) -> str:
    """Write a tool's arguments in a text as the command's: `` `old` `` as ``OLD``, others as options."""

    def written(found: re.Match[str]) -> str:
        name = found[1]
        if name not in tool.input_schema["properties"]:
            return found[0]
        return name.upper() if name in positionals else f"--{name.replace('_', '-')}"

    return re.sub("`([a-z_]+)`", written, text)


def _help(tool: Tool, name: str, schema: Mapping[str, Any], positionals: Sequence[str]) -> str:
    text = str(schema.get("description") or meaning(tool.name, name))
    text = in_command(text, tool, positionals)
    # As a phrase in a list, without links to the documentation.
    text = re.sub(r"\[([^][]+)\]\([^()]*\)", r"\1", text).replace("%", "%%").replace("`", "")
    text = text[:1].lower() + text[1:].removesuffix(".")
    # Commands take paths from the shell's folder: see `Session.located`.
    text = text.replace("relative to the server's root", "relative to the current folder")
    text = text.replace("the server's root", "the project's folder")
    if name == "wait":
        # Commands wait without a limit: see `Session.run`.
        return f"{text} (default: until it ends)"
    if "default" in schema and schema["default"] not in (None, "", False):
        text = f"{text} (default: {schema['default']})".strip()
    return text


def _converter(schema: Mapping[str, Any]) -> Callable[[str], Any]:
    kinds = schema.get("type")
    if isinstance(kinds, list):
        # A cell: an id or an index; the tool tells them apart.
        return str
    return {"string": str, "integer": _integer, "number": _number}.get(str(kinds), _json)


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


class FromStdin:
    """An argument whose JSON value is read from standard input."""

    def parse(self, text: str) -> Any:
        """Return the parsed value.

        Raises:
            WrongCall: the input is not JSON.
        """
        try:
            return json.loads(text)
        except ValueError as error:
            raise WrongCall(f"nb: standard input is not JSON: {error}\n") from None


def _json(text: str) -> Any:
    if text == STDIN:
        return FromStdin()
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None
