"""A chat continues after a restart of the server, an idle hour, or the end of its process."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import psutil
import pytest

from tests.agent.conftest import USER, Open, Talk, goes_on, kinds, of_kind, processes, rest, until
from tests.harness import ToolHarness
from tests.support.scripted_model import Answer, Held, ToolUse
from tk_ai_extension.agent.chats import TurnStream
from tk_ai_extension.model.agent_errors import ChatNotFound
from tk_ai_extension.model.errors import DiskFull


def holding(folder: Path, word: str) -> list[Path]:
    """The files below a folder that a word is in."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if word.encode() in path.read_bytes()]


async def test_in_the_next_server_claude_remembers_the_conversation_or_says_that_it_is_lost(
    open_chats: Open, tmp_path: Path
) -> None:
    talk = open_chats()
    talk.model.add(Answer.of("Hello, Ada."), Answer.of("Ada."))
    first = await talk.say("I am Ada.")
    chat = first[0].data["chat"]
    await talk.close()
    again = open_chats()
    ((listed, busy),) = await again.chats.list(USER)
    assert (listed.id, listed.title, busy) == (chat, "I am Ada.", False)
    assert kinds((await again.chats.page(USER, chat))[0]) == kinds(first)
    second = await again.say("Who am I?", chat=chat)
    assert second[-1].data["text"] == "Ada."
    assert second[0].id == first[-1].id + 1
    texts = str(talk.model.requests[-1].body["messages"])
    assert "I am Ada." in texts
    assert "Hello, Ada." in texts

    await again.close()
    shutil.rmtree(tmp_path / "claude" / "projects")
    talk.model.add(Answer.of("I do not know."))
    events = await open_chats().say("Who am I?", chat=chat)
    assert "has lost earlier messages" in of_kind(events, "notice")[0]["text"]
    assert events[-1].data == {"end": "done", "text": "I do not know."}


async def test_the_process_of_an_idle_chat_is_ended_and_started_again_and_a_follower_misses_nothing(
    open_chats: Open,
) -> None:
    talk = open_chats(idle=0.05)
    talk.model.add(Answer.of("One."))
    begun = await talk.send("Count.")
    following = await talk.chats.follow(USER, begun.chat)
    await rest(begun)
    _, alive = await asyncio.to_thread(psutil.wait_procs, processes(), timeout=20)
    assert alive == []
    await goes_on(talk, begun.chat)
    assert "One." in str(talk.model.requests[-1].body["messages"])
    texts: list[str] = []
    async with asyncio.timeout(20):
        while len(texts) < 2:
            event = await anext(following)
            if event.kind == "done":
                texts.append(event.data["text"])
    assert texts == ["One.", "Here I am."]


async def test_a_follower_is_released_when_the_chat_is_deleted_or_the_server_ends(
    echoing: Talk,
) -> None:
    for end in ("delete", "close"):
        chat = (await echoing.say("Hello."))[0].data["chat"]
        following = await echoing.chats.follow(USER, chat)
        async with asyncio.timeout(20):
            while (await anext(following)).kind != "done":
                continue
            await (echoing.chats.delete(USER, chat) if end == "delete" else echoing.close())
            assert [event async for event in following] == []


async def test_a_turn_goes_on_where_the_disk_is_full(
    echoing: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise DiskFull("There is no room for the journal.")

    begun = await echoing.send("Hello.")
    with monkeypatch.context() as disk:
        for write in ("add", "checkpoint"):
            disk.setattr(echoing.services.store, write, full)
        assert (await rest(begun))[-1].data == {"end": "done", "text": "Hello."}
    assert (await echoing.say("Again.", chat=begun.chat))[-1].data["text"] == "Again."


async def test_a_deleted_chat_leaves_no_data(talk: Talk, tmp_path: Path) -> None:
    talk.model.add(Answer.of("Hello."))
    chat = (await talk.say("My word is xyzzy-1942."))[0].data["chat"]
    await talk.chats.delete(USER, chat)
    with pytest.raises(ChatNotFound):
        await talk.chats.get(USER, chat)
    await talk.close()
    assert holding(tmp_path / "claude", "xyzzy-1942") == []


@pytest.mark.proves("chat:one-end")
async def test_a_process_killed_while_it_writes_or_calls_is_reported_and_chat_and_kernel_go_on(
    talk: Talk, harness: ToolHarness
) -> None:
    talk.model.add(Held(Answer.of("One, two, three, four."), after=4))
    begun = await talk.send("Count.")
    await until(begun, "text")
    await killed(begun)
    await goes_on(talk, begun.chat)

    long = "import time\nkept = 42\nprint('begun', flush=True)\ntime.sleep(600)"
    path = harness.write("long.ipynb", long)
    talk.model.add(Answer.of(ToolUse("execute_cell", {"cell": 0, "wait": 60})))
    begun = await talk.send("Run it.", chat=begun.chat, notebook="long.ipynb", mode="auto")
    while "begun" not in (await until(begun, "tool_progress")).data["message"]:
        continue
    await killed(begun)
    saved = await harness.saved("long.ipynb", lambda nb: len(nb.cells[0].outputs) == 2)
    assert saved.cells[0].outputs[1].ename == "KeyboardInterrupt"
    assert harness.sources(path.name) == [long]
    ran = await harness.call("execute_ipython", code="kept", notebook="long.ipynb")
    assert ran.runs[0].output == "42"
    await goes_on(talk, begun.chat)


async def killed(begun: TurnStream) -> None:
    """Kill Claude's process in a turn, which ends with a report."""
    (process,) = processes()
    process.kill()
    events = await rest(begun)
    assert of_kind(events, "error")[0]["error"]["code"] == "agent_died"
    assert events[-1].data["end"] == "failed"


async def test_claude_s_process_talks_to_the_model_s_server_alone_and_listens_nowhere(
    talk: Talk,
) -> None:
    held = Held(Answer.of("One, two, three, four."), after=4)
    talk.model.add(held)
    begun = await talk.send("Count.")
    async with asyncio.timeout(20):
        await held.held.wait()
    (process,) = processes()
    connections = process.net_connections(kind="inet")
    held.go_on.set()
    assert [event.data["end"] async for event in begun.events if event.kind == "done"] == ["done"]
    assert connections
    assert {f"http://{each.raddr.ip}:{each.raddr.port}" for each in connections} == {talk.model.url}
    assert [each for each in connections if each.status == psutil.CONN_LISTEN] == []
