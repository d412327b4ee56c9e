"""What the person looks at, where no page is open."""

import pytest

from tests.harness import ToolHarness
from tk_ai_extension.model.errors import NotebookNotOpen


@pytest.mark.proves("mcp:focus")
async def test_without_an_open_notebook_an_error_says_what_to_do(harness: ToolHarness) -> None:
    harness.write("a.ipynb", "1")
    with pytest.raises(NotebookNotOpen, match="no notebook open"):
        await harness.call("use_notebook", notebook="active")
    with pytest.raises(NotebookNotOpen, match=r"a\.ipynb") as raised:
        await harness.call("show_cell", notebook="a.ipynb", cell=0)
    assert "Ask them to open it" in raised.value.hint
    assert (await harness.call("list_notebooks")).focus is None


async def test_a_name_that_the_caller_gave_comes_first(harness: ToolHarness) -> None:
    harness.write("a.ipynb", "1")
    await harness.call("use_notebook", notebook="a.ipynb", name="active")
    assert (await harness.call("read_cell", notebook="active", cell=0)).source == "1"
