"""Output and exit status of a command are the same in a terminal, in a pipe and as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import nbformat
import psutil
import pytest

from tests.cli.conftest import DEADLINE, Nb

Say = Callable[..., str]

SLOW_LINES = "import time\nfor i in (1, 2, 3):\n    print(i, flush=True)\n    time.sleep(0.2)"
PROGRESS = (
    "import time\nfor i in (25, 50, 100):\n"
    "    print(f'\\r{i:3}% done', end='', flush=True)\n    time.sleep(0.2)"
)
CLEARED = (
    "from IPython.display import clear_output\nimport time\nfor i in range(3):\n"
    "    clear_output(wait=True)\n    print('frame', i, flush=True)\n    time.sleep(0.2)"
)
UPDATED = (
    "import time\nhandle = display({'text/plain': 'value first'}, raw=True, display_id=True)\n"
    "time.sleep(0.2)\nhandle.update({'text/plain': 'value last'}, raw=True)"
)

OUTPUTS = [
    ("lines", SLOW_LINES, ["1", "2", "3"]),
    ("progress", PROGRESS, ["100% done"]),
    ("cleared", CLEARED, ["frame 2"]),
    ("updated", UPDATED, ["value last"]),
]


def forms(nb: Nb) -> Iterator[tuple[str, Say]]:
    """The three ways to run a command: each with what gives its text, with what it ends with."""

    def terminal(*words: str, status: int = 0) -> str:
        return nb.typed(*words, columns=100, status=status)

    def pipe(*words: str, status: int = 0) -> str:
        ended = nb(*words, status=status)
        return ended.out + ended.err

    def as_json(*words: str, status: int = 0) -> str:
        ended = nb(*words, "--json", status=status)
        # One object for each line, or one in all: each is JSON.
        text = ended.out or ended.err
        values = [json.loads(text)] if text.lstrip()[:1] in "{[" else []
        return "\n".join(_texts(values or [json.loads(line) for line in text.splitlines()]))

    yield from (("terminal", terminal), ("pipe", pipe), ("json", as_json))


def _texts(value: object) -> Iterator[str]:
    """All strings and numbers of an answer, the keys among them."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield f"{key}: {each}" if isinstance(each, str | int | float) else str(key)
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    else:
        yield str(value)


def kill_host(nb: Nb) -> None:
    host = psutil.Process(nb.host)
    host.kill()
    host.wait(DEADLINE)


@pytest.mark.proves("nb:pipe-is-the-notebook")
def test_outputs_are_those_of_the_notebook(shared: Nb, subtests: pytest.Subtests) -> None:
    shared("open", "new.ipynb")
    for (case, code, lines), (form, say) in product(OUTPUTS, forms(shared)):
        with subtests.test(case, form=form):
            shown = say("add", code)
            assert [line for line in lines if line not in shown] == [], shown
            cell = shared.read("new.ipynb").cells[-1]
            assert cell.source == code
            text = "".join(
                output.get("text") or output.get("data", {}).get("text/plain", "")
                for output in cell.outputs
            )
            assert text.replace("\r", "\n").strip().splitlines()[-1].strip() == lines[-1]


@pytest.mark.proves("nb:one-notebook")
def test_the_notebook_that_is_named_is_the_one_that_is_meant(
    shared: Nb, subtests: pytest.Subtests
) -> None:
    shared.notebook("a.ipynb", "in_a = 1")
    shared.notebook("b.ipynb", "in_b = 1")
    for form, say in forms(shared):
        with subtests.test(form):
            shared("open", "b.ipynb")
            shared("open", "a.ipynb")
            assert "in_b" in say("cells", "-n", "b.ipynb")
            assert "in_b" in say("cell", "0", "-n", "b.ipynb")
            before = shared("ps", "--json").json
            say("stop", "-n", "b.ipynb")
            after = json.dumps(shared("ps", "--json").json)
            assert "a.ipynb" in after
            assert "b.ipynb" not in after
            assert "b.ipynb" in json.dumps(before)


def test_cells_after_an_error_are_awaited(shared: Nb, subtests: pytest.Subtests) -> None:
    for form, say in forms(shared):
        with subtests.test(form):
            last = f"print('the end', {form!r})"
            shared.notebook("a.ipynb", "1/0", "import time\ntime.sleep(1)", last)
            shared("open", "a.ipynb")
            shown = say("exec", "--all", "--keep-going", status=1)
            assert f"the end {form}" in shown
            assert "ZeroDivisionError" in shown


def test_a_running_cell_is_not_reported_as_done(shared: Nb, subtests: pytest.Subtests) -> None:
    for form, say in forms(shared):
        with subtests.test(form):
            shared.notebook("a.ipynb", "import time\ntime.sleep(30)")
            shared("open", "a.ipynb")
            assert "running" in say("exec", "0", "--wait", "0.5", status=4)
            assert "running" in say("cells")
            shared("stop")


def test_a_display_that_a_later_cell_updates_shows_its_newest_value(
    shared: Nb, subtests: pytest.Subtests
) -> None:
    for form, say in forms(shared):
        with subtests.test(form):
            shared.notebook(
                "a.ipynb",
                "display({'text/plain': 'value first'}, raw=True, display_id='d')",
                "display({'text/plain': 'value last'}, raw=True, display_id='d', update=True)",
            )
            shared("open", "a.ipynb")
            say("exec", "--all")
            shown = say("cell", "0")
            assert "value last" in shown
            assert "value first" not in shown.replace("'value first'", "")


def test_the_index_the_id_and_the_state_of_each_cell_are_listed(
    nb: Nb, subtests: pytest.Subtests
) -> None:
    nb.notebook("a.ipynb", "x = 1  # " + "long " * 60, "y = 2")
    ids = [cell.id for cell in nb.read("a.ipynb").cells]
    for form, say in forms(nb):
        with subtests.test(form):
            shown = say("cells", "a.ipynb")
            assert shown.count("never") >= 2
            assert all(cell_id[:4] in shown for cell_id in ids)


def test_the_first_lines_of_a_newcomer_are_answered_alike(
    shared: Nb, subtests: pytest.Subtests
) -> None:
    for form, say in forms(shared):
        with subtests.test(form):
            say("open", f"{form}.ipynb")
            assert "out of range" in say("insert", "9", "x = 1", status=2)
            say("add", "x = 41 + 1\nx")
            assert "42" in say("cell", "-1")


def test_code_runs_where_no_server_does(nb: Nb, subtests: pytest.Subtests) -> None:
    for form, say in forms(nb):
        with subtests.test(form):
            nb.notebook("a.ipynb", "6 * 7")
            assert nb.processes() == []
            assert "42" in say("exec", "0", "-n", "a.ipynb")
            nb("shutdown")


def test_an_old_notebook_is_refused_before_a_kernel_starts(
    nb: Nb, subtests: pytest.Subtests
) -> None:
    old = nbformat.v3.new_notebook(
        worksheets=[nbformat.v3.new_worksheet(cells=[nbformat.v3.new_code_cell(input="1")])]
    )
    (nb.root / "old.ipynb").write_text(nbformat.v3.writes_json(old), encoding="utf-8")
    for form, say in forms(nb):
        with subtests.test(form):
            assert "format" in say("open", "old.ipynb", status=2)
            assert nb.processes() == []


def test_the_status_names_the_notebook_and_its_kernel(
    shared: Nb, subtests: pytest.Subtests
) -> None:
    shared.notebook("a.ipynb", "1")
    shared("open", "a.ipynb")
    for form, say in forms(shared):
        with subtests.test(form):
            shown = say("status")
            assert "a.ipynb" in shown
            assert "python3" in shown
            assert "{'" not in shown
            assert "['" not in shown


@pytest.mark.proves("nb:one-notebook")
def test_a_hundred_notebooks_are_refused_closed_and_opened_again(
    nb: Nb, subtests: pytest.Subtests
) -> None:
    nb("open", "a.ipynb")
    kill_host(nb)
    # As if a hundred had been opened: all on one kernel, which is quicker to start.
    (memory,) = Path(nb.environment["HOME"]).rglob("nb.json")
    known = json.loads(memory.read_text())
    (caller,) = known.values()
    (opened,) = caller["notebooks"]
    caller["notebooks"] = [
        {**opened, "name": f"n{number}.ipynb", "path": f"n{number}.ipynb"} for number in range(100)
    ]
    memory.write_text(json.dumps(known))
    for number, (form, say) in enumerate(forms(nb)):
        with subtests.test(form):
            refused = say("open", nb.notebook(f"b{number}.ipynb", "1").name, status=2)
            assert "100 notebooks" in refused
            assert "nb " in refused
            say("unuse", "-n", f"n7{number}.ipynb")
            managed = say("managed")
            assert f"n6{number}.ipynb" in managed
            assert f"n7{number}.ipynb" not in managed
            say("open", f"b{number}.ipynb")
    for number, (form, say) in enumerate(forms(nb)):
        with subtests.test("without the server", form=form):
            say("shutdown")
            say("open", nb.notebook(f"c{number}.ipynb", "1").name)
            assert f"c{number}.ipynb" in say("status")


@pytest.mark.proves("nb:pipe-is-the-notebook")
def test_watching_shows_the_whole_output(shared: Nb, subtests: pytest.Subtests) -> None:
    os.mkfifo(shared.root / "go")
    shared.notebook("a.ipynb", "print('before', flush=True)\nopen('go').read()\nprint('after')")
    shared("open", "a.ipynb")
    for form, say in forms(shared):
        with subtests.test(form):
            begun = shared("exec", "0", "--wait", "0", "--json", status=4).json["execution_id"]
            shown = say("watch", begun, "--wait", "0.5", status=4)
            assert "running" in shown
            (shared.root / "go").write_text("now")
            # A terminal has shown the beginning, which is above: the rest follows. Who reads a pipe
            # or JSON has this answer alone.
            rest = say("watch", begun)
            assert "before" in shown
            assert "after" in rest
            again = (
                shared("watch", begun).out,
                shared("watch", begun, "--json").json["runs"][0]["output"],
            )
            for whole in again:
                assert whole.rstrip().endswith("before\nafter")


@pytest.mark.proves("nb:killed-server")
def test_output_that_a_killed_server_lost_is_reported(nb: Nb, subtests: pytest.Subtests) -> None:
    os.mkfifo(nb.root / "go")
    for form, say in forms(nb):
        with subtests.test(form):
            nb.notebook(
                "a.ipynb", "print('before', flush=True)\nopen('go').read()", "print('next')"
            )
            nb("open", "a.ipynb")
            nb("exec", "0", "--wait", "1", status=4)
            kill_host(nb)
            listed = " ".join(say("cells").split())
            assert "running" in listed
            assert "The server stopped while its kernel runs @" in listed
            waits = say("exec", "1", "--wait", "0", status=4)
            assert "running" in waits or "queued" in waits
            (nb.root / "go").write_text("now")
            assert "next" in say("watch")
            assert "fresh" in say("cells")


@pytest.mark.proves("nb:completion")
def test_completions_are_alike_on_all_interfaces(nb: Nb) -> None:
    nb.notebook("my notebook with a name that is longer than a line of the terminal.ipynb", "1")
    (name,) = (path.name for path in nb.root.glob("*.ipynb"))
    for before in (("open",), ("exec", "-n"), ("exec", "--json", "-n")):
        words = ("complete", "--", *before, "my")
        assert nb(*words).out == nb.typed(*words, columns=40) == f"{name}\n"
    assert "--json" in nb("complete", "--", "exec", "--js").out
    for shell in ("bash", "zsh", "fish"):
        script = nb("completion", shell).out
        assert nb.typed("completion", shell, columns=40) == script
        assert nb("completion", shell, "--json").json == {"shell": shell, "script": script}
