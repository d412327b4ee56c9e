"""`nb cells`, `nb cell` and `nb read` of a file where no server runs, so that reading starts none."""

from __future__ import annotations

import os

from tk_ai_extension.cli.command_context import CommandContext
from tk_ai_extension.cli.parsing import add_notebook, command_parser
from tk_ai_extension.cli.servers import server_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from typing import Any

    from tk_ai_extension.model.cells import Cell, Snapshot
    from tk_ai_extension.notebooks.parsed_notebooks import StoredNotebook

WIDTH = 70
"""Maximum characters of a source's line in the list of cells."""
BUDGET = 8_000
"""Maximum characters of a cell's outputs."""


def read_offline(context: CommandContext, name: str, words: Sequence[str]) -> int | None:
    """Run a command that reads a file; return the exit status.

    None where a server has the notebook, or the command has options that need one.
    """
    parser = command_parser(name, "", ())
    if name == "cell":
        parser.add_argument("cell")
    add_notebook(parser, by_place=name != "cell")
    args, others = parser.parse_known_args(words)
    path = None if others else context.path(args.notebook)
    if path is None or not os.path.isfile(path):
        return None
    if server_of(context.project, path, changes=False) is not None:
        return None
    return _show(context, name, path, args)


def stored_notebook(path: str, shown: str) -> tuple[StoredNotebook, Snapshot]:
    """Return a notebook and its snapshot, read from its file.

    Raises:
        ToolError: the file is not a notebook.
        OSError: the file cannot be read.
    """
    from tk_ai_extension.notebooks.parsed_notebooks import read_notebook

    with open(path, "rb") as file:
        stored = read_notebook(file.read(), shown)
    return stored, stored.snapshot(shown)


def _show(context: CommandContext, name: str, path: str, args: Namespace) -> int:
    from tk_ai_extension.model.cell_marked_text import render
    from tk_ai_extension.model.cells import counted
    from tk_ai_extension.model.errors import ToolError

    shown = os.path.relpath(path, context.project.root)
    try:
        stored, snapshot = stored_notebook(path, shown)
        if name == "cell":
            fields, text = _cell(stored, snapshot, snapshot.find(args.cell)[0])
        elif name == "read":
            text = render(snapshot)
            fields = {"revision": snapshot.revision, "text": text}
        else:
            lines = [_line(snapshot, each) for each in snapshot.cells]
            text = "\n".join([f"{shown}: {counted(len(lines))}", *lines])
            cells = [_cell(stored, snapshot, each)[0] for each in snapshot.cells]
            fields = {"total_cells": len(lines), "cells": cells}
    except ToolError as error:
        return context.refuse(error.as_dict())
    return context.show(text, {"notebook": shown, **fields})


def _line(snapshot: Snapshot, cell: Cell) -> str:
    from tk_ai_extension.model.output_text import cut

    name = f"{snapshot.index(cell)} @{snapshot.short_keys[cell.key]} {cell.type}{cell.prompt}"
    return f"{name} {cut(cell.first_line, WIDTH)}".rstrip()


def _cell(stored: StoredNotebook, snapshot: Snapshot, cell: Cell) -> tuple[dict[str, Any], str]:
    from tk_ai_extension.model.output_text import digest, shorten

    index = snapshot.index(cell)
    outputs = shorten(digest(stored.content(index).outputs).text, BUDGET).text
    address = snapshot.address(cell)
    text = f"# %% [{cell.type}] @{address}\n{cell.source}"
    if outputs:
        text += f"\n--- output\n{outputs}"
    fields = {"cell": cell.key, "index": index, "address": address, "cell_type": cell.type}
    return {**fields, "source": cell.source, "output": outputs}, text
