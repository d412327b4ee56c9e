"""Many chats and many turns: each gets its own answer, and nothing is left behind by them."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psutil
import pytest

from tests.agent.conftest import USER, Open, Talk, of_kind
from tests.agent.test_chat_recovery import processes
from tests.harness import ToolHarness
from tests.support.scripted_model import Answer, MessagesRequest, ToolUse

MIB = 1 << 20

SLACK = 6
"""Connections of Claude's process to the script's server, and tasks, that may just be open or not."""


@pytest.mark.parametrize(
    ("chats", "processes_of_claude"),
    [(10, 0), pytest.param(4, 4, marks=pytest.mark.real_cli)],
    ids=["stand-in", "cli"],
)
async def test_chats_at_once_each_work_in_their_notebook(
    open_chats: Open, harness: ToolHarness, chats: int, processes_of_claude: int
) -> None:
    """So many turns of a change and a run at once, in half as many notebooks with their kernels."""
    talk = open_chats(max_live=chats)
    notebooks = chats // 2

    def work(request: MessagesRequest) -> Answer:
        if request.tool_results:
            return Answer.of(f"Done: {request.tool_results[0].text.splitlines()[-1]}")
        source = request.prompts[-1].splitlines()[-1]
        return Answer.of("I compute.", ToolUse("insert_and_execute_cell", {"source": source}))

    talk.model.add(*[work] * (2 * chats))
    for number in range(notebooks):
        harness.write(f"{number}.ipynb", "1")
    async with asyncio.timeout(110):
        answered = await asyncio.gather(
            *(
                talk.say(f"{number} + 1000", notebook=f"{number % notebooks}.ipynb", mode="auto")
                for number in range(chats)
            )
        )
    for number, events in enumerate(answered):
        assert events[-1].data == {"end": "done", "text": f"Done: {number + 1000}"}
        assert [event.id for event in events] == list(range(1, len(events) + 1))
        assert {change["notebook"] for change in of_kind(events, "cell_change")} == {
            f"{number % notebooks}.ipynb"
        }
    for number in range(notebooks):
        expected = {"1", f"{number} + 1000", f"{number + notebooks} + 1000"}
        assert set(harness.sources(f"{number}.ipynb")) == expected
    assert len(processes()) == processes_of_claude


@dataclass(frozen=True)
class Resources:
    """What the server holds, when nothing goes on."""

    tasks: int
    descriptors: int
    children: int
    rows: int
    resident: int

    @classmethod
    async def now(cls, talk: Talk) -> Resources:
        gc.collect()
        process = psutil.Process()
        chats = [chat for chat, _ in await talk.chats.list(USER)]
        events = [await talk.chats.events(USER, chat.id) for chat in chats]
        return cls(
            tasks=len(asyncio.all_tasks()),
            descriptors=process.num_fds(),
            children=len(process.children(recursive=True)),
            rows=sum(len(each) for each in events),
            resident=process.memory_info().rss,
        )


async def turns(talk: Talk, chat: str, many: int, numbers: count[int]) -> None:
    """So many turns in a chat, each with a call of a tool, one in ten with a change that is run."""
    for _ in range(many):
        number = next(numbers)
        call = ToolUse("list_cells")
        if number % 10 == 0:
            call = ToolUse("overwrite_cell", {"cell": 0, "source": f"{number}"})
        talk.model.add(Answer.of(ToolUse("read_cell", {"cell": 0}), call), Answer.of("Done."))
        # The script's server remembers what it was asked: that is not the chat's to hold.
        talk.model.requests.clear()
        events = await talk.say("Continue.", chat=chat, notebook="a.ipynb", mode="auto")
        assert events[-1].data == {"end": "done", "text": "Done."}


async def grown(
    talk: Talk, harness: ToolHarness, warm: int, many: int
) -> tuple[Resources, Resources]:
    """What is held before and after so many turns of one chat."""
    harness.write("a.ipynb", "1")
    talk.model.add(Answer.of("Hello."))
    chat = (await talk.say("Hello.", notebook="a.ipynb"))[0].data["chat"]
    numbers = count(1)
    await turns(talk, chat, warm, numbers)
    before = await Resources.now(talk)
    await turns(talk, chat, many, numbers)
    return before, await Resources.now(talk)


def assert_nothing_left(before: Resources, after: Resources, *, many: int) -> None:
    """Nothing that each of so many turns or chats would have left behind is there."""
    assert many > SLACK
    assert after.tasks <= before.tasks + SLACK
    assert after.descriptors <= before.descriptors + SLACK
    assert after.children <= before.children + 1


@pytest.mark.real_cli
async def test_turns_leave_no_task_no_file_and_no_process_behind(
    talk: Talk, harness: ToolHarness
) -> None:
    before, after = await grown(talk, harness, warm=2, many=12)
    assert_nothing_left(before, after, many=12)
    # A transcript grows by what was said, each piece once and joined.
    assert after.rows - before.rows <= 12 * 12


@pytest.mark.real_cli
@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_two_hundred_turns_leave_nothing_behind(
    talk: Talk, harness: ToolHarness, tmp_path: Path
) -> None:
    before, after = await grown(talk, harness, warm=20, many=200)
    assert_nothing_left(before, after, many=200)
    assert after.rows - before.rows <= 200 * 12
    # Beside it is SQLite's log, which is four MiB at most and is used again.
    assert (tmp_path / "chats" / "chats.sqlite").stat().st_size < 4 * MIB
    assert (tmp_path / "chats" / "chats.sqlite-wal").stat().st_size < 6 * MIB
    # What is at hand of a chat's events is bounded, and nothing else grows with it.
    assert after.resident - before.resident < 30 * MIB


async def chats_come_and_go(open_chats: Open) -> None:
    """Chats of which only the last two are live."""
    talk = open_chats(max_live=2)
    talk.model.add(*[Answer.of("Yes.")] * 10)
    for _ in range(2):
        await talk.say("Are you there?")
    before = await Resources.now(talk)
    for _ in range(8):
        await talk.say("Are you there?")
    assert_nothing_left(before, await Resources.now(talk), many=8)
    await talk.close()
    _, alive = await asyncio.to_thread(psutil.wait_procs, processes(), timeout=20)
    assert alive == []


async def test_chats_that_come_and_go_leave_nothing_behind(open_chats: Open) -> None:
    await chats_come_and_go(open_chats)


@pytest.mark.real_cli
@pytest.mark.soak
async def test_chats_that_come_and_go_leave_no_process_behind(open_chats: Open) -> None:
    """A process for each, too; `test_storm` looks for what is left of a few, in every run."""
    await chats_come_and_go(open_chats)
