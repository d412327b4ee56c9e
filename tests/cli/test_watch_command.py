"""Following what runs: without its id, and by anybody else."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

from tests.cli.conftest import Nb


@pytest.fixture
def running(shared: Nb) -> str:
    """An execution whose first cell waits until somebody writes into `go`."""
    with suppress(FileExistsError):
        os.mkfifo(shared.root / "go")
    shared.notebook("a.ipynb", "open('go').read()", "print(6 * 7)")
    shared("open", "a.ipynb")
    return shared("exec", "0-1", "--wait", "0", "--json", status=4).json["execution_id"]


def test_the_run_that_goes_on_is_meant_then_the_newest(shared: Nb, running: str) -> None:
    assert (
        shared("watch", "--wait", "0", status=4)
        .out.rstrip()
        .endswith(f"follow it with nb watch {running}.")
    )
    shared("run", "1 + 1", "--wait", "0", status=4)  # waits behind it
    assert shared("watch", "--wait", "0", "--json", status=4).json["execution_id"] == running
    (shared.root / "go").write_text("now")
    assert shared("watch", running, "--json").json["status"] == "ok"
    assert "2" in shared("watch").out
    ran = shared("run", "3 + 4", "--json").json
    assert shared("watch", "--json").json["execution_id"] == ran["execution_id"]


def test_a_caller_without_runs_sees_the_runs_of_others(shared: Nb, running: str) -> None:
    refused = shared("watch", status=2, env={"NB_CALLER": "somebody"})
    assert "not_found" in refused.err
    assert f"Running executions of others: {running} (nb, a.ipynb)." in refused.err
    (shared.root / "go").write_text("now")
    assert "42" in shared("watch", running, env={"NB_CALLER": "somebody"}).out


def test_without_a_host_nothing_has_run(nb: Nb) -> None:
    assert "You have no recent execution" in nb("watch", status=2).err


def test_a_pipe_gets_hints_that_are_commands(nb: Nb) -> None:
    nb.notebook("a.ipynb", "1")
    message = nb("cells", status=2).err
    assert "Use `nb open` first, or give `-n NOTEBOOK` to `nb cells`." in message
