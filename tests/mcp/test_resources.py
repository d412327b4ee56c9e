"""Notebooks, cells, outputs and artifacts as resources; prompts about them."""

from __future__ import annotations

import base64
from getpass import getuser
from pathlib import Path
from typing import Any

import mcp_types as types
import nbformat
import pytest
from mcp.shared.exceptions import MCPError

from tests.cases import Cases
from tests.mcp.conftest import MODERN, Connect
from tests.mcp.probes.tools import PIXEL

PLAN = "notebook://my%20plans/plan.ipynb"


@pytest.fixture
def plan(jp_root_dir: Path) -> Path:
    """A notebook in a folder with a blank in its name, with outputs of several kinds."""
    new = nbformat.v4
    outputs = [
        new.new_output("stream", name="stdout", text="printed\n"),
        new.new_output("display_data", data={"image/png": PIXEL, "text/plain": "<Figure>"}),
        new.new_output("error", ename="E", evalue="v", traceback=["\x1b[31mfirst\x1b[0m", "last"]),
        new.new_output("execute_result", data={"application/json": {"a": [1]}}, execution_count=1),
    ]
    cells = [
        new.new_code_cell("print('printed')", id="aaaa1111", outputs=outputs, execution_count=1),
        new.new_markdown_cell("# A heading", id="bbbb2222"),
    ]
    path = jp_root_dir / "my plans" / "plan.ipynb"
    path.parent.mkdir()
    nbformat.write(new.new_notebook(cells=cells), path)
    nbformat.write(new.new_notebook(), jp_root_dir / "empty.ipynb")
    (jp_root_dir / ".ipynb_checkpoints").mkdir()
    nbformat.write(new.new_notebook(), jp_root_dir / ".ipynb_checkpoints" / "plan.ipynb")
    return path


async def _read(client: Any, uri: str) -> list[Any]:
    return (await client.read_resource(uri)).contents


@pytest.mark.proves("mcp:resources")
async def test_notebooks_below_the_root_are_listed(connect: Connect, plan: Path) -> None:
    async with connect() as client:
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
    focus, *listed = listed
    assert focus.uri == "notebook://focus"
    assert {resource.uri for resource in listed} == {PLAN, "notebook://empty.ipynb"}
    assert {resource.title for resource in listed} == {"my plans/plan.ipynb", "empty.ipynb"}
    assert [template.uri_template for template in templates] == [
        "notebook://{+path}",
        "notebook://{+path}/cells/{id}",
        "notebook://{+path}/cells/{id}/outputs/{n}",
        "artifact://{id}",
    ]


@pytest.mark.proves("mcp:resources")
async def test_a_notebook_a_cell_and_an_output_are_read(connect: Connect, plan: Path) -> None:
    async with connect() as client:
        (whole,) = await _read(client, PLAN)
        assert "# A heading" in whole.text
        assert "printed" in whole.text
        (cell,) = await _read(client, f"{PLAN}/cells/aaaa1111")
        assert "print('printed')" in cell.text
        (by_index,) = await _read(client, f"{PLAN}/cells/1")
        assert "# A heading" in by_index.text
        (stream,) = await _read(client, f"{PLAN}/cells/aaaa/outputs/0")
        assert (stream.mime_type, stream.text) == ("text/plain", "printed\n")
        contents = await _read(client, f"{PLAN}/cells/aaaa/outputs/1")
        picture, text = sorted(contents, key=lambda content: content.mime_type)
        assert (picture.mime_type, base64.b64decode(picture.blob)[1:4]) == ("image/png", b"PNG")
        assert text.text == "<Figure>"
        (error,) = await _read(client, f"{PLAN}/cells/aaaa/outputs/2")
        assert error.text == "first\nlast"
        (data,) = await _read(client, f"{PLAN}/cells/aaaa/outputs/3")
        assert (data.mime_type, data.text) == ("application/json", '{"a": [1]}')


@pytest.mark.proves("mcp:resources", "out:artifact")
async def test_an_artifact_is_read_whole(connect: Connect, workspace: Any) -> None:
    artifact = await workspace.artifacts.write(getuser(), "line\n" * 5_000)
    others = await workspace.artifacts.write("somebody else", "theirs")
    async with connect() as client:
        (content,) = await _read(client, f"artifact://{artifact.id}")
        assert content.text == "line\n" * 5_000
        with pytest.raises(MCPError):
            await _read(client, f"artifact://{others.id}")


@pytest.mark.proves("mcp:resources", "rest:call", "threat:path")
async def test_a_missing_resource_is_an_error_of_the_protocol(
    connect: Connect, plan: Path, era: str
) -> None:
    expected = {types.INVALID_PARAMS} if era == MODERN else {types.INVALID_PARAMS, -32002}
    async with connect() as client:
        with Cases() as cases:
            for uri in (
                "notebook://missing.ipynb",
                "notebook://../outside.ipynb",
                "notebook://%2e%2e/outside.ipynb",
                "notebook:///etc/passwd.ipynb",
                f"{PLAN}/cells/nosuchcell",
                f"{PLAN}/cells/aaaa/outputs/99",
                "artifact://nothing",
                "file:///etc/passwd",
                "nonsense",
            ):
                with cases.case(uri):
                    with pytest.raises(MCPError) as failure:
                        await _read(client, uri)
                    assert failure.value.code in expected


@pytest.mark.proves("mcp:resources")
async def test_prompts_for_the_common_jobs_bring_the_notebook(connect: Connect, plan: Path) -> None:
    async with connect() as client:
        prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
        assert set(prompts) == {"explain", "fix", "clean_up", "document"}
        for name in prompts:
            got = await client.get_prompt(name, {"notebook": "my plans/plan.ipynb"})
            request, notebook = (message.content for message in got.messages)
            assert isinstance(request, types.TextContent)
            assert "the notebook `my plans/plan.ipynb`" in request.text
            assert isinstance(notebook, types.EmbeddedResource)
            assert notebook.resource.uri == PLAN
        got = await client.get_prompt(
            "fix", {"notebook": "my plans/plan.ipynb", "cell": "aaaa1111"}
        )
        request, cell = (message.content for message in got.messages)
        assert isinstance(request, types.TextContent)
        assert "cell `aaaa1111`" in request.text
        assert isinstance(cell, types.EmbeddedResource)
        assert cell.resource.uri == f"{PLAN}/cells/aaaa1111"


@pytest.mark.proves("mcp:resources", "rest:call")
async def test_a_prompt_about_nothing_is_an_error_of_the_protocol(
    connect: Connect, plan: Path
) -> None:
    async with connect() as client:
        with Cases() as cases:
            for name, arguments in (
                ("sing", {}),
                ("explain", {"notebook": "missing.ipynb"}),
                ("explain", {"notebook": "../x.ipynb"}),
            ):
                with cases.case(name, arguments), pytest.raises(MCPError):
                    await client.get_prompt(name, arguments)
