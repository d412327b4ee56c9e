"""A chat and its notebooks are restored to before a message, once."""

from __future__ import annotations

import asyncio

import pytest

from tests.agent.conftest import USER, Talk, of_kind, until
from tests.harness import ToolHarness
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.workspace.undo import UndoResult

CALLERS = 8


def inserts(source: str) -> str:
    return f'call insert_cell {{"source": "{source}"}}'


@pytest.mark.proves("rest:restore")
async def test_a_chat_and_its_notebook_are_restored_once(
    echoing: Talk, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", "a = 1")
    fields = {"notebook": "a.ipynb", "mode": "auto"}
    first = await echoing.say("One.", **fields)
    fields["chat"] = chat = first[0].data["chat"]
    replaced = await echoing.say(inserts("b = 1"), **fields)
    second = await echoing.say("Two.", **fields, replaces=replaced[0].turn)
    await echoing.say(inserts("c = 1"), **fields)
    edited = await echoing.say(inserts("d = 1"), **fields)
    running = await echoing.send("wait", **fields)
    await until(running, "text")
    assert harness.sources("a.ipynb") == ["a = 1", "b = 1", "c = 1", "d = 1"]
    # A person edits a cell that the chat added.
    (change,) = of_kind(edited, "cell_change")
    cell = change["cell"]
    await harness.call("read_cell", cell=cell, notebook="a.ipynb")
    await harness.call("overwrite_cell", cell=cell, source="d = 2", notebook="a.ipynb")

    # The turn itself changed nothing, later ones did; all at once, it is done once.
    answers = await asyncio.gather(
        *(echoing.chats.restore(USER, chat, second[0].turn) for _ in range(CALLERS)),
        return_exceptions=True,
    )
    done = [each for each in answers if not isinstance(each, BaseException)]
    refused = [type(each) for each in answers if isinstance(each, BaseException)]
    assert refused == [InvalidArguments] * (CALLERS - 1)
    ((taken,),) = done
    assert isinstance(taken, UndoResult)
    assert taken.stayed == (cell,)
    assert "edited since" in taken.left[0]
    assert harness.sources("a.ipynb") == ["a = 1", "b = 1", "d = 2"]
    events = (await echoing.chats.page(USER, chat))[0]
    (restored,) = of_kind(events, "restored")
    assert restored["notebooks"][0]["stayed"] == [cell]
    ended = [event for event in events if event.turn == running.turn]
    assert of_kind(ended, "done")[0]["end"] == "stopped"

    # The agent continues from before it; nothing is lost, and the replaced part is not exported.
    recalled = await echoing.say("recall", chat=chat)
    assert recalled[-1].data["text"] == "One."
    exported = await echoing.chats.export(USER, chat)
    assert "One." in exported
    assert "Two." not in exported

    # Back to the first message: what a message replaced before is undone, too.
    (taken,) = await echoing.chats.restore(USER, chat, first[0].turn)
    assert harness.sources("a.ipynb") == ["a = 1", "d = 2"]
    assert taken.stayed == (cell,)
    assert (await echoing.say("recall", chat=chat))[-1].data["text"] == ""


@pytest.mark.proves("rest:restore")
async def test_a_turn_is_tried_again_without_its_changes(
    echoing: Talk, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", "a = 1")
    fields = {"notebook": "a.ipynb", "mode": "auto"}
    first = await echoing.say(inserts("b = 1"), **fields)
    fields["chat"] = chat = first[0].data["chat"]
    again = await echoing.say(
        inserts("b = 1"), **fields, replaces=first[0].turn, undo_replaced=True
    )
    assert again[-1].data["end"] == "done"
    assert harness.sources("a.ipynb") == ["a = 1", "b = 1"]
    kinds = [event.kind for event in (await echoing.chats.page(USER, chat))[0]]
    assert kinds.count("restored") == 1
