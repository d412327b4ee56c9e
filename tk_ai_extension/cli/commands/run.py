"""`nb run`: code in the notebook's kernel, or a whole notebook in a kernel of its own."""

from __future__ import annotations

import argparse
import os
import re
from typing import Any

from tk_ai_extension.cli import fresh_runs, wire
from tk_ai_extension.cli.commands.answers import NotebookRan
from tk_ai_extension.cli.commands.command import Command, given
from tk_ai_extension.cli.parsing import WrongCall, add_tool_arguments
from tk_ai_extension.cli.session import Session, as_json
from tk_ai_extension.cli.terminal import UnreadableFile, harmless
from tk_ai_extension.model.digest import short_traceback
from tk_ai_extension.tools.default.execution import execute_ipython
from tk_ai_extension.tools.execution_results import ExecutionResult
from tk_ai_extension.tools.notebook_runs import run_notebook
from tk_ai_extension.verification.comparing import error_line
from tk_ai_extension.workspace.runs import Run, Step

_PATH = re.compile(r"[^\s!%?()=;'\"]+\.ipynb")
"""Matches an argument that names a notebook, even if there is none: it is no code that anybody runs."""

_OF_FILES = ("output", "parameter", "parameters_file", "kernel", "allow_errors")
"""Options for whole notebooks."""
_OF_CODE = ("notebook", "wait")
"""Options for code."""


def _configure(parser: argparse.ArgumentParser) -> None:
    add_tool_arguments(parser, execute_ipython, ("code",))
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way
        if action.dest == "code":
            action.metavar = "CODE|NOTEBOOK"
            action.help = (
                "code for the notebook's kernel; or a notebook, to run all of it in a new one"
            )
    whole = parser.add_argument_group("for a whole notebook")
    whole.add_argument("--output", metavar="FILE", help="write the result there, not in place")
    whole.add_argument(
        "-p",
        "--parameter",
        action="append",
        metavar="NAME=VALUE",
        help="set a variable, below the cell with the tag parameters (needs --output)",
    )
    whole.add_argument(
        "-f",
        "--parameters-file",
        action="append",
        metavar="FILE",
        help="parameters from a YAML file; those of -p take precedence",
    )
    whole.add_argument("--kernel", metavar="NAME", help="kernelspec, instead of the notebook's")
    whole.add_argument(
        "--allow-errors",
        action="store_true",
        default=None,
        help="run all cells, whatever fails",
    )


async def _run(session: Session, args: argparse.Namespace) -> int:
    if _is_notebook(session, args.code):
        _refuse(args, _OF_CODE, "a whole notebook")
        return await _run_notebook(session, args)
    _refuse(args, _OF_FILES, "code")
    for name in _OF_FILES:
        delattr(args, name)
    return session.finish(await session.run("execute_ipython", **await given(session, args)))


def _is_notebook(session: Session, word: str) -> bool:
    if "\n" in word or not word.endswith(".ipynb"):
        return False
    there = os.path.join(session.terminal.info.cwd, os.path.expanduser(word))
    return os.path.isfile(there) or _PATH.fullmatch(word) is not None


def _refuse(args: argparse.Namespace, names: tuple[str, ...], what: str) -> None:
    """Raise WrongCall for options that do not apply; nought and an empty text are given, too."""
    for name in names:
        if getattr(args, name, None) is not None:
            raise WrongCall(f"nb run: --{name.replace('_', '-')} is not for {what}.\n")


async def _run_notebook(session: Session, args: argparse.Namespace) -> int:
    output = None
    if args.output is not None:
        output = session.located({"notebook": args.output})["notebook"]
        workspace = session.context.workspace
        await session.context.check_owner(workspace.contain(output), "WRITE")
    run, started = await fresh_runs.start(
        session,
        run_notebook,
        notebook=session.located({"notebook": args.code})["notebook"],
        output=output,
        parameters=_parameters(args),
        parameter_files=await _parameter_files(session, args),
        kernel_name=args.kernel,
        allow_errors=bool(args.allow_errors),
        timeout=getattr(args, "timeout", None),
    )
    for notice in started.notices:
        session.terminal.err(f"Note: {harmless(notice)}\n")
    progress = _Progress(session, run)
    is_ended_early = await fresh_runs.follow(session, run, progress.show)
    failed = [step for step in run.steps if step.has_failed]
    if session.options.json:
        answer = NotebookRan.of(_fields(session, run, progress.seconds))
        session.terminal.out(as_json(answer.structured()))
    else:
        for step in failed:
            session.screen.print_text(harmless(_failure(step)))
        session.screen.print_text(harmless(progress.summary()))
    if is_ended_early:
        return wire.INTERRUPTED
    return wire.FAILED if failed or run.stopped else wire.OK


async def _parameter_files(session: Session, args: argparse.Namespace) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in args.parameters_file or ():
        try:
            found[file] = await session.terminal.read_file(file)
        except UnreadableFile as problem:
            raise WrongCall(f"nb run: {file}: {problem}\n") from None
    return found


def _parameters(args: argparse.Namespace) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in args.parameter or ():
        name, equals, value = word.partition("=")
        if not equals:
            raise WrongCall(f"nb run: -p {word}: write it as NAME=VALUE.\n")
        found[name.strip()] = value
    return found


class _Progress:
    """Shows a line for each cell: on a terminal the current one, in a pipe those that have ended."""

    def __init__(self, session: Session, run: Run) -> None:
        self._session = session
        self._run = run
        self._shown = 0

    @property
    def seconds(self) -> float:
        """Seconds that cells have run."""
        executions = (step.execution for step in self._run.steps)
        return sum(each.duration for each in executions if each is not None)

    async def show(self) -> None:
        """Show what has ended since, and what runs."""
        run, session = self._run, self._session
        total = len(run.steps)
        while self._shown < total and run.steps[self._shown].status not in ("queued", "running"):
            step = run.steps[self._shown]
            self._shown += 1
            if not session.screen.live and not session.options.json and step.execution is not None:
                line = f"{_name(step)} ({self._shown} of {total}): {step.status}"
                session.terminal.err(f"{line}, {step.execution.duration:.2f} s\n")
        if not run.done:
            number = min(self._shown + 1, total)
            await session.screen.progress(f"cell {number} of {total}, {self.seconds:.0f} s")

    def summary(self) -> str:
        """Return one line about the whole run."""
        run, session = self._run, self._session
        ran = sum(step.execution is not None for step in run.steps)
        kept = "" if ran == len(run.steps) else "; the others were not run"
        place = session.shown(run.path or "")
        warnings = [step.warning for step in run.steps if step.warning]
        saved = f"; {warnings[0]}" if warnings else ""
        return f"{place}: {ran} of {len(run.steps)} cells ran, {self.seconds:.1f} s{kept}{saved}"


def _name(step: Step) -> str:
    return f"Cell {(step.index or 0) + 1} @{step.cell}"


def _failure(step: Step) -> str:
    """Return the error of a cell with its traceback."""
    execution = step.execution
    error = None if execution is None else execution.error
    if error is None or step.status != "error":
        return f"{_name(step)} {step.status}: {execution.message if execution else ''}"
    return f"{_name(step)} failed: {error_line(error)}\n{short_traceback(error)}"


def _fields(session: Session, run: Run, seconds: float) -> dict[str, Any]:
    cells: list[dict[str, Any]] = []
    for step in run.steps:
        error = None if step.execution is None else step.execution.error
        cell: dict[str, Any] = {"cell": step.cell, "index": step.index, "status": step.status}
        if step.execution is not None:
            cell["seconds"] = round(step.execution.duration, 3)
        if error is not None:
            cell |= {"error": error_line(error), "traceback": short_traceback(error)}
        cells.append(cell)
    return {
        "notebook": session.shown(run.path or ""),
        "status": run.outcome,
        "seconds": round(seconds, 3),
        "cells": cells,
    }


COMMANDS = (
    Command(
        "run",
        "Run code in the notebook's kernel; or a whole notebook from the top, in a kernel of its own.",
        _configure,
        _run,
        (
            "nb run 'df.shape'                   # the notebook does not change",
            "nb run - < check.py",
            "nb run report.ipynb                 # a whole notebook in a new kernel, in place",
            "nb run report.ipynb --output may.ipynb -p month=5 -p region=north",
        ),
        group="Run",
        answers=(ExecutionResult, NotebookRan),
    ),
)
