"""A message replaces an earlier one: Claude continues from before it."""

from __future__ import annotations

from pathlib import Path

from tests.agent.conftest import USER, Open, Talk
from tests.harness import ToolHarness
from tests.support.scripted_model import Answer, Held, ToolUse


def conversation(talk: Talk) -> str:
    """The conversation as the model got it with the last request."""
    return str(talk.model.requests[-1].body["messages"])


async def test_claude_goes_on_from_before_the_replaced_message_and_knows_no_more(
    open_chats: Open, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", "a = 1")
    talk = open_chats()
    talk.model.add(
        Answer.of("Hello, Ada."),
        *(Answer.of(ToolUse("read_notebook")), Answer.of("A plum.")),
        *(Answer.of("Purple."), Answer.of("A pear."), Answer.of("Green.")),
    )
    first = await talk.say("I am Ada.")
    chat = first[0].data["chat"]
    second = await talk.say("Name a fruit.", chat=chat, notebook="a.ipynb")
    await talk.say("Its colour?", chat=chat)

    replacement = await talk.say("Name a green fruit.", chat=chat, replaces=second[0].turn)
    assert (replacement[0].data["replaces"], replacement[-1].data["text"]) == (
        second[0].turn,
        "A pear.",
    )
    assert "Hello, Ada." in conversation(talk)
    assert "Name a green fruit." in conversation(talk)
    assert "Name a fruit." not in conversation(talk)
    assert "plum" not in conversation(talk)
    assert "Its colour?" not in conversation(talk)

    # All of it stands in the chat, and the next process knows the new branch alone.
    await talk.close()
    again = open_chats()
    await again.say("And its colour?", chat=chat)
    assert "A pear." in conversation(again)
    assert "plum" not in conversation(again)
    texts = [
        event.data["text"]
        for event in (await again.chats.page(USER, chat))[0]
        if "replaces" in event.data
    ]
    assert texts == [
        "I am Ada.",
        "Name a fruit.",
        "Its colour?",
        "Name a green fruit.",
        "And its colour?",
    ]
    exported = await again.chats.export(USER, chat)
    assert "A pear." in exported
    assert "plum" not in exported

    again.model.add(Answer.of("Hello, Grace."))
    await again.say("I am Grace.", chat=chat, replaces=first[0].turn)
    assert "Ada" not in conversation(again)


async def test_a_replaced_running_turn_is_stopped_and_its_changes_stay(
    talk: Talk, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", "a = 1")
    held = Held(Answer.of("One, two, three, four, five, six, seven."), after=3)
    talk.model.add(Answer.of(ToolUse("insert_cell", {"source": "b = 1"})), held, Answer.of("Four."))
    begun = await talk.send("Add and count.", notebook="a.ipynb", mode="auto")
    await held.held.wait()
    replacement = await talk.say("Count to four.", chat=begun.chat, replaces=begun.turn)
    assert replacement[-1].data == {"end": "done", "text": "Four."}
    ended = [event async for event in begun.events][-1]
    assert ended.data["end"] == "stopped"
    assert "Add and count." not in conversation(talk)
    assert harness.sources("a.ipynb") == ["a = 1", "b = 1"]
    await talk.chats.undo_turn(USER, begun.chat, turn=begun.turn)
    assert harness.sources("a.ipynb") == ["a = 1"]


async def test_replaced_turns_are_forgotten_after_a_restart_when_the_cli_was_missing(
    open_chats: Open, tmp_path: Path
) -> None:
    talk = open_chats()
    talk.model.add(Answer.of("Hello, Ada."), Answer.of("A plum."), Answer.of("Hello."))
    first = await talk.say("Hello?")
    chat = first[0].data["chat"]
    second = await talk.say("Name a fruit.", chat=chat)
    await talk.close()

    nobody = open_chats(cli=str(tmp_path / "gone"))
    replacement = await nobody.say("Name a tree.", chat=chat, replaces=second[0].turn)
    assert replacement[-1].data["end"] == "failed"
    await nobody.close()

    again = open_chats()
    await again.say("Are you there?", chat=chat)
    assert "Hello, Ada." in conversation(again)
    assert "plum" not in conversation(again)
