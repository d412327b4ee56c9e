"""What goes wrong on the command line: a sentence, what to do, the right exit status, nothing changed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import NB, Nb
from tk_ai_extension import __version__
from tk_ai_extension.cli.connecting import COMMANDS, own_server
from tk_ai_extension.cli.project import Project

SOURCE = "x = 1\ny = 2\nz = x + y"


@pytest.fixture
def path(nb: Nb) -> Path:
    return nb.notebook("a.ipynb", SOURCE, "1 / 0")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["nonsense"], "unknown command `nonsense`"),
        (["cell"], "the following arguments are required: CELL"),
        (["cell", "nope", "-n", "a.ipynb"], "cell_not_found"),
        (["cell", "99999999999999999999", "-n", "a.ipynb"], "cell_not_found"),
        (["cell", "0"], "notebook_required"),
        (["cell", "0", "-n", "missing.ipynb"], "notebook_not_found"),
        (["cell", "0", "-n", "../a.ipynb"], "path_refused"),
        (["cell", "0", "-n", "/etc/passwd"], "path_refused"),
        (["insert", "one", "x", "-n", "a.ipynb"], "not a whole number"),
        (["insert", "7", "x", "-n", "a.ipynb"], "invalid_arguments"),
        (["insert", "0", "x", "--cell-type", "poem", "-n", "a.ipynb"], "invalid choice"),
        (["apply", "{", "-n", "a.ipynb"], "not JSON"),
        (["apply", '[{"op": "explode"}]', "-n", "a.ipynb"], "invalid_arguments"),
        (["write", "missing.txt"], "No such file"),
        (["write", "-", "-n", "a.ipynb"], "invalid_text"),
        (["exec"], "name a cell"),
        (["exec", "0", "--all"], "name a cell"),
        (["edit", "0"], "give its new source"),
        (["edit", "0", "x = 9", "-n", "a.ipynb"], "conflict"),
        (["search", "(", "-n", "a.ipynb"], "invalid_arguments"),
        (["open"], "the following arguments are required: NOTEBOOK"),
        (["-C", "nowhere", "cells"], "No such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_call_ends_with_2_says_why_and_changes_nothing(
    nb: Nb, path: Path, words: list[str], part: str
) -> None:
    before = path.read_bytes()
    ended = nb(*words, stdin="no marker first", status=2)
    assert part in ended.err
    assert ended.out == ""
    assert path.read_bytes() == before


@pytest.mark.parametrize("words", [["vars", "-n", "a.ipynb"], ["restart", "-n", "a.ipynb"]])
def test_a_command_without_its_kernel_says_how_to_start_one(
    nb: Nb, path: Path, words: list[str]
) -> None:
    ended = nb(*words, status=3)
    assert "`nb open` starts one" in ended.err
    assert nb(*words, "--json", status=3).json["error"]["code"] == "kernel_not_found"
    assert nb.processes() == []


def test_a_cell_that_fails_ends_with_1(shared: Nb) -> None:
    shared.notebook("a.ipynb", SOURCE, "1 / 0")
    shared("open", "a.ipynb")
    assert "ZeroDivisionError" in shared("exec", "1", status=1).out
    assert (
        shared("exec", "1", "--json", status=1).json["runs"][0]["error"].startswith("ZeroDivision")
    )
    assert shared("run", "while True: pass", "--timeout", "0.5", status=1).out.count("timed_out")


def test_a_kernelspec_that_does_not_exist(nb: Nb) -> None:
    ended = nb("open", "new.ipynb", "--kernel", "klingon", status=2)
    assert "kernelspec_not_found" in ended.err
    assert "Installed kernelspecs: python3" in ended.err
    assert not (nb.root / "new.ipynb").exists()


def test_input_that_is_not_utf8_is_refused(nb: Nb, path: Path) -> None:
    for stdin in (b"\xff\xfe", b"a\0b"):
        before = path.read_bytes()
        ended = nb("insert", "0", "-", "-n", "a.ipynb", stdin=stdin, status=2)
        assert "invalid_arguments" in ended.err
        assert path.read_bytes() == before
    (nb.root / "a.txt").write_bytes(b"# %%\n\xff\n")
    for words in (("insert", "0", "\udcff", "-n", "a.ipynb"), ("write", "a.txt", "-n", "a.ipynb")):
        ended = nb(*words, status=2)
        assert "not UTF-8" in ended.err
        assert path.read_bytes() == before


def test_a_socket_that_a_host_has_left_behind_is_nobody(nb: Nb, path: Path) -> None:
    folder = nb.root / ".nb"
    folder.mkdir(mode=0o700)
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(folder)
        with socket.socket(socket.AF_UNIX) as left:
            left.bind("nb.sock")
    finally:
        os.fchdir(here)
        os.close(here)
    assert "2 cells" in nb("cells", "a.ipynb").out
    nb("open", "a.ipynb")
    assert "3" in nb("run", "1 + 2").out


def test_a_folder_of_somebody_else_is_not_spoken_to(nb: Nb, path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    (nb.root / ".nb").mkdir(mode=0o755)
    os.chown(nb.root / ".nb", 12345, 12345)
    for words in (["open", "a.ipynb"], ["serve"], ["mcp"]):
        assert "belongs to another user" in nb(*words, status=2).err
    for words in (["cells", "a.ipynb"], ["insert", "0", "2", "-n", "a.ipynb"], ["shutdown"]):
        assert "It is ignored" in nb(*words).err
    assert list((nb.root / ".nb").iterdir()) == []


def test_a_project_that_cannot_be_written_is_read_and_not_opened(nb: Nb, path: Path) -> None:
    (nb.root / ".nb").write_text("a file where the folder would be")
    assert "2 cells" in nb("cells", "a.ipynb").out
    assert "cannot be written" in nb("open", "a.ipynb", status=2).err


def test_a_host_that_cannot_write_its_log_is_not_started(nb: Nb, path: Path) -> None:
    (nb.root / ".nb" / "host.log").mkdir(parents=True)
    assert "the server cannot be started" in nb("open", "a.ipynb", status=2).err


def test_shutting_down_what_was_never_opened_is_nothing(nb: Nb, path: Path) -> None:
    assert nb("shutdown").out == "0 kernels stopped.\n"
    assert "Nothing was shared" in nb("serve", "--off").out
    nb("shutdown")
    assert sorted(entry.name for entry in nb.root.iterdir()) == ["a.ipynb"]


def test_a_data_folder_that_cannot_be_written_is_named(nb: Nb, path: Path) -> None:
    (nb.root / "file").write_text("")
    nb.environment["JUPYTER_DATA_DIR"] = str(nb.root / "file")
    for words in (["cells", "a.ipynb"], ["open", "a.ipynb"]):
        assert "Set JUPYTER_DATA_DIR to another folder" in nb(*words, status=2).err


@pytest.mark.usefixtures("fresh_processes")
def test_a_module_of_the_projects_own_is_not_the_hosts(nb: Nb, path: Path) -> None:
    (nb.root / "psutil.py").write_text("open('ran', 'w')")
    nb("open", "a.ipynb")
    assert not (nb.root / "ran").exists()


def test_settings_that_cannot_be_read_are_reported_and_nothing_runs(nb: Nb, path: Path) -> None:
    (nb.root / ".nb").mkdir()
    (nb.root / ".nb" / "project.json").write_text("{")
    assert "project.json cannot be read" in nb("open", "a.ipynb", status=2).err


def test_a_command_that_is_killed_while_it_reads_empties_no_cell(shared: Nb) -> None:
    path = shared.notebook("a.ipynb", SOURCE, "1 / 0")
    shared("open", "a.ipynb")
    shared("cell", "0")
    before = path.read_bytes()
    folder = str(shared.root)
    greeting = {"argv": ["edit", "0", "-"], "cwd": folder, "project": folder}
    greeting |= {"columns": 0, "tty": False}
    server = own_server(Project(folder))
    assert server is not None
    connection = server.open(COMMANDS)
    with connection, connection.makefile("rw", encoding="utf-8") as lines:
        lines.write(json.dumps({**greeting, "env": {}, "version": __version__}) + "\n")
        lines.flush()
        assert json.loads(lines.readline()) == {"ask": "stdin"}
    shared("cells")
    assert path.read_bytes() == before


def test_a_host_that_is_killed_in_a_command_is_named(nb: Nb, path: Path) -> None:
    nb("open", "a.ipynb")
    host = nb.host
    with subprocess.Popen(
        [*NB, "run", "import time; print('began', flush=True); time.sleep(60)"],
        cwd=nb.root,
        env=nb.environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        state = ""
        while state != "busy":
            state = nb("kernel", "--json").json["kernel"]["state"]
        os.kill(host, signal.SIGKILL)
        _, err = running.communicate(timeout=30)
    assert running.returncode == 3
    assert b"The server stopped before it answered" in err


def test_a_notebook_that_is_deleted_or_moved_while_it_is_open(shared: Nb) -> None:
    path = shared.notebook("a.ipynb", SOURCE, "1 / 0")
    shared("open", "a.ipynb")
    path.rename(shared.root / "b.ipynb")
    assert "notebook_not_found" in shared("cells", status=2).err
    assert "notebook_not_found" in shared("exec", "0", status=2).err
    assert not path.exists()
    shared("open", "b.ipynb")
    assert "2 cells" in shared("cells").out


def test_errors_are_json_for_programs(nb: Nb, path: Path) -> None:
    error = nb("cell", "nope", "-n", "a.ipynb", "--json", status=2).json["error"]
    assert error["code"] == "cell_not_found"
    assert error["hint"] == "Call `nb cells` to see the cells and their ids."
    wrong = json.loads(nb("insert", "one", "x", "--json", status=2).out)
    assert wrong["error"]["code"] == "invalid_arguments"
    assert nb("nonsense", "--json", status=2).json["error"]["code"] == "invalid_arguments"


def test_a_working_directory_that_is_gone_is_refused_in_a_sentence(nb: Nb) -> None:
    gone = nb.root / "gone"
    gone.mkdir()
    command = 'rmdir "$PWD"; exec "$@"'
    for words in (["status"], ["cells"], ["--version"], ["-C", "x", "status"]):
        gone.mkdir(exist_ok=True)
        ended = subprocess.run(
            ["sh", "-c", command, "sh", *NB, *words],
            cwd=gone,
            env=nb.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 2
        assert "Traceback" not in ended.stderr
        assert len(ended.stderr.splitlines()) == 1
