"""What happened in a chat: in order, once, also for those who come late or read slowly."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.echo_agent import EchoBackend
from tk_ai_extension.agent import log
from tk_ai_extension.agent import transcripts as kept_chats
from tk_ai_extension.agent.events import (
    Began,
    Discarded,
    Done,
    Event,
    TextDelta,
    ThinkingDelta,
    ToolAnswered,
    ToolCalled,
)
from tk_ai_extension.agent.export import as_markdown
from tk_ai_extension.agent.log import ChatLog, joined
from tk_ai_extension.agent.transcripts import Chat, Transcripts
from tk_ai_extension.model.errors import DiskFull, InvalidArguments


@pytest.fixture
async def transcripts(tmp_path: Path) -> AsyncIterator[Transcripts]:
    kept = Transcripts(tmp_path / "state" / "chats.sqlite")
    await kept.create("ada", "chat", "Title", None)
    yield kept
    await kept.close()


def text(start: int, piece: str, block: int = 0) -> TextDelta:
    return TextDelta(block, start, piece)


async def collected(events: AsyncIterator[Event]) -> list[Event]:
    async with asyncio.timeout(10):
        return [event async for event in events]


async def test_pieces_of_a_block_are_kept_as_one(transcripts: Transcripts) -> None:
    chat = ChatLog("chat", transcripts, 0)
    chat.add("t", Began())
    for what in (text(0, "One, "), text(5, "two."), text(0, "Then.", block=1), Done("done")):
        chat.add("t", what)
    await chat.save()
    kept = await transcripts.events("chat")
    assert [event.kind for event in kept] == ["began", "text", "text", "done"]
    assert kept[1].data == {"block": 0, "start": 0, "text": "One, two."}
    assert [event.id for event in kept] == [1, 3, 4, 5]


def test_only_what_follows_in_one_block_of_one_turn_is_joined() -> None:
    events = [
        Event.of(1, "a", 0.0, text(0, "x")),
        Event.of(2, "a", 0.0, ThinkingDelta(0, 1, "y")),
        Event.of(3, "a", 0.0, text(1, "z", block=1)),
        Event.of(4, "a", 0.0, text(5, "w", block=1)),
        Event.of(5, "b", 0.0, text(6, "v", block=1)),
    ]
    assert joined(events) == events


async def test_a_follower_gets_what_was_what_is_and_what_comes(transcripts: Transcripts) -> None:
    before = ChatLog("chat", transcripts, 0)
    for number in range(3):
        before.add("first", text(number, "x"))
    await before.close()
    chat = ChatLog("chat", transcripts, await transcripts.last("chat"))
    chat.add("second", Began())
    following = asyncio.create_task(collected(chat.after(0)))
    await asyncio.sleep(0)
    chat.add("second", Done("done"))
    await chat.close()
    events = await following
    assert [(event.turn, event.kind) for event in events] == [
        ("first", "text"),
        ("second", "began"),
        ("second", "done"),
    ]
    assert events[0].data["text"] == "xxx"


async def test_a_follower_of_a_turn_gets_that_turn_alone_and_ends_with_it(
    transcripts: Transcripts,
) -> None:
    chat = ChatLog("chat", transcripts, 0)
    for turn in ("a", "b"):
        chat.add(turn, Began())
        chat.add(turn, Done("done"))
    events = await collected(chat.after(0, turn="a"))
    assert [(event.turn, event.kind) for event in events] == [("a", "began"), ("a", "done")]
    await chat.save()


async def test_a_slow_follower_misses_nothing(
    transcripts: Transcripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MAX_KEPT", 5)
    chat = ChatLog("chat", transcripts, 0)
    chat.add("t", Began())
    following = chat.after(0)
    assert (await anext(following)).kind == "began"
    for number in range(50):
        chat.add("t", text(number, "x"))
    chat.add("t", Done("done"))
    await chat.close()
    rest = await collected(following)
    assert "".join(event.data["text"] for event in rest if event.kind == "text") == "x" * 50
    assert [event.id for event in rest] == sorted({event.id for event in rest})
    assert rest[-1].kind == "done"


async def test_heavy_events_are_not_kept_at_hand_and_come_from_the_transcript(
    transcripts: Transcripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MAX_WEIGHT", 10_000)
    chat = ChatLog("chat", transcripts, 0)
    for number in range(20):
        picture = {"data": "x" * 4_000, "mime": "image/png"}
        chat.add("t", ToolAnswered(str(number), "read_cell", True, "", {}, [picture]))
    assert len(chat._kept) == 2
    chat.add("t", Done("done"))
    events = await collected(chat.after(0, turn="t"))
    assert [event.id for event in events] == list(range(1, 22))
    await chat.close()


async def test_events_that_could_not_be_saved_are_skipped(transcripts: Transcripts) -> None:
    chat = ChatLog("chat", transcripts, 0)
    chat.catch_up(10)
    following = asyncio.create_task(collected(chat.after(0)))
    await transcripts.last("chat")
    chat.add("t", Done("done"))
    await chat.close()
    assert [(event.id, event.kind) for event in await following] == [(11, "done")]


@pytest.mark.proves("chat:stored")
async def test_values_that_are_nested_too_deeply_are_refused_before_anything_changes(
    transcripts: Transcripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is taken leaves memory and is stored without an error."""
    monkeypatch.setattr(log, "MAX_KEPT", 1)
    chat = ChatLog("chat", transcripts, 0)
    taken = 0
    for depth in range(50, 1_200, 25):
        nested: list[Any] = []
        for _ in range(depth):
            nested = [nested]
        try:
            chat.add("t", ToolCalled("1", "insert_cell", {"source": nested}))
        except InvalidArguments:
            assert chat.last == taken
        else:
            taken += 1
        assert len(chat._kept) == len(chat._weights) <= 1
    assert 0 < taken < depth
    assert await chat.save()
    assert len(await transcripts.events("chat")) == taken
    await chat.close()


@pytest.mark.proves("chat:stored")
@pytest.mark.parametrize("seed", range(6))
async def test_what_could_not_be_stored_is_stored_later(
    transcripts: Transcripts, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Writes fail now and then; in the end the transcript is what a follower has seen."""
    randomness = random.Random(seed)
    monkeypatch.setattr(log, "RETRY", 0.001)
    monkeypatch.setattr(log, "MAX_RETRY", 0.004)
    add, failing = transcripts.add, False

    async def fails_at_times(*args: Any) -> None:
        nonlocal failing
        failing = randomness.random() < (0.8 if failing else 0.3)
        if failing:
            raise DiskFull("No disk space.")
        await add(*args)

    monkeypatch.setattr(transcripts, "add", fails_at_times)
    chat = ChatLog("chat", transcripts, 0)
    for turn in range(8):
        chat.add(f"{turn}", Began())
        for number in range(randomness.randrange(6)):
            chat.add(f"{turn}", text(number, "x"))
            if randomness.random() < 0.3:
                await chat.save()
        chat.add(f"{turn}", Done("done"))
    seen = list(chat._kept)
    async with asyncio.timeout(20):
        while not await chat.save():
            await transcripts.last("chat")
    kept = await transcripts.events("chat")
    assert joined(kept) == joined(seen)
    await chat.close()


async def test_what_can_never_be_stored_is_bounded_and_ends_with_the_log(
    transcripts: Transcripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any) -> None:
        raise DiskFull("No disk space.")

    monkeypatch.setattr(transcripts, "add", fails)
    monkeypatch.setattr(log, "MAX_WEIGHT", 10_000)
    chat = ChatLog("chat", transcripts, 0)
    for number in range(20):
        picture = {"data": "x" * 4_000, "mime": "image/png"}
        chat.add("t", ToolAnswered(str(number), "read_cell", True, "", {}, [picture]))
        assert not await chat.save()
    assert len(chat._unsaved) == 2
    async with asyncio.timeout(10):
        await chat.close()
    assert chat._retry is None or chat._retry.cancelled()


def test_a_document_of_a_chat_has_no_void_text_and_no_fence_ends_early() -> None:
    events = [
        Event.of(1, "t", 0.0, text(0, "One, tw")),
        Event.of(2, "t", 0.0, Discarded(0)),
        Event.of(3, "t", 0.0, text(0, "One, two.")),
    ]
    answer = {"call": "c", "tool": "read_cell", "ok": True, "text": "```\nx\n```"}
    events.append(Event(4, "t", 0.0, "tool_result", answer))
    chat = Chat("id", "ada", "A\ntitle", None, None, 0.0, 0.0)
    document = as_markdown(chat, events, lambda _: EchoBackend())
    assert document == "# A title\n\nOne, two.\n\n````\n```\nx\n```\n````\n"


@pytest.mark.proves("threat:exhaustion")
class TestBytes:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kept_chats, "PAGE_BYTES", 3_000)
        monkeypatch.setattr(kept_chats, "MAX_BYTES", 50_000)
        monkeypatch.setattr(log, "MAX_WEIGHT", 5_000)

    async def test_a_page_is_bounded_and_pages_are_all_of_it_whatever_is_added_meanwhile(
        self, transcripts: Transcripts
    ) -> None:
        chat = ChatLog("chat", transcripts, 0)
        for number in range(200):
            chat.add("t", text(0, "x" * (number * 37 % 1_000), block=number))
        await chat.save()
        seen: list[Event] = []
        sizes: list[int] = []
        while page := await transcripts.page("chat", seen[-1].id if seen else 0):
            sizes.append(sum(len(each.data["text"]) for each in page))
            seen += page
            if len(seen) > 100 > chat.last - 199:
                chat.add("t", text(0, "late", block=300))
                await chat.save()
        assert len(sizes) > 10
        assert max(sizes) <= 4_000
        assert [each.id for each in seen] == list(range(1, chat.last + 1))
        # One who follows gets the same, although most are in the transcript alone.
        await chat.close()
        assert [each.id for each in await collected(chat.after())] == [each.id for each in seen]

    async def test_the_chats_of_a_user_are_bounded_in_bytes_and_the_newest_stays(
        self, transcripts: Transcripts
    ) -> None:
        await transcripts.create("bob", "bob", "Title", None)
        for number in range(6):
            name = f"chat{number}"
            await transcripts.create("ada", name, "Title", None)
            await transcripts.used(name, None)
            await transcripts.add(name, [Event.of(1, "t", 0.0, text(0, "x" * 20_000))])
        over = [chat.id for chat in await transcripts.over("ada")]
        assert over == ["chat3", "chat2", "chat1", "chat0", "chat"]
        await transcripts.add("chat5", [Event.of(2, "t", 0.0, text(0, "x" * 90_000))])
        assert "chat5" not in [chat.id for chat in await transcripts.over("ada")]
        assert await transcripts.over("bob") == []
