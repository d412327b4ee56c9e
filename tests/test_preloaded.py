"""What is forked in tests is what a user starts."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.serverapp import ServerApp

from tests import preloaded

NB = [sys.executable, "-m", "tk_ai_extension.cli", "--version"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks")


@contextmanager
def forks() -> Generator[list[int]]:
    """The ids of the processes that are forked meanwhile."""
    forked: list[int] = []
    before = preloaded.Preloaded.fork

    def fork(self: preloaded.Preloaded, *arguments: Any) -> int:
        forked.append(before(self, *arguments))
        return forked[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preloaded.Preloaded, "fork", fork)
        yield forked


def run(folder: Path, **environment: str) -> tuple[bool, str]:
    """Run a command; whether it was forked, and what it printed."""
    with forks() as forked:
        ended = subprocess.run(
            NB,
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
    return bool(forked), ended.stdout


def test_a_command_is_forked_and_prints_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    was_forked, printed = run(tmp_path)
    assert was_forked
    monkeypatch.setattr(preloaded, "FORKED", {})
    assert run(tmp_path) == (False, printed)


def test_another_search_path_is_another_interpreter(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('customized')\n", encoding="utf-8")
    was_forked, printed = run(tmp_path, PYTHONPATH=str(tmp_path))
    assert not was_forked
    assert printed.startswith("customized\n")


async def test_a_kernel_of_a_server_in_this_process_is_forked(jp_serverapp: ServerApp) -> None:
    with forks() as forked:
        await jp_serverapp.kernel_manager.start_kernel()
    assert len(forked) == 1
