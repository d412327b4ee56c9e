"""Completion in a real bash: what Tab offers after a beginning of a command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import DEADLINE, Nb

TAB = """
eval "$(nb completion bash)"
for COMP_LINE; do
  COMP_POINT=${#COMP_LINE} COMP_TYPE=9
  read -ra COMP_WORDS <<< "$COMP_LINE"
  [[ $COMP_LINE == *" " ]] && COMP_WORDS+=("")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  COMPREPLY=()
  _python_argcomplete nb
  echo "${COMPREPLY[@]}"
done
"""
"""What readline does when a person presses Tab after each argument."""


def offered(nb: Nb, *lines: str) -> list[set[str]]:
    folder = Path(sys.executable).parent
    ended = subprocess.run(
        ["bash", "-c", TAB, "bash", *lines],
        cwd=nb.root,
        env={**nb.environment, "PATH": f"{folder}:{nb.environment['PATH']}"},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    assert ended.stderr == ""
    return [set(words.split()) for words in ended.stdout.splitlines()]


@pytest.mark.proves("nb:commands")
def test_bash_completes_commands_options_values_notebooks_and_cells(nb: Nb) -> None:
    path = nb.notebook("a.ipynb", "x = 1", "y = 2")
    (nb.root / "data.csv").write_text("1")
    ids = [cell.id for cell in nb.read(path.name).cells]
    commands, options, modes, notebooks, cells = offered(
        nb, "nb ce", "nb exec --w", "nb chat --mode ", "nb open ", "nb exec -n a.ipynb "
    )
    assert commands == {"cell", "cells"}
    assert options == {"--wait", "--which"}
    assert modes == {"plan", "ask", "edit", "auto"}
    assert {"a.ipynb", "data.csv"} & notebooks == {"a.ipynb"}
    assert all(any(each.startswith(word) for word in cells) for each in ids)
    # Nothing was started for it.
    assert not (nb.root / ".nb").exists()
