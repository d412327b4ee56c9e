"""Failures of the provider's API: what is shown, what is retried, and what is never done twice."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.agent.conftest import Open, Talk, goes_on, kinds, of_kind
from tests.cases import Cases
from tests.harness import ToolHarness
from tests.support.scripted_model import (
    BROKEN,
    KEY,
    OVERLOADED,
    UNAUTHORIZED,
    Answer,
    Cut,
    Failure,
    Hang,
    ToolUse,
    rate_limited,
)

LEAK = Failure(400, "invalid_request_error", f"The key {KEY} is not known here.")
TOO_LONG = Failure(400, "invalid_request_error", "prompt is too long")


@pytest.mark.proves("chat:one-end")
async def test_temporary_failures_of_the_model_are_shown_and_retried(talk: Talk) -> None:
    chat: dict[str, str] = {}
    with Cases() as cases:
        for bad in (BROKEN, OVERLOADED, rate_limited(0)):
            with cases.case(bad):
                talk.model.add(bad, Answer.of("There."))
                events = await talk.say("Are you there?", **chat)
                chat = {"chat": events[0].data["chat"]}
                assert of_kind(events, "retry")[0]["attempt"] == 1
                assert events[-1].data == {"end": "done", "text": "There."}
        with cases.case("the text of a lost stream is discarded and requested again"):
            now = asyncio.Event()
            lost = Cut(Answer.of("One, two, three, four, five."), after=4, now=now)
            talk.model.add(lost, Answer.of("One, two."))
            begun = await talk.send("Count.", **chat)
            events = []
            async with asyncio.timeout(20):
                async for event in begun.events:
                    events.append(event)
                    if event.kind == "text":
                        now.set()
            seen = ["text", "retry", "discarded", "text", "usage", "done"]
            assert kinds(events)[2:] == seen
            assert of_kind(events, "discarded") == [{"block": 0}]
            assert events[-1].data == {"end": "done", "text": "One, two."}


@pytest.mark.proves("chat:one-end")
async def test_a_model_that_says_nothing_is_given_up_in_time(open_chats: Open) -> None:
    # The CLI has to have asked the model by then: its start counts, too.
    talk = open_chats(silence=4.0)
    hang = Hang()
    talk.model.add(hang)
    async with asyncio.timeout(60):
        events = await talk.say("Are you there?")
        await hang.gone.wait()
    assert of_kind(events, "error")[0]["error"]["code"] == "model_failed"
    await goes_on(talk, events[0].data["chat"])


@pytest.mark.proves("chat:one-end", "threat:secrets")
@pytest.mark.parametrize(
    "failures",
    [
        (
            (UNAUTHORIZED, "model_unauthorized", "key"),
            (rate_limited(0), "model_failed", "429"),
            (LEAK, "model_failed", "[secret]"),
        ),
        # In a chat that has a history, the CLI asks for a summary of it.
        ((TOO_LONG, "model_failed", "too long"),),
    ],
    ids=["of the API", "too long"],
)
async def test_a_model_that_keeps_failing_is_retried_a_bounded_number_of_times(
    talk: Talk, failures: tuple[tuple[Failure, str, str], ...]
) -> None:
    chat: dict[str, str] = {}
    with Cases() as cases:
        for bad, code, says in failures:
            with cases.case(bad):
                talk.model.clear()
                talk.model.requests.clear()
                talk.model.add(*[bad] * 10)
                async with asyncio.timeout(60):
                    events = await talk.say("Are you there?", **chat)
                chat = {"chat": events[0].data["chat"]}
                (error,) = of_kind(events, "error")
                assert error["error"]["code"] == code
                assert error["error"]["hint"]
                assert says in f"{error['error']['message']} {error['error']['hint']}".lower()
                assert KEY not in json.dumps([event.data for event in events])
                assert events[-1].data["end"] == "failed"
                # The script's environment has the CLI try again twice, but not with a refused key.
                assert len(talk.model.requests) <= (1 if bad is UNAUTHORIZED else 3)
                assert bad is not UNAUTHORIZED or of_kind(events, "retry") == []


@pytest.mark.proves("chat:one-end")
async def test_a_tool_call_is_not_repeated_after_a_failed_request(
    talk: Talk, harness: ToolHarness
) -> None:
    chat: dict[str, str] = {}
    call = ToolUse("insert_and_execute_cell", {"source": "6 * 7"})
    with Cases() as cases:
        for bad in (BROKEN, Cut(Answer.of("Then.", ToolUse("list_cells")), after=6)):
            with cases.case(bad):
                harness.write("a.ipynb", "1")
                talk.model.add(Answer.of(call), bad, Answer.of("Done."))
                events = await talk.say("Compute.", notebook="a.ipynb", mode="auto", **chat)
                chat = {"chat": events[0].data["chat"]}
                assert events[-1].data == {"end": "done", "text": "Done."}
                results = of_kind(events, "tool_result")
                assert [each["tool"] for each in results] == ["insert_and_execute_cell"]
                assert harness.sources("a.ipynb") == ["1", "6 * 7"]
