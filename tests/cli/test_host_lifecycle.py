"""When a command starts the project's server, and when nothing is left of one that it started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Nb

pytestmark = pytest.mark.proves("nb:starts")

OLD = {
    "metadata": {"name": ""},
    "nbformat": 3,
    "nbformat_minor": 0,
    "worksheets": [{"cells": [], "metadata": {}}],
}
"""A notebook of nbformat 3."""


@pytest.mark.usefixtures("fresh_processes")
def test_a_cell_runs_whether_or_not_a_server_runs(nb: Nb) -> None:
    check_alone_and_beside(nb, "exec", "0")


@pytest.mark.parametrize("word", ["run", "add"])
def test_code_runs_whether_or_not_a_server_runs(nb: Nb, word: str) -> None:
    # In fresh interpreters, each starts a host in test_end_to_end.py.
    check_alone_and_beside(nb, word, "6 * 7")


def check_alone_and_beside(nb: Nb, *words: str) -> None:
    """A command runs code where it starts the server, and beside a server that runs."""
    nb.notebook("a.ipynb", "6 * 7")
    nb.notebook("b.ipynb", "6 * 7")
    alone = nb(*words, "-n", "a.ipynb")
    assert alone.out.rstrip().endswith("42")
    beside = nb(*words, "-n", "b.ipynb")
    assert beside.out.rstrip().endswith("42")
    assert beside.err == alone.err == ""
    kernels = nb("ps", "--json").json["kernels"]
    assert sorted(kernel["notebooks"][0] for kernel in kernels) == ["a.ipynb", "b.ipynb"]
    assert len(nb.read("b.ipynb").cells) == len(nb.read("a.ipynb").cells) == 1 + (words[0] == "add")


def test_text_on_standard_input_reaches_a_server_that_is_started_for_it(nb: Nb) -> None:
    nb.notebook("a.ipynb")
    assert (
        nb("run", "-", "-n", "a.ipynb", "--json", stdin="6 * 7\n").json["runs"][0]["output"] == "42"
    )


def test_the_code_of_a_wrong_call_starts_nothing(nb: Nb) -> None:
    nb.notebook("a.ipynb", "x = 1")
    assert "cell_not_found" in nb("exec", "7", "-n", "a.ipynb", status=2).err
    assert "invalid_arguments" in nb("run", "1", status=2).err
    assert not (nb.root / ".nb").exists()


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["open", "missing/a.ipynb"], 2),
        (["open", "new.ipynb", "--kernel", "klingon"], 2),
        (["open", "old.ipynb"], 2),
        (["lab", "missing.txt", "--no-browser"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_that_fails_leaves_no_server(nb: Nb, words: list[str], status: int) -> None:
    (nb.root / "old.ipynb").write_text(json.dumps(OLD))
    before = sorted(nb.root.iterdir())
    assert nb(*words, "--json", status=status).json["error"]["code"]
    assert nb.processes() == []
    assert sorted(nb.root.iterdir()) == before


def test_a_server_that_runs_already_outlives_a_command_that_fails(shared: Nb) -> None:
    shared.notebook("a.ipynb")
    shared("open", "a.ipynb")
    shared("stop")
    host = shared.host
    shared("open", "missing/a.ipynb", status=2)
    assert shared.host == host


@pytest.mark.parametrize("words", [["serve", "--off"], ["serve"], ["status"], ["ps"], ["doctor"]])
def test_a_command_that_needs_no_server_starts_none(nb: Nb, words: list[str]) -> None:
    nb.notebook("a.ipynb")
    nb(*words, status=None)
    assert not (nb.root / ".nb").exists()


def test_a_notebook_of_an_old_format_gets_no_kernel(shared: Nb) -> None:
    shared.notebook("a.ipynb")
    (shared.root / "old.ipynb").write_text(json.dumps(OLD))
    shared("open", "a.ipynb")
    refused = shared("open", "old.ipynb", "--json", status=2).json["error"]
    assert refused["code"] == "invalid_notebook"
    assert [kernel["notebooks"] for kernel in shared("ps", "--json").json["kernels"]] == [
        ["a.ipynb"]
    ]
    assert "old.ipynb" in shared.typed("open", "old.ipynb", status=2)


def test_where_no_kernel_is_installed_no_notebook_is_made(
    nb: Nb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(nb.environment, "JUPYTER_PATH", "")
    config = Path(nb.environment["JUPYTER_CONFIG_DIR"], "jupyter_server_config.json")
    none = {"allowed_kernelspecs": ["klingon"], "ensure_native_kernel": False}
    config.write_text(json.dumps({"KernelSpecManager": none}))
    refused = nb("open", "new.ipynb", status=2).err
    assert "invalid_arguments" in refused
    assert not (nb.root / "new.ipynb").exists()
    assert nb.processes() == []


def test_after_stop_the_next_kernel_takes_no_dead_ones_place(shared: Nb) -> None:
    shared.notebook("a.ipynb", "1")
    shared("open", "a.ipynb")
    shared("stop")
    result = shared("exec", "0", "--json").json
    assert "died" not in json.dumps(result)
