"""One definition of a tool, and all that is derived from it."""

import json
import sys

import pytest

from tk_ai_extension.model.errors import InternalError, InvalidArguments
from tk_ai_extension.tools.registry import (
    TOOLSETS,
    Registry,
)


@pytest.mark.proves("mcp:structured")
def test_the_default_toolset_costs_a_model_less_than_20_000_characters():
    described = [
        {"name": t.name, "description": t.description, "inputSchema": t.input_schema}
        for t in Registry.load()
    ]
    assert len(json.dumps(described)) < 20_000


def test_every_tool_and_every_field_of_its_answer_is_described():
    for definition in Registry.load(TOOLSETS):
        assert definition.description.endswith((".", "only.")), definition.name
        assert definition.result.__doc__, definition.name


PLUGIN = """
from tk_ai_extension.tools.registry import ToolContext
from tk_ai_extension.tools.registry import tool
from tk_ai_extension.tools.registry import Result


class PluginGreeting(Result):
    text: str

    def as_text(self) -> str:
        return self.text


@tool("READ")
async def say_hello(context: ToolContext) -> PluginGreeting:
    \"\"\"Says hello.\"\"\"
    return PluginGreeting(text="hello")
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A package that is installed and brings toolsets."""
    package, info = tmp_path / "their_tools", tmp_path / "theirs-1.0.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").write_text("")
    (package / "greetings.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tk_ai_extension.toolsets]\ntheirs = their_tools\nbroken = not_there\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return "theirs"


@pytest.mark.proves("ext:toolsets")
def test_a_package_brings_a_toolset_that_is_loaded_when_it_is_chosen(plugin):
    assert "their_tools" not in sys.modules
    assert [t.name for t in Registry.load([plugin])] == ["say_hello"]
    assert len(Registry.load(["default", plugin])) == len(Registry.load()) + 1
    with pytest.raises(InvalidArguments) as refused:
        Registry.load(["nothing"])
    assert "theirs" in refused.value.hint
    with pytest.raises(InternalError, match="broken"):
        Registry.load(["broken"])
