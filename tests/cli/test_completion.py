"""Completion in a real bash: what Tab offers after a beginning of a command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import DEADLINE, Nb

TAB = """
eval "$(nb completion bash)"
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
read -ra COMP_WORDS <<< "$1"
[[ $1 == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_python_argcomplete nb
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""What readline does when a person presses Tab after ``$1``."""


def offered(nb: Nb, line: str) -> set[str]:
    folder = Path(sys.executable).parent
    ended = subprocess.run(
        ["bash", "-c", TAB, "bash", line],
        cwd=nb.root,
        env={**nb.environment, "PATH": f"{folder}:{nb.environment['PATH']}"},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    assert ended.stderr == ""
    return set(ended.stdout.split())


@pytest.mark.proves("nb:commands")
def test_bash_completes_commands_options_values_notebooks_and_cells(nb: Nb) -> None:
    path = nb.notebook("a.ipynb", "x = 1", "y = 2")
    (nb.root / "data.csv").write_text("1")
    ids = [cell.id for cell in nb.read(path.name).cells]
    assert offered(nb, "nb ce") == {"cell", "cells"}
    assert offered(nb, "nb exec --w") == {"--wait", "--which"}
    assert offered(nb, "nb chat --mode ") == {"plan", "ask", "edit", "auto"}
    assert {"a.ipynb", "data.csv"} & offered(nb, "nb open ") == {"a.ipynb"}
    words = offered(nb, "nb exec -n a.ipynb ")
    assert all(any(each.startswith(word) for word in words) for each in ids)
    # Nothing was started for it.
    assert not (nb.root / ".nb").exists()
