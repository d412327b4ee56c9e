"""A message takes the place of an earlier one: Claude goes on from before it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.agent.conftest import USER, Open, Talk, of_kind
from tests.harness import ToolHarness
from tests.support.scripted_model import Answer, Held, ToolUse
from tk_ai_extension.agent.export import as_markdown
from tk_ai_extension.model.errors import InvalidArguments


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
        for event in await again.chats.events(USER, chat)
        if "replaces" in event.data
    ]
    assert texts == [
        "I am Ada.",
        "Name a fruit.",
        "Its colour?",
        "Name a green fruit.",
        "And its colour?",
    ]
    found = await again.chats.get(USER, chat)
    events = await again.chats.events(USER, chat, replaced=False)
    exported = as_markdown(found, events, again.chats.agent_of)
    assert "A pear." in exported
    assert "plum" not in exported


@pytest.mark.real_cli
async def test_where_the_first_message_is_replaced_claude_forgets_all(talk: Talk) -> None:
    talk.model.add(Answer.of("Hello, Ada."), Answer.of("Hello, Grace."))
    first = await talk.say("I am Ada.")
    chat = first[0].data["chat"]
    await talk.say("I am Grace.", chat=chat, replaces=first[0].turn)
    assert "Ada" not in conversation(talk)


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


async def test_the_second_of_two_replacements_of_one_message_is_refused(
    talk: Talk,
) -> None:
    talk.model.add(Answer.of("One."), Answer.of("Two."))
    first = await talk.say("Count.")
    chat, turn = first[0].data["chat"], first[0].turn
    both = await asyncio.gather(
        *(talk.say(text, chat=chat, replaces=turn) for text in ("Count on.", "Count up.")),
        return_exceptions=True,
    )
    refused = [each for each in both if isinstance(each, BaseException)]
    assert [type(each) for each in refused] == [InvalidArguments]


async def test_a_running_turn_before_the_replaced_message_is_not_stopped(talk: Talk) -> None:
    held = Held(Answer.of("One, two, three."), after=2)
    talk.model.add(held, Answer.of("Five."))
    first = await talk.send("Count to three.")
    await held.held.wait()
    waiting = await talk.send("Count to four.", chat=first.chat)
    replacement = await talk.send("Count to five.", chat=first.chat, replaces=waiting.turn)
    held.go_on.set()
    ends = [
        [event async for event in each.events][-1].data for each in (first, waiting, replacement)
    ]
    assert [end["end"] for end in ends] == ["done", "stopped", "done"]
    assert "Count to three." in conversation(talk)
    assert "Count to four." not in conversation(talk)


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


async def test_only_a_turn_that_counts_can_be_replaced(talk: Talk) -> None:
    talk.model.add(Answer.of("One."), Answer.of("Two."))
    first = await talk.say("Count.")
    chat = first[0].data["chat"]
    await talk.say("Count on.", chat=chat, replaces=first[0].turn)
    for turn in (first[0].turn, "another"):
        with pytest.raises(InvalidArguments, match=turn):
            await talk.say("Once more.", chat=chat, replaces=turn)
    with pytest.raises(InvalidArguments, match="chat"):
        await talk.say("Once more.", replaces=first[0].turn)


@pytest.mark.real_cli
async def test_a_stopped_turn_before_the_replaced_one_is_remembered(talk: Talk) -> None:
    held = Held(Answer.of("One, two, three, four."), after=2)
    talk.model.add(held, Answer.of("A plum."), Answer.of("A pear."))
    first = await talk.send("Count.")
    await held.held.wait()
    await talk.chats.stop(USER, first.chat)
    assert [event async for event in first.events][-1].data["end"] == "stopped"
    second = await talk.say("Name a fruit.", chat=first.chat)
    await talk.say("Name a green fruit.", chat=first.chat, replaces=second[0].turn)
    assert "Count." in conversation(talk)
    assert "plum" not in conversation(talk)


async def test_nothing_is_forgotten_where_nothing_was_answered_before_the_replaced_turn(
    open_chats: Open, tmp_path: Path
) -> None:
    nobody = open_chats(cli=str(tmp_path / "gone"))
    failed = await nobody.say("Are you there?")
    assert failed[-1].data["end"] == "failed"
    await nobody.close()
    talk = open_chats()
    talk.model.add(Answer.of("A plum."), Answer.of("A pear."))
    chat = failed[0].data["chat"]
    second = await talk.say("Name a fruit.", chat=chat)
    forked = await talk.say("Name a green fruit.", chat=chat, replaces=second[0].turn)
    assert of_kind(forked, "notice") == []
    assert "plum" not in conversation(talk)
