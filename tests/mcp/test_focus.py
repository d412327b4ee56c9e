"""What the person looks at in JupyterLab, for an agent that connects from outside."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from mcp.shared.exceptions import MCPError

from tests.mcp.conftest import Connect
from tests.support.tab_page import TabPage

pytestmark = pytest.mark.proves("mcp:focus")

FOCUS = "notebook://focus"


@pytest.fixture
def pages(address: str, jp_serverapp: Any) -> Any:
    """Opens pages of a person's JupyterLab."""
    return lambda: TabPage(
        address.removesuffix("api/tk-ai/mcp"), jp_serverapp.identity_provider.token
    )


@pytest.fixture
async def page(pages: Any, jp_root_dir: Path) -> AsyncGenerator[TabPage]:
    new = nbformat.v4
    for name in ("plan", "other"):
        cells = [new.new_code_cell(f"{name}_{n} = 1\nmore", id=f"{name}{n}xx") for n in range(30)]
        cells[3]["execution_count"] = 12
        nbformat.write(new.new_notebook(cells=cells), jp_root_dir / f"{name}.ipynb")
    page = pages()
    await page.connect()
    yield page
    await page.close()


async def _text(client: Any, tool: str, **arguments: Any) -> str:
    return (await client.call_tool(tool, arguments)).content[0].text


async def _focus(client: Any) -> str:
    (contents,) = (await client.read_resource(FOCUS)).contents
    return contents.text


async def test_an_agent_knows_the_notebook_the_cell_and_the_selection(
    connect: Connect, page: TabPage, pages: Any
) -> None:
    async with connect() as client:
        await page.open("other.ipynb")
        await page.open("plan.ipynb")
        selection = {"text": "more", "first_line": 2, "last_line": 2}
        await page.look("plan.ipynb", "plan3xx", selection=selection)
        seen = await _focus(client)
        assert seen == (
            "The person looks at plan.ipynb, cell 3 @plan3 [12]: plan_3 = 1\n"
            "Selected text, line 2 of the cell:\nmore"
        )
        listed = await client.call_tool("list_notebooks", {})
        entries = listed.structured_content["notebooks"]
        assert [each["notebook"] for each in entries if each["in_jupyterlab"]] == [
            "other.ipynb",
            "plan.ipynb",
        ]
        focus = listed.structured_content["focus"]
        assert (focus["notebook"], focus["cell"], focus["lines"]) == ("plan.ipynb", "plan3", "2")
        assert (await _text(client, "list_notebooks")).endswith(seen)
        used = await _text(client, "use_notebook", notebook="active")
        assert used.startswith("Using plan.ipynb ")
        assert used.endswith(seen)
        # Any tool takes it, for connections without a session.
        assert "@plan3." in await _text(client, "read_cell", notebook="active", cell="[12]")

        # The page that was used last counts.
        another = pages()
        await another.connect()
        await another.open("other.ipynb")
        await another.look("other.ipynb", "other1xx", "other1xx", "other2xx")
        assert await _focus(client) == (
            "The person looks at other.ipynb, cell 1 @other1x: other_1 = 1\n"
            "Selected cells: @other1x,@other2x"
        )
        await page.look("plan.ipynb", "gone", *(f"plan{n}xx" for n in range(30)))
        assert await _focus(client) == "The person looks at plan.ipynb\nSelected cells: 0-29"
        await page.close()
        assert "other.ipynb, cell 1" in await _focus(client)
        await another.close()
        with pytest.raises(MCPError, match="no notebook open"):
            await _focus(client)
        assert "Error [not_open]" in await _text(client, "use_notebook", notebook="active")


async def test_a_cell_is_shown_where_the_person_has_the_notebook_open(
    connect: Connect, page: TabPage
) -> None:
    async with connect() as client:
        arguments = {"notebook": "plan.ipynb", "cell": "[12]"}
        refused = await client.call_tool("show_cell", arguments)
        assert refused.structured_content["error"]["code"] == "not_open"
        await page.open("plan.ipynb")
        shown = await client.call_tool("show_cell", arguments)
        assert shown.structured_content == {"notebook": "plan.ipynb", "cell": "plan3", "index": 3}
