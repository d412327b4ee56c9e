"""`nb blame`: who changed each cell last, and who ran it."""

from __future__ import annotations

import asyncio

import pytest

from tests.cli.conftest import Nb
from tests.cli.test_mcp_command import connected


@pytest.mark.proves("edit:history")
async def test_blame_names_who_changed_and_who_ran_each_cell_last(shared: Nb) -> None:
    path = shared.notebook("a.ipynb", "x = 1", "y = 2", "z = 3")
    on_a = ("-n", "a.ipynb")
    await asyncio.to_thread(shared, "open", "a.ipynb")
    await asyncio.to_thread(shared, "cell", "0", *on_a)
    await asyncio.to_thread(shared, "edit", "0", "x = 10", *on_a)
    async with connected(shared) as client:
        for cell, source in ((0, "x = 100"), (1, "1 / 0")):
            await client.call_tool("read_cell", {"cell": cell, "notebook": "a.ipynb"})
            change = {"cell": cell, "source": source, "notebook": "a.ipynb"}
            assert not (await client.call_tool("overwrite_cell", change)).is_error
    # The first cell runs, the second fails, the third is skipped.
    await asyncio.to_thread(shared, "exec", "0-2", *on_a, status=1)
    cells = (await asyncio.to_thread(shared, "blame", "a.ipynb", "--json")).json["cells"]
    assert [(each["index"], each["kind"], each["tool"]) for each in cells] == [
        (0, "change", "overwrite_cell"),
        (0, "run", "execute_cells"),
        (1, "change", "overwrite_cell"),
        (1, "run", "execute_cells"),
    ]
    agent, person = cells[:2]
    assert agent["author"] != person["author"]
    assert agent["user"] == person["user"]
    assert not agent["edited_since"]
    # A person's own edit has no entry, and is not taken for the agent's.
    text = await asyncio.to_thread(path.read_text)
    await asyncio.to_thread(path.write_text, text.replace("x = 100", "x = 5"))
    shown = (await asyncio.to_thread(shared, "blame", "a.ipynb", "0")).out
    changed, ran = shown.splitlines()
    by = f"by {agent['author']} for {agent['user']}, overwrite_cell; edited by hand since"
    assert changed.endswith(by)
    assert ran.endswith(f"by {person['author']} for {person['user']}, execute_cells")
