"""A chat and its notebooks are restored to before a message, once, and a running turn is steered."""

from __future__ import annotations

import asyncio

import pytest

from tests.agent.conftest import USER, Talk, of_kind
from tests.agent.test_backend_contract import echo, talk, until
from tests.harness import ToolHarness
from tests.support.echo_agent import EchoSession
from tk_ai_extension.agent.export import as_markdown
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.workspace.undo import TakenBack

__all__ = ["echo", "talk"]

CALLERS = 8


def inserts(source: str) -> str:
    return f'call insert_cell {{"source": "{source}"}}'


@pytest.mark.proves("rest:restore")
async def test_a_chat_and_its_notebook_are_restored_once(talk: Talk, harness: ToolHarness) -> None:
    harness.write("a.ipynb", "a = 1")
    fields = {"notebook": "a.ipynb", "mode": "auto"}
    first = await talk.say("One.", **fields)
    fields["chat"] = chat = first[0].data["chat"]
    replaced = await talk.say(inserts("b = 1"), **fields)
    second = await talk.say("Two.", **fields, replaces=replaced[0].turn)
    await talk.say(inserts("c = 1"), **fields)
    edited = await talk.say(inserts("d = 1"), **fields)
    running = await talk.send("wait", **fields)
    await until(running, "text")
    assert harness.sources("a.ipynb") == ["a = 1", "b = 1", "c = 1", "d = 1"]
    # Somebody edits a cell that the chat added.
    (change,) = of_kind(edited, "cell_change")
    cell = change["cell"]
    await harness.call("read_cell", cell=cell, notebook="a.ipynb")
    await harness.call("overwrite_cell", cell=cell, source="d = 2", notebook="a.ipynb")

    # The turn itself changed nothing, later ones did; all at once, it is done once.
    answers = await asyncio.gather(
        *(talk.chats.restore(USER, chat, second[0].turn) for _ in range(CALLERS)),
        return_exceptions=True,
    )
    done = [each for each in answers if not isinstance(each, BaseException)]
    refused = [type(each) for each in answers if isinstance(each, BaseException)]
    assert refused == [InvalidArguments] * (CALLERS - 1)
    ((taken,),) = done
    assert isinstance(taken, TakenBack)
    assert taken.stayed == (cell,)
    assert "edited since" in taken.left[0]
    assert harness.sources("a.ipynb") == ["a = 1", "b = 1", "d = 2"]
    events = await talk.chats.events(USER, chat)
    (restored,) = of_kind(events, "restored")
    assert restored["notebooks"][0]["stayed"] == [cell]
    ended = [event for event in events if event.turn == running.turn]
    assert of_kind(ended, "done")[0]["end"] == "stopped"

    # The agent goes on from before it; nothing is lost, and nothing of it is exported.
    recalled = await talk.say("recall", chat=chat)
    assert recalled[-1].data["text"] == "One."
    found, events = await talk.chats.get(USER, chat), await talk.chats.events(USER, chat)
    exported = as_markdown(found, events, talk.chats.agent_of)
    assert "One." in exported
    assert "Two." not in exported

    # Back to the first message: what a message replaced before is undone, too.
    (taken,) = await talk.chats.restore(USER, chat, first[0].turn)
    assert harness.sources("a.ipynb") == ["a = 1", "d = 2"]
    assert taken.stayed == (cell,)
    assert (await talk.say("recall", chat=chat))[-1].data["text"] == ""


@pytest.mark.proves("rest:restore", "rest:chat")
async def test_a_turn_is_tried_again_without_its_changes_and_a_running_one_is_steered(
    talk: Talk, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", "a = 1")
    fields = {"notebook": "a.ipynb", "mode": "auto"}
    first = await talk.say(inserts("b = 1"), **fields)
    fields["chat"] = chat = first[0].data["chat"]
    again = await talk.say(inserts("b = 1"), **fields, replaces=first[0].turn, undo_replaced=True)
    assert again[-1].data["end"] == "done"
    assert harness.sources("a.ipynb") == ["a = 1", "b = 1"]
    kinds = [event.kind for event in await talk.chats.events(USER, chat)]
    assert kinds.count("restored") == 1

    running = await talk.send("wait", **fields)
    await until(running, "text")
    other = await talk.send("About no notebook.", chat=chat)
    queued = await talk.send("Faster.", **fields)
    last = await talk.send("Last.", **fields)
    assert not await talk.chats.steer(USER, chat, other.turn)
    assert not await talk.chats.steer(USER, chat, running.turn)
    given = await asyncio.gather(
        *(talk.chats.steer(USER, chat, queued.turn) for _ in range(CALLERS))
    )
    assert given.count(True) == 1
    ended = [event async for event in running.events]
    assert ended[-1].data == {"end": "done", "text": "Waiting.Faster."}
    taken = [event async for event in queued.events]
    assert [event.kind for event in taken] == ["message", "steered", "done"]
    assert taken[1].data == {"into": running.turn}
    for each, said in ((other, "About no notebook."), (last, "Last.")):
        assert [event async for event in each.events][-1].data == {"end": "done", "text": said}
    # The echo takes one message: what it does not take stays in its place.
    recalled = await talk.say("recall", chat=chat)
    assert recalled[-1].data["text"].splitlines()[-4:] == [
        "wait",
        "Faster.",
        "About no notebook.",
        "Last.",
    ]


@pytest.mark.proves("rest:chat")
async def test_what_cannot_be_read_of_a_message_is_reported_once_however_often_it_is_given(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await talk.send("wait")
    await until(running, "text")
    attached = [{"kind": "file", "path": "gone.txt"}]
    queued = await talk.send("Faster.", chat=running.chat, attachments=attached)

    async def refuse(*_: object) -> bool:
        return False

    with monkeypatch.context() as patch:
        patch.setattr(EchoSession, "steer", refuse)
        for _ in range(3):
            assert not await talk.chats.steer(USER, running.chat, queued.turn)
    assert await talk.chats.steer(USER, running.chat, queued.turn)
    notices = of_kind([event async for event in queued.events], "notice")
    assert len(notices) == 1
