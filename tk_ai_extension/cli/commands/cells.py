"""`nb exec` and `nb edit`: run cells, and edit them."""

from __future__ import annotations

import argparse
import re

from tk_ai_extension.cli import wire
from tk_ai_extension.cli.commands.command import Command, given
from tk_ai_extension.cli.parsing import WrongCall, add_notebook
from tk_ai_extension.cli.session import Session
from tk_ai_extension.tools.default.reading import MAX_BUDGET
from tk_ai_extension.tools.execution_results import ExecutionResult
from tk_ai_extension.tools.plans import CellsChanged

_RANGES = re.compile(r".*,.*|-?\d+(?:-|\.\.|:)(?:-?\d+)?|(?:\.\.|:)-?\d+")
"""Matches a selection of several cells, such as ``0-3,7``, ``12-`` or ``-3..``; ids may contain dashes."""


def _configure_exec(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cell", nargs="?", help="id, index, or ranges such as 0-3,7,@318a,-1")
    parser.add_argument("--all", action="store_true", help="all code cells, in order")
    parser.add_argument(
        "--stale", action="store_true", help="the cells whose code or inputs changed"
    )
    parser.add_argument("--restart", action="store_true", help="restart the kernel first")
    parser.add_argument(
        "--keep-going", action="store_true", help="continue after a cell that failed"
    )
    add_notebook(parser, by_place=False)
    parser.add_argument("--wait", type=float, help="seconds to wait (default: until it ends)")
    parser.add_argument("--timeout", type=float, help="seconds until the code is interrupted")


async def _exec(session: Session, args: argparse.Namespace) -> int:
    chosen = sum((args.cell is not None, args.all, args.stale))
    if chosen != 1:
        raise WrongCall("nb exec: name a cell, or --all, or --stale\n")
    arguments = session.located(
        {
            name: getattr(args, name)
            for name in ("notebook", "wait", "timeout")
            if getattr(args, name) is not None
        }
    )
    cell: str | None = args.cell
    if not (cell is None or args.restart or args.keep_going or _RANGES.fullmatch(cell)):
        return session.finish(await session.run("execute_cell", cell=cell, **arguments))
    which = {"which": "all" if args.all else "stale"} if cell is None else {"cells": cell}
    result = await session.run(
        "execute_cells",
        **which,
        restart=args.restart,
        stop_on_error=not args.keep_going,
        **arguments,
    )
    return session.finish(result)


def _configure_edit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cell", nargs="?", help="id or index; with --editor, default: all cells")
    parser.add_argument("source", nargs="?", help="the new source, or - for standard input")
    parser.add_argument("--editor", action="store_true", help="edit it in $EDITOR")
    parser.add_argument("--cell-type", choices=("code", "markdown", "raw"), help="change its type")
    parser.add_argument("--keep-outputs", action="store_true", help="keep the outputs")
    add_notebook(parser, by_place=False)


async def _edit(session: Session, args: argparse.Namespace) -> int:
    where = session.located({} if args.notebook is None else {"notebook": args.notebook})
    if args.editor:
        if args.source is not None:
            raise WrongCall("nb edit: give either a source or --editor\n")
        if args.cell is None:
            if args.keep_outputs or args.cell_type is not None:
                raise WrongCall("nb edit: --keep-outputs and --cell-type need a cell\n")
            return await _edit_notebook(session, where)
        return await _edit_cell(session, args.cell, where, args)
    if args.cell is None or args.source is None:
        raise WrongCall("nb edit: name a cell and give its new source, or --editor\n")
    given_source = (await given(session, argparse.Namespace(source=args.source)))["source"]
    return await _overwrite(session, args, cell=args.cell, source=given_source, **where)


async def _overwrite(session: Session, args: argparse.Namespace, **arguments: str) -> int:
    """Replace a cell's source, with the options of `nb edit`."""
    changes = {} if args.cell_type is None else {"cell_type": args.cell_type}
    return session.finish(
        await session.call("overwrite_cell", keep_outputs=args.keep_outputs, **changes, **arguments)
    )


async def _edit_notebook(session: Session, where: dict[str, str]) -> int:
    read = await session.call("read_notebook", view="editable", budget=MAX_BUDGET, **where)
    before: str = session.for_display(read).structured()["text"]
    edited = await session.terminal.edit(before, "notebook.py")
    if edited is None or edited == before:
        return _unchanged(session, is_cancelled=edited is None)
    # The path of the server: that of the text is for a person.
    there = read.structured()["notebook"]
    return session.finish(await session.call("write_notebook", text=edited, notebook=there))


async def _edit_cell(
    session: Session, cell: str, where: dict[str, str], args: argparse.Namespace
) -> int:
    fields = (await session.call("read_cell", cell=cell, outputs=False, **where)).structured()
    suffix = {"markdown": "md", "code": "py"}.get(fields["cell_type"], "txt")
    before = f"{fields['source']}\n"
    edited = await session.terminal.edit(before, f"cell.{suffix}")
    if edited is None or (edited == before and args.cell_type in (None, fields["cell_type"])):
        return _unchanged(session, is_cancelled=edited is None)
    return await _overwrite(
        session,
        args,
        cell=fields["address"],
        source=edited.removesuffix("\n"),
        notebook=fields["notebook"],
    )


def _unchanged(session: Session, *, is_cancelled: bool) -> int:
    session.terminal.err("Nothing was changed.\n")
    return wire.REFUSED if is_cancelled else wire.OK


COMMANDS = (
    Command(
        "exec",
        "Run cells and save their outputs in the notebook.",
        _configure_exec,
        _exec,
        (
            "nb exec 3            # the cell at index 3",
            "nb exec 318a         # the cell whose id starts with 318a",
            "nb exec 0-3,7",
            "nb exec --stale      # the cells that have to run again",
            "nb exec --all --restart --timeout 600",
        ),
        group="Run",
        answers=(ExecutionResult,),
    ),
    Command(
        "edit",
        "Replace a cell's source, or open a cell or the whole notebook in your editor.",
        _configure_edit,
        _edit,
        (
            "nb edit 3 'x = 1'",
            "nb edit 318a.9f2c - < new.py   # only if it is still that version",
            "nb edit 3 --editor",
            "nb edit --editor               # all cells, as text with markers",
        ),
        group="Change",
        answers=(CellsChanged,),
    ),
)
