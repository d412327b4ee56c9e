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


@pytest.mark.proves("verify:run", "nb:starts")
def test_a_notebook_runs_in_place_with_a_line_for_each_cell(nb: Nb) -> None:
    path = report(nb)
    ended = nb("run", "report.ipynb")
    assert [line.split()[:3] for line in ended.out.splitlines()[:2]] == [
        ["@cella", "[1]", "ok"],
        ["@cellb", "[2]", "ok"],
    ]
    cells = nb.read("report.ipynb").cells
    assert [cell.execution_count for cell in cells] == [1, 2]
    assert cells[1].outputs[0].text == "1 south\n"
    assert '"unknown": [1,   2]' in path.read_text()
    assert len(nb.processes()) == 1  # The server: no kernel stays.


@pytest.mark.proves("verify:run")
def test_parameters_are_typed_and_go_into_a_copy(nb: Nb) -> None:
    path = report(nb)
    before = path.read_bytes()
    nb("open", "report.ipynb")
    nb("run", "month = 'the kernel of the notebook'")
    (nb.root / "values.yaml").write_text("month: 2\nday: 2026-01-02\n")
    words = ("--output", "out.ipynb", "-f", "values.yaml", "-p", "region=no", "-p", "list=[1, a]")
    ended = nb("run", "report.ipynb", *words)
    assert "does not set day, list." in ended.out
    assert path.read_bytes() == before
    cells = nb.read("out.ipynb").cells
    assert cells[1].source == (
        '# Parameters\nmonth = 2\nday = "2026-01-02"\nregion = "no"\nlist = [1, "a"]'
    )
    assert cells[1].metadata.tags == ["injected-parameters"]
    assert cells[2].outputs[0].text == "2 no\n"
    assert '"unknown": [1,   2]' in (nb.root / "out.ipynb").read_text()
    # Once more from the result: its cell is replaced.
    nb("run", "out.ipynb", "--output", "again.ipynb", "-p", "month=3")
    again = nb.read("again.ipynb").cells
    assert [cell.source for cell in again][1:] == ["# Parameters\nmonth = 3", cells[2].source]
    assert again[2].outputs[0].text == "3 south\n"
    assert "the kernel of the notebook" in nb("run", "month").out
    # Without the tag it stands at the top.
    nb.notebook("plain.ipynb", "print(x)")
    nb("run", "plain.ipynb", "--output", "sub.ipynb", "--parameter", "x=1e3")
    assert nb.read("sub.ipynb").cells[1].outputs[0].text == "1000.0\n"


@pytest.mark.proves("verify:run")
def test_the_cell_that_fails_is_named_and_ends_the_run(nb: Nb) -> None:
    stored(
        nb,
        "a.ipynb",
        ("raise KeyError('may fail')", [], 1),
        ("1 / 0", [], 2),
        ("print('after')", [printed("old\n")], 3),
        cell0=["raises-exception"],
    )
    nb("open", "a.ipynb")
    ended = nb("run", "a.ipynb", status=1)
    assert "@cellb [2] error" in ended.out
    assert "ZeroDivisionError: division by zero" in ended.out
    assert "[1 more cell was not run]" in ended.out
    assert nb.read("a.ipynb").cells[2].outputs[0].text == "old\n"
    fields = nb("run", "a.ipynb", "--json", status=1).json
    assert [run["status"] for run in fields["runs"]] == ["error", "error"]
    assert fields["skipped"] == 1
    assert nb("run", "a.ipynb", "--allow-errors", "--output", "b.ipynb").out.count("] error") == 2
    assert nb.read("b.ipynb").cells[2].outputs[0].text == "after\n"
    slow = stored(nb, "c.ipynb", ("import time; time.sleep(600)", [], 1))
    assert "timed_out" in nb("run", "c.ipynb", "--timeout", "0.5", status=1).out
    assert slow.exists()
    # The notebook's own kernel has run nothing.
    assert "1" in nb("run", "1").out
    assert len(nb("ps", "--json").json["kernels"]) == 1


@pytest.mark.proves("verify:run", "nb:scratch")
def test_code_stays_code_and_wrong_calls_are_refused(nb: Nb) -> None:
    nb("open", "a.ipynb")
    before = (nb.root / "a.ipynb").read_bytes()
    (nb.root / "x.py").write_text("")
    assert "other.ipynb" in nb("run", "!echo other.ipynb").out
    assert (nb.root / "a.ipynb").read_bytes() == before
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
        assert nb("run", *words, status=2).err, words
    assert not (nb.root / "b.ipynb").exists()
    assert nb("run", "a.ipynb", "--kernel", "missing", status=2).err


@pytest.mark.proves("verify:run")
async def test_ctrl_c_ends_the_run_and_its_kernel_and_keeps_what_was_printed(nb: Nb) -> None:
    os.mkfifo(nb.root / "began")
    nb.notebook("a.ipynb", "print('kept')", HANGS)
    command = await nb.start("run", "a.ipynb")
    await asyncio.to_thread((nb.root / "began").read_text)
    (kernel,) = [each for each in nb.processes() if "ipykernel_launcher" in each.cmdline()]
    command.send_signal(signal.SIGINT)
    out, _ = await command.communicate()
    assert command.returncode == 1
    assert b"interrupted" in out
    gone, _ = await asyncio.to_thread(psutil.wait_procs, [kernel], DEADLINE)
    assert gone == [kernel]
    cells = nbformat.read(nb.root / "a.ipynb", as_version=4).cells
    assert cells[0].outputs[0].text == "kept\n"
    assert cells[1].outputs[-1].ename == "KeyboardInterrupt"
