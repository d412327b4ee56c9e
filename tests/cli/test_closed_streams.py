"""Output that nobody reads, and standard streams that are closed: the exit status is that of the command."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import DEADLINE, NB, Nb
from tk_ai_extension.cli import client

RUNNING = (
    ["verify", "bad.ipynb", "other.ipynb"],
    ["verify", "bad.ipynb", "--json"],
    ["run", "bad.ipynb"],
    ["run", "1 / 0", "-n", "other.ipynb"],
    ["exec", "0", "-n", "other.ipynb"],
)
"""Commands that run code, and need a server."""

READING = (
    ["cells", "other.ipynb"],
    ["read", "-n", "other.ipynb"],
    ["cells", "missing.ipynb"],
    ["cells", "missing.ipynb", "--json"],
    ["nonsense"],
    ["--help"],
    ["--version"],
)


@pytest.fixture
def project(shared: Nb) -> Nb:
    shared.notebook("bad.ipynb", "1 / 0")
    shared.notebook("other.ipynb", "6 * 7")
    return shared


def unread(nb: Nb, *words: str, err: bool = False) -> tuple[int, str]:
    """The exit status of a command whose reader has closed the pipe, and its errors."""
    reads, writes = os.pipe()
    os.close(reads)
    ended = subprocess.run(
        [*NB, *words],
        stdin=subprocess.DEVNULL,
        stdout=writes,
        stderr=writes if err else subprocess.PIPE,
        cwd=nb.root,
        env=nb.environment,
        timeout=DEADLINE,
        check=False,
    )
    os.close(writes)
    return ended.returncode, (ended.stderr or b"").decode()


@pytest.mark.proves("nb:full-output")
@pytest.mark.parametrize("is_open", [False, True], ids=["alone", "with a server"])
def test_a_closed_pipe_changes_no_exit_status(
    project: Nb, subtests: pytest.Subtests, is_open: bool
) -> None:
    if is_open:
        project("open", "other.ipynb")
    for words in (*READING, *(RUNNING if is_open else ())):
        with subtests.test(words=words):
            read = project(*words, status=None)
            status, err = unread(project, *words)
            assert (status, re.sub(r"\d", "", err)) == (read.status, re.sub(r"\d", "", read.err))
            assert unread(project, *words, err=True)[0] == read.status


@pytest.mark.proves("nb:full-output")
def test_all_is_verified_and_reported_though_nobody_reads(project: Nb) -> None:
    status, _ = unread(project, "verify", "bad.ipynb", "other.ipynb", "--junitxml", "report.xml")
    assert status == 1
    assert "other.ipynb" in (project.root / "report.xml").read_text()


@pytest.mark.proves("nb:full-output")
def test_a_command_that_only_follows_ends_with_its_reader(project: Nb) -> None:
    os.mkfifo(project.root / "go")
    project.notebook("slow.ipynb", "print('began', flush=True)\nopen('go').read()")
    project("open", "slow.ipynb")
    project("exec", "0", "--wait", "0", status=4)
    assert unread(project, "watch", "--wait", "1")[0] in (4, 141)
    (project.root / "go").write_text("now")
    assert unread(project, "watch")[0] == 141


@pytest.mark.proves("nb:full-output")
@pytest.mark.usefixtures("fresh_processes")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_defect(
    project: Nb, subtests: pytest.Subtests, closed: str
) -> None:
    for words in (["cells", "other.ipynb"], ["cells", "missing.ipynb"], ["--version"], ["write"]):
        with subtests.test(words=words):
            read = project(*words, status=None)
            ended = subprocess.run(
                ["sh", "-c", f'"$@" {closed}', "sh", *NB, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                cwd=project.root,
                env=project.environment,
                timeout=DEADLINE,
                check=False,
            )
            assert b"Traceback" not in ended.stderr
            is_lost = read.status == 0 and ">&-" in closed.split()
            assert ended.returncode == (1 if is_lost else read.status)
            if is_lost and "2>&-" not in closed:
                assert b"the output cannot be written: Bad file descriptor" in ended.stderr


def test_a_report_is_replaced_whole_and_keeps_what_it_is(tmp_path: Path) -> None:
    file, link, pipe = (tmp_path / name for name in ("report", "link", "pipe"))
    file.write_text("old")
    file.chmod(0o604)
    link.symlink_to(file)
    client.write_file(str(link), "new")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o604)
    assert link.is_symlink()
    with pytest.raises(UnicodeEncodeError):
        client.write_file(str(file), "\ud800")
    assert file.read_text() == "new"
    os.mkfifo(pipe)
    reads = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    client.write_file(str(pipe), "said")
    assert os.read(reads, 10) == b"said"
    os.close(reads)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "pipe", "report"]
