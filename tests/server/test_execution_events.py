"""Following a run from any place that a client may name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from getpass import getuser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.cases import Cases
from tests.server.conftest import Ask, Call
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.outputs import Append, OutputBuffer, ReplaceOutput, StreamEdit
from tk_ai_extension.notebooks.notebook import Notebook
from tk_ai_extension.server.execution_events import PIECE, Position
from tk_ai_extension.server.handlers import rest, streaming
from tk_ai_extension.server.models import EXECUTION_EVENTS
from tk_ai_extension.workspace.runs import MAX_EVENTS, Run, Step

MODELS = {name: TypeAdapter(model) for name, model in EXECUTION_EVENTS.items()}
WRITTEN = ["zero\n", "one\n", "two\n"]


def stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def a_run(*, begun: int = 3, ended: bool = True) -> Run:
    """A run of three cells, each with a stream and a result, of which so many have begun."""
    steps = [Step(cell=f"cell{number}") for number in range(len(WRITTEN))]
    run = Run(Caller("ada", "key", "rest"), "kernel", Notebook("plan.ipynb"), steps)
    for step, text in zip(steps[:begun], WRITTEN, strict=False):
        step.status = "ok"
        run.record("started", {"cell": step.cell})
        step.outputs.apply(Append(stream(text)))
        result = {"output_type": "execute_result", "data": {"text/plain": text}}
        step.outputs.apply(Append(result))
        run.record("outputs", {"cell": step.cell, "count": 2})
        run.record("ended", {"cell": step.cell, "status": "ok"})
    if ended:
        run.record("done", {"status": "ok"})
    return run


async def messages_after(run: Run, position: Position) -> list[tuple[str, Any]]:
    """Messages from a position to the end, each checked against its model."""
    messages = [
        (kind, data)
        async for event in run.events_after(position.event)
        for kind, data in position.follow(run, event)
    ]
    for kind, data in messages:
        MODELS[kind].validate_python(data, extra="forbid")
    return messages


numbers = st.integers(0, 12).map(str) | st.text("0123456789٣", min_size=1, max_size=16)
ids = st.lists(numbers, min_size=1, max_size=5).map("-".join) | st.text(max_size=30)


@pytest.mark.proves("rest:chat")
@given(ids)
def test_any_event_id_is_followed_to_the_end_or_refused(text: str) -> None:
    run = a_run()
    try:
        position = Position.parse(text, run)
    except InvalidArguments:
        return
    messages = asyncio.run(messages_after(run, position))
    if position.event < run.version:
        assert messages[-1] == ("done", {"status": "ok"})
    assert str(Position.parse(str(position), run)) == str(position)


@pytest.mark.parametrize("text", ["0-3-0-0", "0-99-0-0", "11", "11-0-0-0", "1-2-0-0"])
def test_a_place_that_the_run_has_not_come_to_is_refused(text: str) -> None:
    run = a_run(begun=2, ended=False)
    with pytest.raises(InvalidArguments):
        Position.parse(text, run)


@pytest.mark.parametrize("text", ["0", "1", "7", "3-0-2-0", "7-1-2-0", "2-0-900-900"])
def test_a_place_that_it_has_come_to_is_taken(text: str) -> None:
    assert Position.parse(text, a_run(begun=3, ended=False)).event == int(text[0])


def outputs(messages: list[tuple[str, Any]], shown: list[str]) -> list[str]:
    """What a client shows that had ``shown`` and takes these messages in."""
    shown = list(shown)
    for _, data in (message for message in messages if message[0] == "output"):
        index, start = data["index"], data.get("start", 0)
        kept = shown[index][:start] if start else ""
        shown[index:] = [kept] if kept else []
        if "text" in data:
            shown[index:] = [kept + data["text"]]
        elif "output" in data:
            shown[index:] = [data["output"]["data"]["text/plain"]]
    return shown


@pytest.mark.proves("rest:chat", "out:stream")
async def test_output_that_was_overwritten_in_forgotten_events_is_sent_again() -> None:
    """A progress bar, and a connection that was lost for longer than its events are kept."""
    step = Step(cell="bar", status="running", outputs=OutputBuffer([stream("10 % of it all\n")]))
    run = Run(Caller("ada", "key", "rest"), "kernel", Notebook("plan.ipynb"), [step])
    run.record("outputs", {"cell": "bar", "count": 1})
    position = Position()
    shown = outputs(list(position.follow(run, await anext(run.events_after()))), [])
    assert shown == ["10 % of it all\n"]
    cut = str(position)

    for percent in range(MAX_EVENTS + 10):
        step.outputs.apply(ReplaceOutput(0, stream(f"{percent} %")))
        run.record("outputs", {"cell": "bar", "count": 1, "rewritten": (0, 0)})
    step.status = "ok"
    run.record("ended", {"cell": "bar", "status": "ok"})
    run.record("done", {"status": "ok"})

    position = Position.parse(cut, run)
    assert outputs(await messages_after(run, position), shown) == [f"{MAX_EVENTS + 9} %"]


@pytest.mark.proves("rest:call")
async def test_an_invalid_event_id_is_refused_before_the_stream_begins(
    call: Call, ask: Ask, jp_auth_header: dict[str, str], notebook: str
) -> None:
    _, ran = await call("execute_ipython", notebook=notebook, code="1")
    path = f"api/tk-ai/executions/{ran['execution_id']}"
    with Cases() as cases:
        for last in ("1-99-0-0", "999999-0-0-0", "999999", "0-0-0-0-0", "-1", "1-0", "yesterday"):
            with cases.case(last):
                response = await ask("GET", path, Last_Event_ID=last, **jp_auth_header)
                assert response.code == 400
                error = json.loads(response.body)["error"]
                assert error["code"] == "invalid_arguments"
                assert "Last-Event-ID" in error["hint"]


@pytest.mark.proves("threat:exhaustion")
async def test_a_message_is_bounded_however_late_it_is_read_and_resumes_anywhere() -> None:
    run = a_run(ended=False)
    lines = "".join(f"line {number}\n" for number in range(200_000))
    run.steps[-1].outputs.apply(Append(stream("")))
    for start in range(0, len(lines), 50_000):
        run.steps[-1].outputs.apply(StreamEdit(2, start, lines[start : start + 50_000]))
        run.record("outputs", {"cell": "cell2", "count": 3})
    run.record("done", {"status": "ok"})
    everything = await messages_after(run, Position())
    assert max(len(data.get("text", "")) for _, data in everything) == PIECE
    whole = outputs(everything, [])
    assert whole[-1] == lines

    # Cut off after each message in turn, and resumed by the id that came with it.
    seen: list[tuple[str, Any]] = []
    last = "0"
    while not seen or seen[-1][0] != "done":
        position = Position.parse(last, run)
        async for event in run.events_after(position.event):
            if (message := next(position.follow(run, event), None)) is not None:
                seen.append(message)
                last = str(position)
                break
    assert outputs(seen, []) == whole


@pytest.fixture
async def stalled(
    jp_auth_header: dict[str, str], jp_base_url: str, jp_http_port: int
) -> AsyncIterator[Any]:
    """Asks for a stream, and reads no more of it than that it begins; the headers of a request."""
    opened: list[asyncio.StreamWriter] = []

    async def open_(path: str) -> dict[str, str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", jp_http_port, limit=1_000)
        opened.append(writer)
        lines = [f"GET {jp_base_url}{path} HTTP/1.1", "Host: localhost"]
        lines += [f"{name}: {value}" for name, value in jp_auth_header.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await reader.readuntil(b"\r\n")
        return jp_auth_header

    yield open_
    for writer in opened:
        writer.close()


@pytest.mark.proves("threat:exhaustion")
async def test_streams_are_bounded_in_number_and_close_on_who_does_not_read(
    call: Call, ask: Ask, stalled: Any, extension: Any, notebook: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "STALLED", 2.0)
        patch.setattr(streaming, "MAX_STREAMS", 1)
        code = "print('x' * 30_000_000)"
        _, ran = await call("execute_ipython", notebook=notebook, code=code)
        path = f"api/tk-ai/executions/{ran['execution_id']}"
        async with asyncio.timeout(30):
            headers = await stalled(path)
            refused = await ask("GET", path, **headers)
            assert refused.code == 429
            assert json.loads(refused.body)["error"]["code"] == "limit_reached"
            # Nothing is read, so the server closes it, and the next one is let in.
            services = extension.services
            await asyncio.wait(services.streams)
            assert (await ask("GET", path, **headers)).code == 200
            assert (services.streams, dict(services.streaming_users)) == (set(), {})


@pytest.mark.proves("threat:exhaustion")
async def test_an_artifact_is_not_kept_for_who_does_not_read_it(
    stalled: Any, extension: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = asyncio.Event()
    monkeypatch.setattr(streaming, "STALLED", 0.3)
    monkeypatch.setattr(rest.ArtifactHandler, "on_finish", lambda _: ended.set())
    kept = await extension.workspace.artifacts.write(getuser(), "x" * 30_000_000)
    await stalled(f"api/tk-ai/artifacts/{kept.id}")
    async with asyncio.timeout(10):
        await ended.wait()
