"""The report of a verification, from the outputs of a run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.verification.test_output_comparison import display, error, result
from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.executions import Execution
from tk_ai_extension.verification.output_comparison import ComparisonRules
from tk_ai_extension.verification.report import Verification

pytestmark = pytest.mark.proves("verify:run")

PAGE = {"text/plain": "Signature: print()"}


def verification(*stored: list[dict[str, Any]]) -> Verification:
    """The verification of a notebook with these outputs."""
    cells = tuple(
        Cell(f"cell-{at}", "code", "code", execution_count=1) for at in range(len(stored))
    )
    outputs = {f"cell-{at}": each for at, each in enumerate(stored)}
    return Verification(Snapshot("a.ipynb", cells, {}), outputs, ComparisonRules())


@pytest.mark.parametrize(
    ("stored", "status"),
    [
        ([], "same"),
        ([result("1")], "same"),
        ([result("1"), display(text_plain="Signature: print()")], "same"),
        ([result("1"), display(text_plain="Signature: input()")], "differs"),
        ([result("2")], "differs"),
    ],
)
def test_text_for_a_pager_is_compared_where_it_is_stored(
    stored: list[dict[str, Any]], status: str
) -> None:
    made = verification([result("0")], stored)
    new = ([result("1")] if stored else []) + [{"output_type": "display_data", "data": PAGE}]
    made.record(made.cells[1], Execution("ok", tuple(new), pages=(PAGE,)))
    assert made.report().cells[1].status == status


def test_a_display_with_the_id_of_an_earlier_one_replaces_it() -> None:
    done = [display(text_plain="10/10")]
    made = verification(done, done)
    begun = (display(text_plain="0/10"),)
    made.record(made.cells[0], Execution("ok", begun, displays={"bar": (0,)}))
    assert made.report().cells[0].is_bad
    made.record(made.cells[1], Execution("ok", tuple(done), displays={"bar": (0,)}))
    assert [each.status for each in made.report().cells] == ["same", "same"]


@pytest.mark.parametrize(
    ("rules", "tags"),
    [(ComparisonRules(lax=True), ()), (ComparisonRules(), ("nbval-ignore-output",))],
)
@pytest.mark.parametrize(
    ("new", "stored", "status"),
    [
        (error("division by zero", name="ZeroDivisionError"), [], "failed"),
        (error("a"), [error("a")], "ran"),
        (error("b"), [error("a")], "failed"),
        (error("a", name="KeyError"), [result("1"), error("a")], "failed"),
    ],
)
def test_a_stored_exception_allows_no_other_one_where_outputs_are_not_compared(
    new: dict[str, Any],
    stored: list[dict[str, Any]],
    status: str,
    rules: ComparisonRules,
    tags: tuple[str, ...],
) -> None:
    for more, expected in (((), status), (("raises-exception",), "ran")):
        metadata = {"tags": [*tags, *more]}
        cell = Cell("cell-0", "code", "code", metadata=metadata, execution_count=1)
        made = Verification(Snapshot("a.ipynb", (cell,), {}), {"cell-0": stored}, rules)
        made.record(cell, Execution("error", (result("0"), new)))
        assert made.report().cells[0].status == expected


def test_an_error_among_the_outputs_is_a_failure_whatever_the_reply_says() -> None:
    made = verification([result("1")])
    made.record(made.cells[0], Execution("ok", (error("a"),)))
    report = made.report()
    assert report.cells[0].message == "ValueError: a"
    assert report.status == "failed"
