"""`nb cells`, `nb cell` and `nb read` of a file where no server runs, so that reading starts none."""

from __future__ import annotations

import os

from tk_ai_extension.cli.parsing import add_notebook, command_parser
from tk_ai_extension.cli.servers import ToolFailed, server_of
from tk_ai_extension.cli.session import OK, REFUSED, Session, write, write_err

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from typing import Any

    from tk_ai_extension.model.cells import Cell, Snapshot
    from tk_ai_extension.notebooks.reading import StoredNotebook

WIDTH = 70
"""Maximum characters of a source's line in the list of cells."""
BUDGET = 8_000
"""Maximum characters of a cell's outputs."""


def read_offline(session: Session, name: str, words: Sequence[str]) -> int | None:
    """Run a command that reads a file; return the exit status.

    None where a server has the notebook, or the command has options that need one.
    """
    args = _parsed(name, words)
    path = None if args is None else session.path(args.notebook)
    if args is None or path is None or not os.path.isfile(path):
        return None
    try:
        if server_of(session.project, path, changes=False) is not None:
            return None
    except ToolFailed as error:
        # A server that hangs may have changes that are not in the file.
        write_err(f"Note: {error} This is the file.")
    return _show(session, name, path, args)


def _parsed(name: str, words: Sequence[str]) -> Namespace | None:
    parser = command_parser(name, "", ())
    if name == "cell":
        parser.add_argument("cell")
    add_notebook(parser, by_place=name != "cell")
    args, others = parser.parse_known_args(words)
    return None if others else args


def _show(session: Session, name: str, path: str, args: Namespace) -> int:
    from tk_ai_extension.model import celltext
    from tk_ai_extension.model.errors import ToolError
    from tk_ai_extension.notebooks.reading import read_notebook

    shown = os.path.relpath(path, session.project.root)
    try:
        with open(path, "rb") as file:
            stored = read_notebook(file.read(), shown)
        snapshot = stored.snapshot(shown)
        if name == "cell":
            cell, _ = snapshot.find(args.cell)
            fields, text = _cell(stored, snapshot, cell)
        elif name == "read":
            text = celltext.render(snapshot)
            fields = {"revision": snapshot.revision, "text": text}
        else:
            lines = [_line(snapshot, each) for each in snapshot.cells]
            text = "\n".join([f"{shown}: {len(lines)} cells", *lines])
            fields = {
                "total_cells": len(lines),
                "cells": [_cell(stored, snapshot, each)[0] for each in snapshot.cells],
            }
    except ToolError as error:
        return session.refuse(error.as_dict())
    except OSError as error:
        write_err(f"nb: {path}: {error.strerror}.")
        return REFUSED
    if session.as_json:
        session.print_json({"notebook": shown, **fields})
    else:
        write(text)
    return OK


def _line(snapshot: Snapshot, cell: Cell) -> str:
    first = next((line for line in cell.source.splitlines() if line.strip()), "")
    cut = first if len(first) <= WIDTH else f"{first[: WIDTH - 1]}…"
    count = f" [{cell.execution_count}]" if cell.execution_count is not None else ""
    return f"{cell.index} @{snapshot.short_keys[cell.key]} {cell.type}{count} {cut}".rstrip()


def _cell(stored: StoredNotebook, snapshot: Snapshot, cell: Cell) -> tuple[dict[str, Any], str]:
    from tk_ai_extension.model.digest import digest, shorten

    outputs = shorten(digest(stored.content(cell.index).outputs).text, BUDGET).text
    address = snapshot.address(cell)
    fields = {"cell": cell.key, "index": cell.index, "address": address, "cell_type": cell.type}
    text = f"# %% [{cell.type}] @{address}\n{cell.source}"
    return {**fields, "source": cell.source, "output": outputs}, (
        f"{text}\n--- output\n{outputs}" if outputs else text
    )
