"""The tour, end to end, from message to notebook."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agent.conftest import Talk, of_kind, talk_with
from tests.harness import ToolHarness
from tk_ai_extension.agent.chat_events import ChatEvent
from tk_ai_extension.agent.claude.backend import ClaudeBackend
from tk_ai_extension.agent.claude.providers import ProviderSettings
from tk_ai_extension.agent.claude.user_connection import ProviderSelector
from tk_ai_extension.agent.tour_agent import read_script

SCRIPT = read_script()
TITLE_CELL = SCRIPT["steps"][1]["arguments"]["source"]
FIXED_CELL = SCRIPT["steps"][-1]["fix"][0]["arguments"]["source"]


@pytest.fixture
async def tour(harness: ToolHarness, tmp_path: Path) -> AsyncIterator[Talk]:
    """A person in a server with no model connected."""
    models = ProviderSelector(ProviderSettings(), tmp_path, environment={})
    claude = ClaudeBackend(tmp_path / "claude", models.provider, "/nowhere/claude")
    talk = talk_with(harness, claude, tmp_path)
    yield talk
    await talk.close()


def text_of(events: list[ChatEvent]) -> str:
    return "".join(event["text"] for event in of_kind(events, "text"))


async def test_the_whole_tour_works_in_the_active_notebook(
    tour: Talk, harness: ToolHarness
) -> None:
    harness.write("mine.ipynb", "prices = [3, 4, 5]")
    events = await tour.say("What is this?", notebook="mine.ipynb", mode="auto")

    assert SCRIPT["intro"] in text_of(events)
    assert [(answer["tool"], answer["ok"]) for answer in of_kind(events, "tool_result")] == [
        ("read_notebook", True),
        ("insert_cell", True),
        ("insert_and_execute_cell", True),
        ("insert_and_execute_cell", True),
        ("insert_and_execute_cell", False),
        ("overwrite_cell", True),
        ("execute_cell", True),
    ]
    assert events[-1].data == {"end": "done", "text": SCRIPT["end"]}
    mine, title, data, plot, fixed = harness.on_disk("mine.ipynb").cells
    assert mine.source == "prices = [3, 4, 5]"
    assert title.source == TITLE_CELL
    assert data.outputs[0].text.startswith(" 0 min  84.0 °C\n")
    assert "image/png" in plot.outputs[0].data
    assert fixed.source == FIXED_CELL
    assert "°C in 30 minutes" in fixed.outputs[0].text


async def test_a_refusal_holds_and_ends_the_tour(tour: Talk, harness: ToolHarness) -> None:
    path = harness.write("mine.ipynb", "prices = [3, 4, 5]")
    before = path.read_bytes()
    events = await tour.approved("start", "deny", notebook="mine.ipynb", mode="ask")
    [asked] = of_kind(events, "permission")
    assert TITLE_CELL.splitlines()[0] in asked["preview"]
    assert events[-1].data["text"] == SCRIPT["refused"]
    assert path.read_bytes() == before


async def test_a_person_without_a_notebook_gets_one_and_is_asked_before_each_change(
    tour: Talk, harness: ToolHarness
) -> None:
    events = await tour.approved("start", mode="ask")
    assert [asked["tool"] for asked in of_kind(events, "permission")] == [
        "use_notebook",
        "insert_cell",
        *("insert_and_execute_cell",) * 3,
        "overwrite_cell",
        "execute_cell",
    ]
    assert events[-1].data["text"] == SCRIPT["end"]
    assert [cell.source for cell in harness.on_disk("tour.ipynb").cells][-1] == FIXED_CELL
