"""A client that polls a run has seen all of its output in the end."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.outputs import (
    Append,
    ClearOutputs,
    OutputBuffer,
    OutputChange,
    ReplaceOutput,
    StreamEdit,
)
from tk_ai_extension.workspace.runs import Cursor, Run, Step

TEXTS = st.text("ab\n", max_size=4)


def stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def shown(text: str) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}


def change_of(outputs: OutputBuffer, data: st.DataObject) -> OutputChange:
    streams = [at for at in range(len(outputs)) if outputs.stream(at) is not None]
    kinds = ["stream", "display", *(["edit"] * 3 if streams else [])]
    kind = data.draw(st.sampled_from([*kinds, *(["replace", "clear"] if len(outputs) else [])]))
    text = data.draw(TEXTS)
    match kind:
        case "edit":
            at = data.draw(st.sampled_from(streams))
            length = len(str(outputs.stream(at)))
            return StreamEdit(at, data.draw(st.integers(0, length)), text)
        case "replace":
            at = data.draw(st.integers(0, len(outputs) - 1))
            return ReplaceOutput(at, data.draw(st.sampled_from([stream(text), shown(text)])))
        case "clear":
            return ClearOutputs()
        case _:
            return Append(stream(text) if kind == "stream" else shown(text))


def before(outputs: list[dict[str, Any]], cursor: Cursor) -> list[dict[str, Any]]:
    """The outputs up to a cursor."""
    if not cursor.characters:
        return outputs[: cursor.outputs]
    *whole, last = outputs[: cursor.outputs]
    assert len(whole) == cursor.outputs - 1
    return [*whole, {**last, "text": last["text"][: cursor.characters]}]


@given(st.data())
def test_output_is_skipped_exactly_where_it_was_seen(data: st.DataObject) -> None:
    step = Step()
    run = Run(Caller("alice", "a", "mcp"), "k", "n.ipynb", [step])
    seen = list[dict[str, Any]]()
    run.cursors["a"] = Cursor()
    for _ in range(data.draw(st.integers(1, 12))):
        if data.draw(st.booleans()):
            seen = list(step.outputs)
            run.cursors["a"] = Cursor.after(0, seen, 0)
        place = step.outputs.apply(change_of(step.outputs, data))
        if place is not None:
            run.rewind_cursors(step, *place)
        cursor = run.cursors["a"]
        assert before(list(step.outputs), cursor) == before(seen, cursor)
