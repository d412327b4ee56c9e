"""The toolsets besides the default one, over MCP."""

import nbformat
import pytest
from mcp.shared.exceptions import MCPError

from tests.mcp.conftest import Connect


@pytest.mark.proves("ext:toolsets")
async def test_a_connection_has_the_tools_of_the_toolsets_that_it_chose(connect: Connect) -> None:
    async with connect("?toolsets=claude-code,omp") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == ["NotebookEdit", "notebook", "python"]
        hints = tools["NotebookEdit"].annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.destructive_hint) == (False, True)
        with pytest.raises(MCPError):
            await client.call_tool("read_cell", {"cell": 0})
    async with connect() as client:
        assert not set(tools) & {tool.name for tool in (await client.list_tools()).tools}


@pytest.mark.proves("ext:toolsets", "edit:notebookedit")
async def test_they_work_on_the_same_notebook_as_the_default_tools(
    connect: Connect, jp_root_dir
) -> None:
    path = jp_root_dir / "n.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("a = 1")]), path)
    async with connect("?toolsets=default,claude-code,omp&caller=agent") as client:
        edit = {
            "notebook_path": str(path),
            "cell_id": "cell-1",
            "new_source": "b = 2",
            "cell_type": "code",
        }
        answer = await client.call_tool("NotebookEdit", edit)
        assert answer.structured_content is not None
        assert answer.structured_content["edit_mode"] == "insert"
        changed = {"action": "insert", "path": "n.ipynb", "cell_index": 0, "content": "z = 0"}
        await client.call_tool("notebook", changed)
        listed = await client.call_tool("list_cells", {"notebook": "n.ipynb"})
        assert listed.structured_content is not None
        assert [cell["first_line"] for cell in listed.structured_content["cells"]] == [
            "z = 0",
            "a = 1",
            "b = 2",
        ]
