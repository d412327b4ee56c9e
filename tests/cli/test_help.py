"""What a newcomer reads: every command is listed and explained, and how each ends."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Nb
from tk_ai_extension.cli.special_commands import COMMANDS, commands_of
from tk_ai_extension.tools.registry import Registry


@pytest.mark.proves("nb:commands")
def test_help_says_what_there_is_and_how_each_ends(nb: Nb) -> None:
    overview = nb("--help").out
    listed = [line.split()[0] for line in overview.splitlines() if line.startswith("  ")]
    tools = commands_of([tool.for_commands() for tool in Registry.load()])
    assert {*tools, *COMMANDS} <= set(listed)
    for status in ("0;", "1 the cell failed", "2 an error", "3 no kernel or server answers"):
        assert status in " ".join(overview.split())
    assert "examples:\n  nb exec 3" in nb("exec", "--help").out
    assert nb().out == overview
    assert not (nb.root / ".nb").exists()
