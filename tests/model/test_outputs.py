"""Outputs of a cell that runs: what changes make of them, and what that costs."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.model.executions import StatusEvent
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.outputs import (
    Append,
    ClearOutputs,
    OutputBuffer,
    OutputChange,
    ReplaceOutput,
    StreamEdit,
)
from tk_ai_extension.workspace.runs import MAX_STATUSES, StatusLog

texts = st.text("ab\n", max_size=5)
kinds = st.one_of(
    st.tuples(st.just("stream"), texts),
    st.tuples(st.just("display"), texts),
    st.tuples(st.just("edit"), texts),
    st.tuples(st.just("clear"), texts),
)


def stream(text: str) -> Json:
    return {"output_type": "stream", "name": "stdout", "text": text}


def applied(outputs: list[Json], change: OutputChange) -> None:
    """What a change means, said in the simplest way."""
    match change:
        case Append(output):
            outputs.append(output)
        case StreamEdit(index, start, new):
            outputs[index] = {**outputs[index], "text": outputs[index]["text"][:start] + new}
        case ReplaceOutput(index, output):
            outputs[index] = output
        case ClearOutputs():
            outputs.clear()


@pytest.mark.proves("out:stream")
@given(st.data(), st.lists(kinds, max_size=30))
def test_changes_give_what_they_mean(
    data: st.DataObject, given_kinds: list[tuple[str, str]]
) -> None:
    buffer, plain = OutputBuffer(), list[Json]()
    for kind, text in given_kinds:
        streams = [at for at, output in enumerate(plain) if output["output_type"] == "stream"]
        change: OutputChange = Append(stream(text))
        if kind == "display":
            shown: Json = {"output_type": "display_data", "data": {"text/plain": text}}
            replaces = plain and data.draw(st.booleans())
            at = data.draw(st.integers(0, len(plain) - 1)) if replaces else 0
            change = ReplaceOutput(at, shown) if replaces else Append(shown)
        elif kind == "edit" and streams:
            at = data.draw(st.sampled_from(streams))
            change = StreamEdit(at, data.draw(st.integers(0, len(plain[at]["text"]))), text)
        elif kind == "clear" and data.draw(st.booleans()):
            change = ClearOutputs()
        buffer.apply(change)
        applied(plain, change)
        if data.draw(st.booleans()):
            assert list(buffer) == plain
        for at, output in enumerate(plain):
            found = buffer.stream(at)
            assert (found is not None) == (output["output_type"] == "stream")
            if found is not None:
                start = data.draw(st.integers(0, len(output["text"])))
                assert (len(found), found.since(start)) == (
                    len(output["text"]),
                    output["text"][start:],
                )
    assert list(buffer) == plain


@pytest.mark.proves("threat:exhaustion")
@pytest.mark.parametrize("length", [1_000_000, 16_000_000])
def test_appending_costs_the_same_after_much_output(length: int) -> None:
    buffer = OutputBuffer([stream("x" * length)])
    tracemalloc.start()
    try:
        for at in range(50):
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            buffer.apply(StreamEdit(0, length + at * 100, "y" * 100))
            found = buffer.stream(0)
            assert found is not None
            assert found.since(length + at * 100) == "y" * 100
            # Copying the text, once or in part, would show.
            assert tracemalloc.get_traced_memory()[1] - before < 10_000
    finally:
        tracemalloc.stop()


@pytest.mark.proves("threat:exhaustion")
def test_status_events_are_bounded_and_the_newest_stay() -> None:
    log = StatusLog()
    for number in range(3 * MAX_STATUSES):
        log.append(StatusEvent("application/x-test-status", number))
    assert [event.data for event in log.events()] == [*range(2 * MAX_STATUSES, 3 * MAX_STATUSES)]
    for _ in range(10):
        log.append(StatusEvent("application/x-test-status", "x" * 1_000_000))
    assert len(log.events()) == 4
