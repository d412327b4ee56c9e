"""A turn is a checkpoint: it is undone as a whole, and a person's later work is kept."""

from __future__ import annotations

import pytest

from tests.agent.conftest import USER, Talk
from tests.harness import ToolHarness
from tk_ai_extension.model.errors import NothingToUndo

CHANGE = """\
call read_cell {"cell": 0}
call overwrite_cell {"cell": 0, "source": "a = 2"}
call insert_cell {"source": "b = 1"}"""
"""A turn that changes the first cell and adds one."""


async def test_it_is_taken_back_as_one(echoing: Talk, harness: ToolHarness) -> None:
    harness.write("a.ipynb", "a = 1")
    events = await echoing.say(CHANGE, notebook="a.ipynb", mode="auto")
    chat, turn = events[0].data["chat"], events[0].turn
    assert harness.sources("a.ipynb") == ["a = 2", "b = 1"]
    (taken,) = await echoing.chats.undo_turn(USER, chat, turn=turn)
    assert (taken.notebook, taken.left) == ("a.ipynb", ())
    assert harness.sources("a.ipynb") == ["a = 1"]
    with pytest.raises(NothingToUndo):
        await echoing.chats.undo_turn(USER, chat, turn=turn)


async def test_some_of_its_cells_alone_and_then_the_others(
    echoing: Talk, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", "a = 1")
    events = await echoing.say(CHANGE, notebook="a.ipynb", mode="auto")
    chat, turn = events[0].data["chat"], events[0].turn
    cells = frozenset({"cella000"})
    await echoing.chats.undo_turn(USER, chat, turn=turn, cells=cells)
    assert harness.sources("a.ipynb") == ["a = 1", "b = 1"]
    await echoing.chats.undo_turn(USER, chat, turn=turn)
    assert harness.sources("a.ipynb") == ["a = 1"]


async def test_a_persons_later_work_stays(echoing: Talk, harness: ToolHarness) -> None:
    harness.write("a.ipynb", "a = 1")
    events = await echoing.say(CHANGE, notebook="a.ipynb", mode="auto")
    await harness.call("read_cell", cell=0, notebook="a.ipynb")
    await harness.call("overwrite_cell", cell=0, source="a = 3", notebook="a.ipynb")
    (taken,) = await echoing.chats.undo_turn(USER, events[0].data["chat"], turn=events[0].turn)
    assert harness.sources("a.ipynb") == ["a = 3"]
    assert "edited since" in taken.left[0]
