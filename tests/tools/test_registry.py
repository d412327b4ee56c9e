"""The definition of a tool, and what is derived from it."""

import json
import sys
import tomllib
from pathlib import Path

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


EXAMPLE = Path(__file__).parents[2] / "examples" / "word-count"


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """The example of a toolset, installed next to a broken one."""
    info = tmp_path / "word_count-0.1.dist-info"
    info.mkdir()
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: word-count\nVersion: 0.1\n")
    entries = {**project["entry-points"]["tk_ai_extension.toolsets"], "broken": "not_there"}
    lines = [f"{name} = {module}" for name, module in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[tk_ai_extension.toolsets]", *lines]))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLE)
    yield "words"
    sys.modules.pop("word_count", None)


@pytest.mark.proves("ext:toolsets")
async def test_a_package_brings_a_toolset_that_is_loaded_when_it_is_chosen(plugin, harness):
    assert "word_count" not in sys.modules
    harness.registry = Registry.load(["default", plugin])
    assert len(harness.registry) == len(Registry.load()) + 2
    harness.write("a.ipynb", ("markdown", "one two three"), "x = 1")
    counted = await harness.call("count_words", notebook="a.ipynb")
    assert counted.as_text() == "a.ipynb: 3 words"
    await harness.call("add_word_count", notebook="a.ipynb")
    assert harness.sources("a.ipynb")[-1] == "3 words"


@pytest.mark.proves("ext:toolsets")
def test_an_unknown_or_broken_toolset_is_an_error(plugin):
    with pytest.raises(InvalidArguments) as refused:
        Registry.load(["nothing"])
    assert plugin in refused.value.hint
    with pytest.raises(InternalError, match="broken"):
        Registry.load(["broken"])
