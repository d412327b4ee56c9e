"""The commands of `nb`, from their parsers."""

from __future__ import annotations

from collections.abc import Iterable

from scripts.docs.markdown import page
from tk_ai_extension.cli.main import groups
from tk_ai_extension.cli.parsing import tool_parser
from tk_ai_extension.cli.special_commands import COMMANDS, commands_of
from tk_ai_extension.tools.registry import Registry


def commands_page(registry: Registry) -> str:
    """Every command as ``nb COMMAND --help`` explains it, under the headings of ``nb --help``."""
    return page(
        "Commands",
        "*For people and scripts that use `nb`.*",
        "The output of `nb COMMAND --help` for every command. "
        "[The command line](../command-line.md) shows how to use them together.",
        *_sections(registry),
    )


def _sections(registry: Registry) -> Iterable[str]:
    tools = [tool.for_commands() for tool in registry]
    parsers = {name: tool_parser(tool) for name, tool in commands_of(tools).items()}
    parsers |= {command.name: command.parser() for command in COMMANDS.values()}
    for title, members in groups(tools):
        yield f"## {title}"
        for name in members:
            yield f"### nb {name}"
            yield f"```text\n{parsers[name].format_help().rstrip()}\n```"
