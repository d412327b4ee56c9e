"""Numbers that JSON, a browser or a shared document has no form for, in a kernel's outputs."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.document_bench import DocumentBench, code, notebook, sources, stream
from tk_ai_extension.kernels.collector import OutputCollector
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.operations import Insert

pytestmark = pytest.mark.asyncio(loop_scope="module")

HUGE = 10**400
NUMBERS: list[Any] = [
    2**53 + 1,
    2**60 + 1,
    -(2**53),
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    2**64 + 1,
    HUGE,
    1e300,
    math.nan,
    math.inf,
    -math.inf,
]
numbers = st.sampled_from(NUMBERS)


def drawn(count: int, strategy: st.SearchStrategy[Any]) -> list[Any]:
    """Examples, the same in each run: hypothesis does not run asynchronous tests."""
    found: list[Any] = []

    @settings(max_examples=count, database=None, deadline=None, derandomize=True)
    @given(strategy)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found


def strict(data: bytes) -> Any:
    """Parse JSON as a browser does: without NaN and infinity."""

    def refuse(name: str) -> Any:
        raise AssertionError(name)

    return json.loads(data, parse_constant=refuse)


values = st.recursive(
    numbers,
    lambda inner: st.lists(inner, min_size=1, max_size=2) | st.builds(lambda v: {"k": v}, inner),
)
bundles = st.sampled_from(["data", "metadata"]).flatmap(
    lambda place: st.builds(
        lambda value: (
            {"data": {"text/plain": "shown"}, "metadata": {}}
            | {place: {"text/plain": "shown", "application/json": value}}
        ),
        values,
    )
)


def alike(found: Any, given: Any) -> bool:
    """Return whether a value is the given one, exactly or as JSON or JavaScript has it."""
    if isinstance(given, dict):
        return found.keys() == given.keys() and all(alike(found[key], given[key]) for key in given)
    if isinstance(given, list | tuple):
        return len(found) == len(given) and all(map(alike, found, given))
    if isinstance(given, float) and not math.isfinite(given):
        return found is None
    if given == HUGE:
        return str(found) == str(given)
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(found) == float(given)
    return bool(found == given)


@pytest.mark.proves("exec:saved")
async def test_an_output_with_any_number_is_shown_and_saved_and_so_are_the_others(
    bench: DocumentBench,
) -> None:
    runs = drawn(4, st.tuples(bundles, bundles, numbers))
    document = await bench.open(notebook(*(code("a", f"aaaa{n:04}") for n in range(len(runs)))))
    wanted: list[list[Any]] = []
    await bench.person.sources(document.path)  # A browser opens it, if that is the place.
    for number, (first, second, count) in enumerate(runs):
        collector, cell = OutputCollector(), f"aaaa{number:04}"
        async with document.writing(cell) as writer:
            await writer.start()
            collector.add("stream", {"name": "stdout", "text": "one"})
            collector.add("display_data", {**first, "transient": {"display_id": "shown"}})
            collector.add("stream", {"name": "stdout", "text": "two"})
            await writer.write(collector.drain())
            await document.outputs(cell)
            collector.add("stream", {"name": "stdout", "text": " more"})
            collector.add("update_display_data", {**second, "transient": {"display_id": "shown"}})
            await writer.write(collector.drain())
            await document.outputs(cell)
            collector.add("display_data", first)
            collector.add("stream", {"name": "stdout", "text": "end"})
            await writer.write(collector.drain())
            await writer.finish(count if isinstance(count, int) else 7)
        shown = {"output_type": "display_data"}
        displays = {**shown, **second}, {**shown, **first}
        wanted.append([stream("one"), displays[0], stream("two more"), displays[1], stream("end")])
        assert alike(await document.outputs(cell), wanted[-1])
    await document.apply([Insert(CellContent("code", "new"))])
    await bench.settle(document.path)
    stored = strict((bench.root / document.path).read_bytes())["cells"]
    assert sources(stored) == ["a"] * len(runs) + ["new"]
    kinds = [[output["output_type"] for output in cell["outputs"]] for cell in stored[:-1]]
    assert kinds == [[output["output_type"] for output in outputs] for outputs in wanted]
