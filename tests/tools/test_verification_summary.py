"""The answer on a verification: bounded and counted whatever a notebook shows, made beside the loop."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness import ALICE
from tk_ai_extension.model.callers import Interface
from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.executions import Execution
from tk_ai_extension.model.sentences import MAX_DEPTH, Sentence, SentenceInfo, sentence_info
from tk_ai_extension.tools.verification_results import MAX_PROBLEMS, summarize
from tk_ai_extension.verification import comparing, report
from tk_ai_extension.verification.report import CellReport, NotebookReport, junit_xml
from tk_ai_extension.verification.rules import Rules
from tk_ai_extension.verification.verifying import Verification

pytestmark = pytest.mark.proves("verify:tool", "verify:report")

LONG = "x" * 100_000
MAX_ANSWER = 500_000


def hostile(rng: random.Random) -> list[dict[str, Any]]:
    """Outputs that are many, large, or have large names."""
    count = rng.choice((1, 3, 400, 3_000))
    mime = rng.choice(("text/plain", "text/html", "image/png", "application/json", f"text/{LONG}"))
    value: Any = rng.choice((f"{rng.random()}", f"{rng.random()}\n" * 2_000, LONG))
    if count > 3:
        value = f"{rng.random()}"
    if mime == "application/json":
        value = {LONG: {LONG: rng.random()}} if count < 400 else {"a": rng.random()}
    raised = {"output_type": "error", "ename": "E", "evalue": LONG, "traceback": ["Cell", LONG] * 4}
    shown = {"output_type": "display_data", "data": {mime: value}, "metadata": {}}
    printed = {"output_type": "stream", "name": rng.choice(("stdout", LONG)), "text": str(value)}
    return [*rng.choice(([raised], [printed], [])), *[shown] * count]


def verified(rng: random.Random, cells: int) -> NotebookReport:
    """The report on a notebook whose cells all have other outputs than stored."""
    code = tuple(Cell(at, f"cell{at}", "code", "1", execution_count=1) for at in range(cells))
    stored = {cell.key: hostile(rng) if rng.random() < 0.5 else [] for cell in code}
    made = Verification(Snapshot("a.ipynb", code, {}), stored, Rules())
    for cell in code:
        outputs = tuple(hostile(rng)) if rng.random() < 0.8 else ()
        failed = any(each["output_type"] == "error" for each in outputs)
        made.record(cell, Execution("error" if failed else "ok", outputs))
    return made.report("python3")


async def answered(finished: NotebookReport, interface: Interface = "rest") -> Any:
    async def write(_user: str, _content: str) -> Any:
        return SimpleNamespace(id="whole")

    run: Any = SimpleNamespace(done=True, cancelled=False, steps=[1], current=1)
    workspace: Any = SimpleNamespace(artifacts=SimpleNamespace(write=write))
    context: Any = SimpleNamespace(caller=replace(ALICE, interface=interface), workspace=workspace)
    return await summarize(context, run, SimpleNamespace(finished=finished))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("interface", ["rest", "mcp"])
async def test_an_answer_and_a_report_are_bounded(seed: int, interface: Interface) -> None:
    finished = verified(random.Random(seed), cells=6)
    answer = await answered(finished, interface)
    assert len(answer.model_dump_json()) < MAX_ANSWER
    assert len(answer.problems) == len([cell for cell in finished.cells if cell.is_bad])
    for cell in finished.cells:
        assert sum(len(line) for each in cell.differences for line in each.diff) < 1_100_000
        assert len("\n".join(cell.as_lines())) < MAX_ANSWER
    assert len(str(finished.as_dict())) < 6 * 1_500_000
    assert len(junit_xml([finished])) < 6 * MAX_ANSWER


@pytest.mark.parametrize("count", [1, 3, 4, 100, 101, 1_500])
async def test_outputs_that_are_not_named_are_counted(count: int) -> None:
    stored = [{"output_type": "display_data", "data": {"text/plain": "1"}}] * count
    differences = comparing.compare_outputs(stored, [], Rules())
    assert sum(each.count for each in differences) == count
    cell = CellReport("a", 0, "differs", differences=differences)
    more = count - report.NAMED
    assert cell.problem.count("is missing") == min(count, report.NAMED)
    assert (f"{more} more output" in cell.problem) == (more > 0)
    (problem,) = (await answered(NotebookReport("a.ipynb", cells=(cell,)))).problems
    assert str(count - report.NAMED if more > 0 else "missing") in str(problem.sentence)


async def test_cells_that_are_not_listed_are_counted() -> None:
    cells = tuple(CellReport(f"c{at}", at, "failed", message="E") for at in range(200))
    answer = await answered(NotebookReport("a.ipynb", cells=cells))
    assert (len(answer.problems), answer.left_out) == (MAX_PROBLEMS, 200 - MAX_PROBLEMS)
    assert answer.artifact == "whole"


def test_a_sentence_nests_to_a_fixed_depth() -> None:
    joined: str = Sentence("output_new", what="0")
    depths: list[int] = []
    for number in range(500):
        joined = Sentence("differences_two", first=joined, second=f"{number}")
        depths.append(_depth(sentence_info(joined)))
    assert joined.count(";") == 500
    assert depths[: MAX_DEPTH - 1] == list(range(2, MAX_DEPTH + 1))
    assert max(depths) == MAX_DEPTH


def _depth(info: Any) -> int:
    inner = info.parameters.values() if isinstance(info, SentenceInfo) else None
    return 0 if inner is None else 1 + max(map(_depth, inner))


async def test_each_diff_is_made_once_and_beside_the_event_loop(
    harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.write("n.ipynb", "for i in range(300): print(i)")
    await harness.call("execute_cells", notebook="n.ipynb", which="all")
    path = harness.root / "n.ipynb"
    path.write_text(
        path.read_text().replace("1", "7").replace('"cell_type": "7', '"cell_type": "1')
    )
    threads: list[threading.Thread] = []
    made, whole = comparing.unified, NotebookReport.as_lines

    def diff(*args: Any) -> Any:
        threads.append(threading.current_thread())
        return made(*args)

    def lines(self: NotebookReport, limit: int) -> Any:
        assert threading.current_thread() is not threading.main_thread()
        return whole(self, limit)

    monkeypatch.setattr(comparing, "unified", diff)
    monkeypatch.setattr(NotebookReport, "as_lines", lines)
    answer = await harness.call("verify_notebook", notebook="n.ipynb")
    again = await harness.call("wait_execution", execution_id=answer.execution_id)
    assert again.verification.text == answer.verification.text
    assert "more lines]" in answer.verification.text
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
