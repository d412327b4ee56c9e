"""What Output widgets capture: kept within one limit for all of them, and never lost silently."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.test_output_collector import display, stream
from tests.support.executor_bench import ExecutorBench, run
from tk_ai_extension.kernels import base_connection
from tk_ai_extension.kernels.output_widgets import OutputWidgets
from tk_ai_extension.model.json_values import Json

Start = Callable[[], Awaitable[str]]

LIMIT = 8_000
REQUESTS = ("first", "second")
COMMS = st.sampled_from(["a", "b", "c"])
SIZES = st.sampled_from([1, 500, 2_000, 9_000])


def state(comm: str, kind: str = "comm_msg", **values: Any) -> tuple[str, Json]:
    return kind, {"comm_id": comm, "data": {"method": "update", "state": values}}


def text(size: int) -> Json:
    return {"output_type": "stream", "name": "stdout", "text": "s" * size}


MESSAGES = st.one_of(
    st.builds(lambda comm: state(comm, "comm_open", msg_id="", outputs=[]), COMMS),
    st.builds(
        lambda comm, request: state(comm, msg_id=request),
        COMMS,
        st.sampled_from([*REQUESTS, "", "ended long ago"]),
    ),
    st.builds(
        lambda comm, sizes: state(comm, outputs=[text(size) for size in sizes]),
        COMMS,
        st.lists(SIZES, max_size=2),
    ),
    st.builds(lambda comm: ("comm_close", {"comm_id": comm, "data": {}}), COMMS),
    st.builds(lambda size: stream("s" * size), SIZES),
    st.builds(
        lambda size, name, kind: display("d" * size, name, kind),
        SIZES,
        st.sampled_from(["", "x"]),
        st.sampled_from(["display_data", "update_display_data"]),
    ),
    st.just(("clear_output", {"wait": False})),
    st.just(("ended", {})),
)
STEPS = st.lists(st.tuples(st.sampled_from(REQUESTS), MESSAGES), max_size=40)


def kept(widgets: OutputWidgets) -> dict[str, tuple[Json, ...]]:
    return {comm: each.outputs for comm, each in widgets._outputs.items() if each.outputs}


@pytest.mark.proves("exec:display-update", "fault:flood")
@given(STEPS)
def test_all_widgets_together_keep_within_the_limit_and_say_what_they_drop(
    steps: list[tuple[str, tuple[str, Json]]],
) -> None:
    bounded = OutputWidgets(REQUESTS.__contains__, LIMIT)
    unbounded = OutputWidgets(REQUESTS.__contains__, LIMIT * 100)
    notes: list[str] = []
    for request, (kind, content) in steps:
        if kind == "ended":
            notes.append(bounded.ended(request)[1])
            assert unbounded.ended(request)[1] == ""
        else:
            captured = bounded.captures(request, kind, content)
            is_same = captured == unbounded.captures(request, kind, content)
            # What a widget has dropped cannot be updated.
            assert is_same or any(notes) or bounded._dropped.total()
        assert sum(len(json.dumps(each)) for each in kept(bounded).values()) <= LIMIT
    ended = [bounded.ended(request) for request in REQUESTS]
    if not any([*notes, *(note for _, note in ended)]):
        assert [updates for updates, _ in ended] == [unbounded.ended(each)[0] for each in REQUESTS]
    for comm in "abc":
        bounded.captures("first", "comm_close", {"comm_id": comm, "data": {}})
    assert kept(bounded) == {}
    assert bounded._budget.used == 0
    assert not bounded._capturing


@pytest.mark.proves("exec:display-update")
def test_a_display_of_the_cell_is_updated_if_there_is_no_room_for_a_widget() -> None:
    widgets = OutputWidgets(REQUESTS.__contains__, limit=1)
    widgets.captures("first", *state("a", msg_id="first"))
    assert widgets.captures("first", *display("1", "dropped"))
    assert not widgets.captures("first", *display("2", "the cell's", "update_display_data"))


@pytest.mark.proves("exec:display-update")
def test_a_display_of_the_cell_is_updated_while_a_widget_captures() -> None:
    widgets = OutputWidgets(REQUESTS.__contains__)
    widgets.captures("first", *state("a", msg_id="first"))
    assert widgets.captures("first", *display("1", "its own"))
    assert widgets.captures("first", *display("2", "its own", "update_display_data"))
    assert not widgets.captures("first", *display("3", "the cell's", "update_display_data"))


MAKE = """\
from comm import create_comm

def capture(text):
    comm = create_comm(target_name="jupyter.widget", data={"state": {"msg_id": "", "outputs": []}})
    comm.send({"state": {"msg_id": get_ipython().kernel.get_parent()["header"]["msg_id"]}})
    print(text, flush=True)
    comm.send({"state": {"msg_id": ""}})
    return comm
"""


@pytest.fixture(scope="module")
def backend() -> str:
    return "direct"


@pytest.mark.proves("exec:display-update", "fault:flood")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_cell_whose_widgets_are_full_says_so_until_they_are_closed(
    bench: ExecutorBench, harmed: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_connection, "OutputWidgets", partial(OutputWidgets, limit=100_000))
    kernel_id = await harmed()
    outcome = await run(bench, MAKE + "made = [capture('x' * 9_999) for _ in range(20)]", kernel_id)
    assert outcome.status == "ok"
    assert "characters of output in widgets were dropped" in outcome.text("stderr")
    assert outcome.text() == ""
    again = "made.append(capture('y' * 9_999))"
    assert "were dropped" in (await run(bench, again, kernel_id)).text("stderr")
    await run(bench, "for comm in made: comm.close()", kernel_id)
    assert (await run(bench, again, kernel_id)).outputs == ()
