"""Examples for the commands that are generated from tools."""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "add": ("nb add 'df.describe()'              # append a cell and run it", "nb add - < new.py"),
    "apply": (
        """nb apply '[{"action": "delete", "cell": 3}, {"action": "insert", "source": "x = 1"}]'""",
        "nb apply - --run < operations.json  # all or nothing, then run the changed cells",
    ),
    "cat": ("nb cat data.csv --limit 20", "nb cat train.log --grep loss"),
    "cell": ("nb cell 3", "nb cell 318a --no-outputs"),
    "cells": ("nb cells", "nb cells other.ipynb --json"),
    "clear": ("nb clear 0-3,7", "nb clear --all"),
    "create": (
        "nb create new.ipynb --kernel-name python3",
        """nb create new.ipynb --cells '[{"source": "# Prices", "cell_type": "markdown"}]'""",
    ),
    "files": ("nb files", "nb files data --pattern '*.csv'"),
    "history": ("nb history --limit 20",),
    "insert": (
        "nb insert 2 'x = 1'                 # at index 2",
        "nb insert - < new.py                # at the end",
        "nb insert 0 '# Title' --cell-type markdown",
    ),
    "interrupt": ("nb interrupt",),
    "kernel": ("nb kernel --json",),
    "kernels": ("nb kernels                          # for: nb open new.ipynb --kernel NAME",),
    "managed": ("nb managed",),
    "mv": ("nb mv 318a 0                        # make it the first cell",),
    "notebooks": ("nb notebooks --recursive",),
    "output": ("nb output 9f2c0b1d7e44 --grep Error  # the id is where the output was cut",),
    "ps": ("nb ps",),
    "replace": ("nb replace 318a 'lr = 0.1' 'lr = 0.01'",),
    "restart": ("nb restart",),
    "rm": ("nb rm 3", "nb rm 318a.9f2c                     # only if it is still that version"),
    "search": (
        "nb search 'read_csv'",
        "nb search Error --where outputs",
        "nb search 'read_csv' -n data         # all notebooks in the folder",
    ),
    "stop": ("nb stop                             # loses its variables; the notebook is kept",),
    "undo": ("nb undo", "nb undo 3"),
    "unuse": ("nb unuse --shutdown-kernel",),
    "var": ("nb var df",),
    "vars": ("nb vars 'df*'",),
}
"""Examples by command; `tests/cli/test_help.py` parses each."""
