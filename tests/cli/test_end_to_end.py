"""The command line from end to end: a notebook is opened, edited, run and closed, each step a process."""

from __future__ import annotations

import os
import time

import psutil
import pytest

from tests.cli.conftest import DEADLINE, Nb
from tests.support import faults


@pytest.mark.proves("nb:commands", "nb:headless", "nb:persist", "nb:standard-file", "nb:scratch")
def test_a_notebook_from_nothing_to_results_in_separate_processes(nb: Nb) -> None:
    (nb.root / "work").mkdir()
    nb("open", "work/analysis.ipynb")
    assert nb.read("work/analysis.ipynb").cells == []
    nb("insert", "0", "x = 20")
    nb("insert", "1", "-", stdin="y = 22\nprint(x + y)\n")
    assert "2 cells" in nb("cells").out
    nb("exec", "0")
    assert "42" in nb("exec", "1").out
    before = (nb.root / "work/analysis.ipynb").read_bytes()
    assert "420" in nb("run", "(x + y) * 10").out
    assert (nb.root / "work/analysis.ipynb").read_bytes() == before
    nb("edit", "1", "print(x - y)")
    assert "-2" in nb("exec", "-1").out
    nb("rm", "0")
    nb("save")
    (cell,) = nb.read("work/analysis.ipynb").cells
    assert (cell.source, cell.outputs[0].text) == ("print(x - y)", "-2\n")
    status = nb("status", "--json").json
    assert status["notebook"] == "work/analysis.ipynb"
    assert [kernel["state"] for kernel in status["kernels"]] == ["idle"]
    nb("shutdown")
    assert nb.processes() == []
    assert not (nb.root / ".nb").exists()


def kill_host(nb: Nb) -> None:
    """Kill the server, and wait for the end of its kernels."""
    psutil.Process(nb.host).kill()
    until = time.monotonic() + DEADLINE
    while nb.processes():
        assert time.monotonic() < until, nb.processes()
        os.sched_yield()


@pytest.mark.proves("nb:persist", "nb:cleanup")
def test_a_kernel_ends_with_a_server_that_is_killed_and_the_next_one_starts_another(nb: Nb) -> None:
    nb.notebook("a.ipynb")
    nb("add", "kept = 'state'", "-n", "a.ipynb")
    nb("open", "a.ipynb")
    kill_host(nb)
    assert "NameError" in nb("run", "kept", status=1).out  # any command starts the next host
    assert len(nb("ps", "--json").json["kernels"]) == 1
    assert len(list((nb.root / ".nb" / "kernels").iterdir())) == 1
    # A shutdown after another kill removes only its own files.
    (nb.root / ".nb" / "mine.txt").write_text("a person's")
    kill_host(nb)
    nb("shutdown")
    assert nb.processes() == []
    assert [path.name for path in (nb.root / ".nb").iterdir()] == ["mine.txt"]


@pytest.mark.proves("nb:persist")
def test_a_kernel_that_was_killed_is_replaced_and_that_is_reported(shared: Nb) -> None:
    shared("open", "a.ipynb")
    shared("run", "kept = 'state'")
    faults.kill(int(shared("run", "import os; print(os.getpid())").out.split()[-1]))
    assert "Its variables are lost" in shared("run", "1 + 1").out
    assert "NameError" in shared("run", "kept", status=1).out


@pytest.mark.proves("nb:kernelspec")
def test_a_notebook_of_another_language(shared: Nb) -> None:
    shared("open", "shell.ipynb", "--kernel", "bash")
    shared("insert", "0", "echo $((6 * 7))")
    assert "42" in shared("exec", "0").out
    assert shared.read("shell.ipynb").metadata.kernelspec.name == "bash"


def test_several_cells_or_all_or_the_stale_ones_are_run(shared: Nb) -> None:
    shared.notebook("a.ipynb", "x = 1", "y = x + 1", "1 / 0", "print(y)")
    shared("open", "a.ipynb")
    failed = shared("exec", "--which", "all", "--json", status=1).json
    assert [run["status"] for run in failed["runs"]] == ["ok", "ok", "error"]
    assert failed["skipped"] == 1
    every = ("exec", "--which", "all", "--no-stop-on-error")
    assert "2" in shared(*every, status=1).out
    shared("cell", "0")
    shared("edit", "0", "x = 41")
    which = ("--which", "stale", "--no-stop-on-error")
    stale = shared("exec", *which, "--json", status=None).json
    assert {run["index"] for run in stale["runs"]} >= {0, 1, 3}
    assert "42" in shared("exec", "3").out
    assert "42" in shared("exec", "0-1,3", "--restart", "--timeout", "60").out


@pytest.mark.proves("nb:compact")
def test_long_output_and_source_are_shortened(shared: Nb) -> None:
    shared.notebook(
        "a.ipynb", "print('x' * 100_000)", "\n".join(f"line{n} = {n}" for n in range(50))
    )
    shared("open", "a.ipynb")
    shown = shared("exec", "0").out
    assert len(shown) < 9_000
    assert "nb output" in shown
    cells = shared("cells").out.splitlines()
    assert len(cells) == 3
    assert max(map(len, cells)) < 200
    assert "line49 = 49" in shared("cell", "1").out
