"""`nb run NOTEBOOK`: a whole notebook from the top in a new kernel."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import nbformat
import psutil
import pytest

from tests.cli.conftest import DEADLINE, Nb
from tests.cli.test_verify import HANGS, printed, stored

PARAMETERS = "month = 1\nregion = 'south'"


def report(nb: Nb) -> Path:
    path = stored(
        nb,
        "report.ipynb",
        (PARAMETERS, [], 3),
        ("print(month, region)", [printed("old\n")], 4),
        cell0=["parameters"],
    )
    text = path.read_text().replace('"kernelspec": {', '"unknown": [1,   2],\n  "kernelspec": {', 1)
    path.write_text(text)
    return path


@pytest.mark.proves("verify:run")
def test_a_notebook_runs_in_place_with_a_line_for_each_cell(shared: Nb) -> None:
    path = report(shared)
    ended = shared("run", "report.ipynb")
    assert [line.split()[:3] for line in ended.out.splitlines()[:2]] == [
        ["@cella", "[1]", "ok"],
        ["@cellb", "[2]", "ok"],
    ]
    cells = shared.read("report.ipynb").cells
    assert [cell.execution_count for cell in cells] == [1, 2]
    assert cells[1].outputs[0].text == "1 south\n"
    assert '"unknown": [1,   2]' in path.read_text()
    assert len(shared.processes()) == 1  # The server: no kernel stays.


@pytest.mark.proves("verify:run")
def test_parameters_are_typed_and_go_into_a_copy(shared: Nb) -> None:
    path = report(shared)
    before = path.read_bytes()
    shared("open", "report.ipynb")
    shared("run", "month = 'the kernel of the notebook'")
    (shared.root / "values.yaml").write_text("month: 2\nday: 2026-01-02\n")
    words = ("--output", "out.ipynb", "-f", "values.yaml", "-p", "region=no", "-p", "list=[1, a]")
    ended = shared("run", "report.ipynb", *words)
    assert "does not set day, list." in ended.out
    assert path.read_bytes() == before
    cells = shared.read("out.ipynb").cells
    assert cells[1].source == (
        '# Parameters\nmonth = 2\nday = "2026-01-02"\nregion = "no"\nlist = [1, "a"]'
    )
    assert cells[1].metadata.tags == ["injected-parameters"]
    assert cells[2].outputs[0].text == "2 no\n"
    assert '"unknown": [1,   2]' in (shared.root / "out.ipynb").read_text()
    # Once more from the result: its cell is replaced.
    shared("run", "out.ipynb", "--output", "again.ipynb", "-p", "month=3")
    again = shared.read("again.ipynb").cells
    assert [cell.source for cell in again][1:] == ["# Parameters\nmonth = 3", cells[2].source]
    assert again[2].outputs[0].text == "3 south\n"
    assert "the kernel of the notebook" in shared("run", "month").out
    # Without the tag it stands at the top.
    shared.notebook("plain.ipynb", "print(x)")
    shared("run", "plain.ipynb", "--output", "sub.ipynb", "--parameter", "x=1e3")
    assert shared.read("sub.ipynb").cells[1].outputs[0].text == "1000.0\n"


@pytest.mark.proves("verify:run")
def test_the_cell_that_fails_is_named_and_ends_the_run(shared: Nb) -> None:
    stored(
        shared,
        "a.ipynb",
        ("raise KeyError('may fail')", [], 1),
        ("1 / 0", [], 2),
        ("print('after')", [printed("old\n")], 3),
        cell0=["raises-exception"],
    )
    shared("open", "a.ipynb")
    ended = shared("run", "a.ipynb", status=1)
    assert "@cellb [2] error" in ended.out
    assert "ZeroDivisionError: division by zero" in ended.out
    assert "[1 more cell was not run]" in ended.out
    assert shared.read("a.ipynb").cells[2].outputs[0].text == "old\n"
    fields = shared("run", "a.ipynb", "--json", status=1).json
    assert [run["status"] for run in fields["runs"]] == ["error", "error"]
    assert fields["skipped"] == 1
    assert (
        shared("run", "a.ipynb", "--allow-errors", "--output", "b.ipynb").out.count("] error") == 2
    )
    assert shared.read("b.ipynb").cells[2].outputs[0].text == "after\n"
    slow = stored(shared, "c.ipynb", ("import time; time.sleep(600)", [], 1))
    assert "timed_out" in shared("run", "c.ipynb", "--timeout", "0.5", status=1).out
    assert slow.exists()
    # The notebook's own kernel has run nothing.
    assert "1" in shared("run", "1").out
    assert len(shared("ps", "--json").json["kernels"]) == 1


@pytest.mark.proves("verify:run", "nb:scratch")
def test_code_stays_code_and_wrong_calls_are_refused(shared: Nb) -> None:
    shared("open", "a.ipynb")
    before = (shared.root / "a.ipynb").read_bytes()
    (shared.root / "x.py").write_text("")
    assert "other.ipynb" in shared("run", "!echo other.ipynb").out
    assert (shared.root / "a.ipynb").read_bytes() == before
    for words in (
        ("missing.ipynb",),
        ("a.ipynb", "-n", "a.ipynb"),
        ("a.ipynb", "-p", "x=1"),
        ("a.ipynb", "--output", "a.ipynb", "-p", "x=1"),
        ("a.ipynb", "-p", "x", "--output", "b.ipynb"),
        ("a.ipynb", "-p", "1x=2", "--output", "b.ipynb"),
        ("a.ipynb", "-f", "missing.yaml", "--output", "b.ipynb"),
        ("a.ipynb", "--output", "nowhere/b.ipynb"),
        ("a.ipynb", "--output", "../b.ipynb"),
        ("1", "-p", "x=1"),
        ("1", "--allow-errors"),
    ):
        assert shared("run", *words, status=2).err, words
    assert not (shared.root / "b.ipynb").exists()
    assert shared("run", "a.ipynb", "--kernel", "missing", status=2).err


@pytest.mark.proves("verify:run")
async def test_ctrl_c_ends_the_run_and_its_kernel_and_keeps_what_was_printed(shared: Nb) -> None:
    os.mkfifo(shared.root / "began")
    shared.notebook("a.ipynb", "print('kept')", HANGS)
    command = await shared.start("run", "a.ipynb")
    await asyncio.to_thread((shared.root / "began").read_text)
    (kernel,) = [each for each in shared.processes() if "ipykernel_launcher" in each.cmdline()]
    command.send_signal(signal.SIGINT)
    out, _ = await command.communicate()
    assert command.returncode == 1
    assert b"interrupted" in out
    gone, _ = await asyncio.to_thread(psutil.wait_procs, [kernel], DEADLINE)
    assert gone == [kernel]
    cells = nbformat.read(shared.root / "a.ipynb", as_version=4).cells
    assert cells[0].outputs[0].text == "kept\n"
    assert cells[1].outputs[-1].ename == "KeyboardInterrupt"
