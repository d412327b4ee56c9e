"""Every tool has an example in these tests: a call of it by name, with its answer looked at."""

import re
from pathlib import Path

import pytest

from tk_ai_extension.tools.registry import TOOLSETS, Registry

CALL = re.compile(r"""harness\.call\(\s*["'](\w+)["']""")


@pytest.mark.proves("mcp:structured")
def test_every_tool_is_called_in_the_tests():
    here = Path(__file__).parent
    called = {name for path in here.rglob("*.py") for name in CALL.findall(path.read_text("utf-8"))}
    assert {tool.name for tool in Registry.load(TOOLSETS)} - called == set()
