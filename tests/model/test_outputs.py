"""Outputs of a cell that runs: what changes make of them, and what that costs."""

from __future__ import annotations

import tracemalloc

import pytest

from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.output_changes import (
    OutputBuffer,
    StreamEdit,
)


def stream(text: str) -> Json:
    return {"output_type": "stream", "name": "stdout", "text": text}


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
