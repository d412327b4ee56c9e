"""Messages become outputs: merged, replaced, cleared, bounded, and never broken."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.kernels.collector import OTHER_DISPLAY_MIME, OutputCollector
from tk_ai_extension.model.executions import StatusEvent
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.outputs import Append, ClearOutputs, OutputBuffer, StreamEdit


def stream(text: Any, name: str = "stdout") -> tuple[str, Json]:
    return "stream", {"name": name, "text": text}


def display(text: str, display_id: str = "", kind: str = "display_data") -> tuple[str, Json]:
    transient = {"display_id": display_id} if display_id else {}
    return kind, {"data": {"text/plain": text}, "metadata": {}, "transient": transient}


def collect(*messages: tuple[str, Json], **options: Any) -> OutputCollector:
    collector = OutputCollector(**options)
    for kind, content in messages:
        collector.add(kind, content)
    return collector


def texts(collector: OutputCollector) -> list[str]:
    return [each.get("text") or each["data"]["text/plain"] for each in collector.outputs]


@pytest.mark.proves("out:types")
def test_one_streams_texts_are_merged_until_something_else_comes() -> None:
    collector = collect(
        stream("a"), stream("b"), stream("!", "stderr"), stream("c"), display("d"), stream("e")
    )
    assert texts(collector) == ["ab", "!", "c", "d", "e"]


@pytest.mark.proves("exec:display-update")
def test_clear_output_that_waits_clears_at_the_next_output() -> None:
    collector = collect(stream("old"), ("clear_output", {"wait": True}))
    assert texts(collector) == ["old"]
    collector.add(*stream("new"))
    assert texts(collector) == ["new"]


@pytest.mark.proves("exec:display-update")
def test_clear_output_at_once_revokes_one_that_waits() -> None:
    collector = collect(stream("old"), ("clear_output", {"wait": True}), ("clear_output", {}))
    collector.add(*display("kept"))
    collector.add(*stream("too"))
    assert texts(collector) == ["kept", "too"]


@pytest.mark.proves("exec:display-update")
def test_a_display_is_updated_wherever_it_stands() -> None:
    collector = collect(
        display("1", "x"), stream("-"), display("2", "x"), display("3", "x", "update_display_data")
    )
    assert texts(collector) == ["3", "-", "3"]
    assert all(each["output_type"] != "update_display_data" for each in collector.outputs)


@pytest.mark.proves("exec:display-update")
def test_a_display_shown_again_changes_the_first_one_too() -> None:
    assert texts(collect(display("1", "x"), display("2", "x"))) == ["2", "2"]


@pytest.mark.proves("exec:display-update")
def test_a_cleared_display_is_somebody_elses() -> None:
    collector = collect(
        display("1", "x"), ("clear_output", {}), display("2", "x", "update_display_data")
    )
    assert collector.outputs == ()
    (event,) = collector.drain_events()
    assert event.mime == OTHER_DISPLAY_MIME
    assert event.data["display_id"] == "x"


@pytest.mark.proves("out:structured")
def test_a_status_is_an_event_and_its_text_is_dropped() -> None:
    mime = "application/x-work-status"
    only = {"data": {mime: {"done": 1}, "text/plain": "fallback"}, "metadata": {}}
    mixed = {"data": {mime: {"done": 2}, "text/html": "<p>", "image/png": "AA=="}, "metadata": {}}
    collector = collect(("display_data", only), ("execute_result", mixed))
    assert [each["data"] for each in collector.outputs] == [{"image/png": "AA=="}]
    assert collector.drain_events() == (
        StatusEvent(mime, {"done": 1}),
        StatusEvent(mime, {"done": 2}),
    )
    assert collector.drain_events() == ()


@pytest.mark.proves("out:stream")
def test_changes_are_coalesced_until_they_are_drained() -> None:
    collector = collect(*[stream("x")] * 1000)
    (change,) = collector.drain()
    assert isinstance(change, Append)
    for _ in range(1000):
        collector.add(*stream("y"))
    assert collector.drain() == (StreamEdit(0, 1000, "y" * 1000),)
    assert collector.drain() == ()


def test_clearing_output_that_was_never_reported_is_not_reported() -> None:
    collector = collect(stream("a"), ("clear_output", {}), stream("b"))
    assert [type(change) for change in collector.drain()] == [Append]
    collector.add("clear_output", {})
    assert collector.drain() == (ClearOutputs(),)


messages = st.lists(
    st.one_of(
        st.builds(stream, st.text("ab\n\r\b", max_size=5), st.sampled_from(["stdout", "stderr"])),
        st.builds(
            display,
            st.text("cd", max_size=3),
            st.sampled_from(["", "x", "y"]),
            st.sampled_from(["display_data", "update_display_data", "execute_result"]),
        ),
        st.builds(lambda wait: ("clear_output", {"wait": wait}), st.booleans()),
        st.just(("error", {"ename": "E", "evalue": "v", "traceback": ["t"]})),
        st.none(),
    ),
    max_size=30,
)


@pytest.mark.proves("out:stream", "exec:display-update")
@given(messages)
def test_the_changes_in_order_give_the_outputs(
    given_messages: list[tuple[str, Json] | None],
) -> None:
    collector, buffer = OutputCollector(limit=3000), OutputBuffer()
    for message in [*given_messages, None]:
        if message is not None:
            collector.add(*message)
            continue
        for change in collector.drain():
            buffer.apply(change)
        assert list(buffer) == list(collector.outputs)


@pytest.mark.proves("fault:flood")
def test_text_over_the_bound_is_counted_and_reported() -> None:
    collector = OutputCollector(limit=1000)
    for _ in range(100):
        collector.add(*stream("x" * 99 + "\n"))
    kept = collector.outputs[0]["text"]
    collector.finish()
    assert len(kept) <= 1000
    assert (("x" * 99 + "\n") * 100).startswith(kept)
    assert collector.dropped == 10_000 - len(kept)
    notice = collector.outputs[-1]
    assert notice["name"] == "stderr"
    assert f"{collector.dropped:,} more characters" in notice["text"]


@pytest.mark.proves("fault:flood")
def test_displays_over_the_bound_are_counted_and_errors_are_kept() -> None:
    collector = OutputCollector(limit=10_000)
    for number in range(100):
        collector.add(*display(str(number)))
    collector.add("error", {"ename": "E", "evalue": "v", "traceback": ["t" * 1000]})
    kept = [each for each in collector.outputs if each["output_type"] == "display_data"]
    assert 0 < len(kept) < 100
    assert [each["data"]["text/plain"] for each in kept] == [str(n) for n in range(len(kept))]
    assert collector.dropped > 0
    assert collector.outputs[-1]["output_type"] == "error"


def bundle(value: Any, display_id: str, kind: str) -> tuple[str, Json]:
    content: Json = {"data": {"application/json": value}, "metadata": {}}
    return kind, content | {"transient": {"display_id": display_id}}


sizes = st.sampled_from([1, 40, 400, 2_500])
large_messages = st.lists(
    st.one_of(
        st.builds(lambda size, name: stream("s" * size, name), sizes, st.sampled_from("ab")),
        st.builds(
            bundle,
            sizes.flatmap(
                lambda size: st.sampled_from([size * "d", [[]] * size, [{"k": ""}] * size])
            ),
            st.sampled_from(["", "x", "y"]),
            st.sampled_from(["display_data", "update_display_data", "execute_result"]),
        ),
        st.builds(lambda size: ("display_data", {"data": {"x/x-status": "e" * size}}), sizes),
        st.builds(lambda size: display("-", "n" * size), sizes),
        st.just(("clear_output", {})),
        st.just(("error", {"ename": "E", "evalue": "v", "traceback": ["t"]})),
        st.none(),
    ),
    max_size=30,
)


@pytest.mark.proves("fault:flood")
@given(large_messages)
def test_what_is_kept_stays_within_the_limit_and_nothing_is_lost_silently(
    given_messages: list[tuple[str, Json] | None],
) -> None:
    limit = 3_000
    collector, unlimited = OutputCollector(limit), OutputCollector()
    is_clean = True
    for message in given_messages:
        if message is None:
            events = [collector.drain_events(), unlimited.drain_events()]
            assert sum(len(json.dumps(event.data)) for event in events[0]) <= limit
            is_clean = is_clean and events[0] == events[1]
            collector.drain()
        else:
            collector.add(*message)
            unlimited.add(*message)
        others = [each for each in collector.outputs if each["output_type"] != "error"]
        ids = sum(map(len, collector.displays))
        assert sum(len(json.dumps(each)) for each in others) + ids <= limit
        is_clean = is_clean and collector.outputs == unlimited.outputs
        assert is_clean or collector.dropped
    collector.drain_events()
    collector.add("clear_output", {})
    collector.add(*stream("x" * 2_000))
    assert texts(collector) == ["x" * 2_000]


@pytest.mark.proves("fault:flood")
def test_cleared_output_frees_its_share_of_the_bound() -> None:
    collector = collect(stream("x" * 700), ("clear_output", {"wait": True}), limit=1000)
    collector.add(*stream("y" * 600))
    assert texts(collector) == ["y" * 600]
    assert collector.dropped == 0


@pytest.mark.proves("out:sanitize")
@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("stream", {"name": "stdout", "text": "lone \ud83d end"}),
        ("stream", {}),
        ("stream", {"name": None, "text": None}),
        ("display_data", {"data": {"text/plain": "\udcff", "\ud800": ["\udfff", {"k\ud800": 1}]}}),
        ("display_data", {"data": None, "metadata": None, "transient": None}),
        ("display_data", {}),
        ("execute_result", {"data": {"text/plain": 3}, "execution_count": None}),
        ("update_display_data", {"data": {}}),
        ("error", {"ename": "\udcff", "evalue": None, "traceback": None}),
        ("error", {"traceback": ["\x00", 5]}),
        ("clear_output", {}),
    ],
)
def test_nothing_that_a_kernel_sends_breaks_it(kind: str, content: Json) -> None:
    collector = collect((kind, content), stream("after"))
    for change in collector.drain():
        assert change
    json.dumps(collector.outputs, ensure_ascii=False).encode()
    assert collector.outputs[-1]["text"].endswith("after")


@pytest.mark.proves("out:sanitize")
def test_a_pair_of_surrogates_is_the_sign_that_it_means() -> None:
    assert texts(collect(stream("\ud83d\ude00"))) == ["😀"]
