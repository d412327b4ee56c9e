"""One definition of a tool, and all that is derived from it."""

import json
import sys
from typing import Annotated, Literal

import pytest
from pydantic import Field

from tk_ai_extension.model.errors import InternalError, InvalidArguments, UnknownTool
from tk_ai_extension.tools.parameters import Address
from tk_ai_extension.tools.registry import (
    TOOLSETS,
    Registry,
    Result,
    ToolContext,
    compact_schema,
    tool,
)

DEFAULT_TOOLS = """
    list_notebooks create_notebook use_notebook unuse_notebook list_managed_notebooks list_cells
    read_cell read_notebook search_cells insert_cell overwrite_cell edit_cell delete_cell
    clear_outputs move_cell write_notebook edit_cells undo notebook_history execute_cell
    insert_and_execute_cell execute_cells execute_ipython wait_execution verify_notebook
    list_kernels list_running_kernels get_kernel_status interrupt_kernel restart_kernel shutdown_kernel
    list_variables inspect_variable list_files read_file read_output
"""


class Greeting(Result):
    text: str

    def as_text(self) -> str:
        return self.text


@tool("READ")
async def greet(
    context: ToolContext,
    name: str,
    cell: Address = 0,
    tone: Literal["warm", "cool"] | None = None,
    times: Annotated[int, Field(ge=1)] = 1,
) -> Greeting:
    """Greets somebody."""
    return Greeting(text=f"Hello {name}" * times)


def test_the_default_toolset_is_complete():
    assert sorted(t.name for t in Registry.load()) == sorted(DEFAULT_TOOLS.split())


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


def test_a_tool_is_derived_from_its_function():
    assert greet.name == "greet"
    assert greet.description == "Greets somebody."
    assert greet.idempotent
    assert greet.input_schema == {
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string"},
            "cell": {
                "type": ["string", "integer"],
                "default": 0,
                "description": "id, prefix, index or `id.version`",
            },
            "tone": {"enum": ["warm", "cool"], "type": "string"},
            "times": {"type": "integer", "minimum": 1, "default": 1},
        },
        "required": ["name"],
        "type": "object",
    }


def test_compacting_keeps_a_property_that_is_called_title():
    schema = {"title": "T", "properties": {"title": {"title": "Title", "type": "string"}}}
    assert compact_schema(schema) == {"properties": {"title": {"type": "string"}}}


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({}, "`name`"),
        ({"name": 3}, "`name`"),
        ({"name": "a", "times": 0}, "`times`"),
        ({"name": "a", "tone": "loud"}, "`tone`"),
        ({"name": "a", "unknown": 1}, "`unknown`"),
    ],
)
def test_wrong_arguments_are_named(arguments, names):
    registry = Registry([greet])
    with pytest.raises(InvalidArguments) as raised:
        registry.validate(greet, arguments)
    assert names in raised.value.message
    assert "`times`" in raised.value.hint


def test_an_unknown_tool_or_toolset_is_an_error_that_names_what_exists():
    with pytest.raises(UnknownTool) as raised:
        Registry([greet]).get("gret")
    assert "greet" in raised.value.hint
    with pytest.raises(InvalidArguments) as refused:
        Registry.load(["nothing"])
    assert "default" in refused.value.hint


def test_two_tools_of_one_name_are_refused_and_one_that_is_found_twice_is_one():
    @tool("READ")
    async def greet(context: ToolContext) -> Greeting:
        """Greets nobody."""
        return Greeting(text="")

    with pytest.raises(InvalidArguments, match="Two tools have the name `greet`"):
        Registry([*Registry([globals()["greet"]]), greet])
    assert len(Registry([greet, greet])) == 1


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
