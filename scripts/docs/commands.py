"""The commands of `nb`, from their parsers."""

from __future__ import annotations

from collections.abc import Iterable

from scripts.docs.markdown import page
from tk_ai_extension.cli.commands.command import Command
from tk_ai_extension.cli.commands.table import Commands
from tk_ai_extension.tools.registry import Registry


def commands_page(registry: Registry) -> str:
    """Every command as ``nb COMMAND --help`` explains it, under the headings of ``nb --help``."""
    commands = Commands(registry)
    groups: dict[str, list[Command]] = {}
    for command in commands:
        groups.setdefault(command.group, []).append(command)
    return page(
        "Commands",
        "*For people and scripts that use `nb`.*",
        "The output of `nb COMMAND --help` for every command. "
        "[The command line](../command-line.md) shows how to use them together.",
        *_sections(commands, groups.items()),
    )


def _sections(commands: Commands, groups: Iterable[tuple[str, list[Command]]]) -> Iterable[str]:
    for title, members in groups:
        yield f"## {title}"
        for command in members:
            yield f"### nb {command.name}"
            yield f"```text\n{commands.parser(command.name).format_help().rstrip()}\n```"
