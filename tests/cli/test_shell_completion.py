"""What Tab does in a shell: the real ones, at a terminal."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.cli.conftest import DEADLINE, Nb

pytestmark = pytest.mark.proves("nb:completion")

SETUP = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'PS1="% "; eval "$(nb completion bash)"'),
    "zsh": (
        ["zsh", "-f", "-i"],
        'PS1="% "; autoload -Uz compinit; compinit -u -D; eval "$(nb completion zsh)"',
    ),
    # As a file of zsh's function path, where the first Tab loads it.
    "zsh file": (
        ["zsh", "-f", "-i"],
        (
            'PS1="% "; mkdir f; nb completion zsh > f/_nb; fpath=($PWD/f $fpath); autoload -Uz compinit; '
            "compinit -u -D"
        ),
    ),
}


@contextmanager
def completing(nb: Nb, shell: str, last: str = ":") -> Generator[Callable[[str], list[str]]]:
    """A shell; what is typed in it gives the words of the command line after Tab, as it would be run.

    Args:
        nb: The project, where the shell is.
        shell: Its name in `SETUP`.
        last: What it runs after its setup.
    """
    argv, setup = SETUP[shell]
    (nb.root / "bin").mkdir(exist_ok=True)
    echo = nb.root / "bin" / "echo-arguments"
    echo.write_text('#!/bin/sh\nprintf "<%s>" "$@" > arguments.txt\n')
    echo.chmod(0o755)
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 40, 200, 0, 0))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = subprocess.Popen(
        argv,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=nb.root,
        env={**nb.environment, "PATH": path, "TERM": "dumb"},
        start_new_session=True,
    )
    os.close(theirs)

    def until(pattern: bytes) -> None:
        shown = b""
        while not re.search(pattern, shown):
            data = os.read(ours, 65_536)
            assert data
            shown += data

    def completed(typed: str) -> list[str]:
        # What is completed is not run: Ctrl-A and a word before it make it another command's words.
        os.write(ours, f"{typed}\t\x01./bin/echo-arguments \x05 ; echo do''ne\n".encode())
        until(rb"done\r?\n")
        arguments = nb.root / "arguments.txt"
        words = re.findall("<([^>]*)>", arguments.read_text())
        arguments.unlink()
        return words

    try:
        os.write(ours, f"{setup}; {last}; echo rea''dy\n".encode())
        until(rb"ready\r?\n")
        yield completed
    finally:
        with suppress(OSError):
            os.write(ours, b"\x03exit\n")
        process.kill()
        process.wait(DEADLINE)
        os.close(ours)


@pytest.fixture(params=SETUP)
def shell(request: pytest.FixtureRequest) -> str:
    if shutil.which(SETUP[request.param][0][0]) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


CASES = {
    "nb shut": ["nb", "shutdown"],
    "nb open my": ["nb", "open", "my notebook.ipynb"],
    "nb open my\\ no": ["nb", "open", "my notebook.ipynb"],
    "nb open 'my no": ["nb", "open", "my notebook.ipynb"],
    # No space after a folder: the next word is a part of the same one.
    "nb open fol": ["nb", "open", "folder with a notebook/"],
    "nb open folder\\ with\\ a\\ notebook/in": ["nb", "open", "folder with a notebook/inner.ipynb"],
    "nb exec -n my": ["nb", "exec", "-n", "my notebook.ipynb"],
    "nb exec -n my\\ notebook.ipynb fi": ["nb", "exec", "-n", "my notebook.ipynb", "firs"],
    "nb open x.ipynb --kernel pyt": ["nb", "open", "x.ipynb", "--kernel", "python3"],
    "nb read --view edi": ["nb", "read", "--view", "editable"],
    "nb exec --keep": ["nb", "exec", "--keep-going"],
    "nb -C fol": ["nb", "-C", "folder with a notebook/"],
    "nb -C folder\\ with\\ a\\ notebook open in": [
        "nb",
        "-C",
        "folder with a notebook",
        "open",
        "inner.ipynb",
    ],
}


def test_tab_completes_what_is_meant(nb: Nb, shell: str, subtests: pytest.Subtests) -> None:
    made = nb.notebook("my notebook.ipynb", "x = 1")
    text = made.read_text()
    made.write_text(re.sub('"id": "[^"]*"', '"id": "firstcell"', text))
    nb.notebook("folder with a notebook/inner.ipynb", "x = 1")
    # The first Tab loads the file of zsh's function path: each case is the first in a shell of its own.
    shells = [[typed] for typed in CASES] if shell == "zsh file" else [[*CASES]]
    for cases in shells:
        with completing(nb, shell) as completed:
            for typed in cases:
                with subtests.test(typed):
                    assert completed(typed) == CASES[typed]


HOSTILE = (
    "x;touch PWNED;.ipynb",
    "$(touch PWNED).ipynb",
    "`touch PWNED`.ipynb",
    "$HOME.ipynb",
    "st*r.ipynb",
    "[x]{a,b}?.ipynb",
    "q'uo\"te.ipynb",
    "ba!ng.ipynb",
    "back\\slash.ipynb",
    "a&b|c#(.ipynb",
    "~x.ipynb",
)
"""Names of notebooks that a shell would expand or run."""


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_a_completion_is_data_whatever_its_name(
    nb: Nb, shell: str, quote: str, subtests: pytest.Subtests
) -> None:
    if shell == "zsh file":
        pytest.skip("the script is that of `zsh`")
    replies = nb.root / "replies"
    start = "n" if quote else ""
    # The names are those of another folder: none of them is in the shell's own.
    with completing(nb, shell, "nb() { cat replies; }") as completed:
        for name in HOSTILE:
            replies.write_text(f"{start}{name}\n")
            with subtests.test(name):
                assert completed(f"nb cells {quote}{start}") == ["nb", "cells", start + name]
        if shell == "bash" and not quote:
            replies.write_text("~/my;touch PWNED;.ipynb\n")
            path = Path(nb.environment["HOME"], "my;touch PWNED;.ipynb")
            assert completed("nb cells ~/my") == ["nb", "cells", str(path)]
        replies.write_text("shutdown\n")
        (nb.root / "shutdown").mkdir()
        assert completed("nb shut") == ["nb", "shutdown"]
    assert not list(nb.root.rglob("PWNED"))


def test_a_name_that_no_shell_can_show_is_not_offered(nb: Nb) -> None:
    nb.notebook("a\tb.ipynb")
    nb.notebook("a\x1bb.ipynb")
    nb.notebook("a\u202eb.ipynb")
    nb.notebook("a\u00a0b.ipynb")
    (nb.root / os.fsdecode(b"a\xff.ipynb")).touch()
    assert nb("complete", "--", "cells", "a").out == "a\u00a0b.ipynb\n"


def test_completions_are_the_values_that_the_argument_takes(nb: Nb) -> None:
    nb.notebook("a.ipynb", "x = 1")
    (nb.root / "text.txt").write_text("")

    def offered(*words: str) -> list[str]:
        return nb("complete", "--", *words).out.splitlines()

    assert offered("read", "--view", "") == ["editable", "reading", "raw"]
    assert "python3" in offered("open", "a.ipynb", "--kernel=py")[0]
    assert offered("open", "") == ["a.ipynb"]
    assert offered("write", "te") == ["text.txt"]
    assert offered("completion", "") == ["bash", "fish", "zsh"]
    assert offered("help", "err") == ["errors"]
    assert offered("nonsense", "") == offered("status", "") == []
    assert len(offered("cell", "-n", "a.ipynb", "")) == 1
    assert not (nb.root / ".nb").exists()
