"""What a newcomer reads: every command is listed, explained, and shown by examples that can be typed."""

from __future__ import annotations

import shlex

import pytest

from tests.cli.conftest import Nb
from tk_ai_extension.cli.commands import COMMANDS, commands_of
from tk_ai_extension.cli.parsing import EXAMPLES, tool_parser
from tk_ai_extension.tools.registry import Registry

TOOLS = [tool.for_commands() for tool in Registry.load()]
PARSERS = {
    **{
        name: (tool_parser(tool), EXAMPLES.get(name, ()))
        for name, tool in commands_of(TOOLS).items()
    },
    **{command.name: (command.parser(), command.examples) for command in COMMANDS.values()},
}


def typed(example: str) -> list[list[str]]:
    """The calls of `nb` in a line of shell, redirections and comments left out."""
    words = shlex.split(example, comments=True)
    calls: list[list[str]] = []
    while "nb" in words:
        words = words[words.index("nb") + 1 :]
        ends = [n for n, word in enumerate(words) if word in ("<", ">", "|", "&&", ";")]
        if words[0] != "--":  # `claude mcp add nb -- nb mcp`
            calls.append(words[: min(ends, default=len(words))])
    return calls


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_the_examples_of_a_command_are_calls_of_it(name: str) -> None:
    examples = PARSERS[name][1]
    calls = [call for example in examples for call in typed(example.replace(";", " ;"))]
    assert not calls or any(call[0] == name for call in calls)
    for called, *words in calls:
        PARSERS[called][0].parse_args(words)


@pytest.mark.usefixtures("fresh_processes")
@pytest.mark.proves("nb:commands")
def test_help_says_what_there_is_and_how_each_ends(nb: Nb) -> None:
    overview = nb("--help").out
    listed = [line.split()[0] for line in overview.splitlines() if line.startswith("  ")]
    assert set(PARSERS) <= set(listed)
    assert overview.count("(") == overview.count(")")
    for status in ("0;", "1 the cell failed", "2 an error", "3 no kernel or server answers"):
        assert status in " ".join(overview.split())
    assert "examples:\n  nb exec 3" in nb("exec", "--help").out
    assert nb().out == overview
    assert not (nb.root / ".nb").exists()
