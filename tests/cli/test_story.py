"""The command line's own story: a notebook opened, worked in and left, each step a process."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Nb


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
