"""The same command on a terminal, in a pipe and with `--json`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import DEADLINE, NB, Nb

LONG = (
    "import numpy, pandas, matplotlib.pyplot  # a first line that fills a whole terminal, or more"
)
TABLE = """from IPython.display import display
markdown = "| a &lt;int&gt; | `&lt;` |\\n|---|---|\\n| 1 &amp; 2 | x |"
display({"text/markdown": markdown, "text/plain": "?"}, raw=True)"""
"""A table as IRkernel gives it."""


@pytest.mark.proves("nb:terminal")
def test_a_list_names_its_rows_however_narrow_the_terminal(
    shared: Nb, subtests: pytest.Subtests
) -> None:
    shared.notebook("a.ipynb", LONG, "print('x')", "1 / 0")
    shared("exec", "0-2", "-n", "a.ipynb", status=1)
    cells = shared("cells", "a.ipynb", "--json").json["cells"]
    entries = shared("history", "-n", "a.ipynb", "--json").json["entries"]
    assert entries
    for columns in (40, 60, 80, 100, 120, 200):
        with subtests.test(columns=columns):
            shown = shared.typed("cells", "a.ipynb", columns=columns).splitlines()
            assert max(map(len, shown)) <= columns
            rows = [line.split() for line in shown[3:]]
            for cell, row in zip(cells, rows, strict=True):
                assert row[:2] == [str(cell["index"]), cell["cell"]]
                assert cell["state"] in row
            assert rows[0][rows[0].index(cells[0]["state"]) + 1] == "import"
            lines = shared.typed("history", "-n", "a.ipynb", columns=columns).splitlines()
            assert max(map(len, lines)) <= columns
            for entry, line in zip(entries, lines[3:], strict=True):
                assert line.split()[0] == str(entry["id"])
                assert str(entry["time"]) in line


@pytest.mark.proves("nb:terminal")
def test_the_status_is_in_words_everywhere(shared: Nb) -> None:
    shared.notebook("a.ipynb")
    shared("open", "a.ipynb")
    kernels = shared("status", "--json").json["kernels"]
    (kernel,) = (each for each in kernels if each["notebooks"] == ["a.ipynb"])
    piped = shared("status").out
    assert f"kernel {kernel['kernel_id']} python3 idle, direct executor, for a.ipynb" in piped
    assert "[" not in piped
    assert kernel["kernel_id"][:8] in shared.typed("status")


@pytest.mark.proves("nb:terminal")
def test_code_is_shown_on_the_terminals_own_background(nb: Nb) -> None:
    nb.notebook("a.ipynb", "for x in range(3): pass")
    ours = nb.typed  # colours are taken out of what it gives
    assert "for x in range(3): pass" in ours(
        "cell", "0", "-n", "a.ipynb", terminal="xterm-256color"
    )
    master, theirs = os.openpty()
    process = subprocess.Popen(
        [*NB, "cell", "0", "-n", "a.ipynb"],
        stdin=theirs,
        stdout=theirs,
        cwd=nb.root,
        env={**nb.environment, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    process.wait(DEADLINE)
    raw = os.read(master, 65_536).decode()
    os.close(master)
    assert "\x1b[" in raw
    assert "48;" not in raw


@pytest.mark.proves("nb:terminal")
def test_a_markdown_table_is_read_as_its_words(shared: Nb) -> None:
    shared.notebook("a.ipynb", TABLE)
    answer = shared("exec", "0", "-n", "a.ipynb", "--json").json["runs"][0]["output"]
    for shown in (
        answer,
        shared("exec", "0", "-n", "a.ipynb").out,
        shared.typed("exec", "0", "-n", "a.ipynb"),
    ):
        assert "| a <int> | `&lt;` |" in shown
        assert "| 1 & 2 | x |" in shown


@pytest.mark.proves("nb:full-output")
def test_output_that_cannot_be_written_is_reported_in_a_sentence(
    nb: Nb, shared: Nb, subtests: pytest.Subtests
) -> None:
    shared("open", "a.ipynb")
    commands = (["cells", "a.ipynb"], ["cells", "a.ipynb", "--json"], ["--help"], ["--version"])
    for where, project in (("alone", nb), ("with a server", shared)):
        project.notebook("a.ipynb", "x = 1")
        for words in commands:
            with subtests.test(where, words=words), Path("/dev/full").open("w") as full:
                ended = subprocess.run(
                    [*NB, *words],
                    stdin=subprocess.DEVNULL,
                    stdout=full,
                    stderr=subprocess.PIPE,
                    cwd=project.root,
                    env=project.environment,
                    timeout=DEADLINE,
                    check=False,
                )
                assert ended.stderr.decode() == (
                    "nb: the output cannot be written: No space left on device.\n"
                )
                assert ended.returncode == 1


@pytest.mark.proves("nb:commands")
def test_the_first_lines_of_a_newcomer_do_what_the_help_says(shared: Nb) -> None:
    shared("open", "new.ipynb")
    shared("insert", "-1", "x = 6 * 7")
    shared("insert", "print('the last one')")
    assert shared("add", "6 * 7").out.rstrip().endswith("42")
    shared("insert", "-1", "# the end", "--cell-type", "markdown")
    sources = [cell.source for cell in shared.read("new.ipynb").cells]
    assert sources == ["", "x = 6 * 7", "print('the last one')", "6 * 7", "# the end"]
    assert "-1 is the end" in shared("insert", "--help").out
    refused = shared("insert", "9", "x", status=2).err
    assert "Use 0 to 5." in refused
    assert "`nb insert --help`" in refused


def test_help_explains_each_argument_and_what_programs_get(nb: Nb) -> None:
    assert "nb help json" in nb("--help").out
    text = nb("help", "json").out
    for part in ('{"error": {"code"', "total_cells", "execution_id", "kernel_id"):
        assert part in text
    errors = nb("help", "errors").out
    error = nb("cell", "9", "-n", "missing.ipynb", "--json", status=2).json["error"]
    assert error["code"] in errors
    assert nb("help", "exec").out == nb("exec", "--help").out
    assert "until it ends" in nb("run", "--help").out
    assert json.loads(nb("help", "nonsense", "--json", status=2).out)["error"]["code"]
