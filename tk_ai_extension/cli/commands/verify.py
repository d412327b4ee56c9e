"""`nb verify`: run notebooks in fresh kernels and compare their outputs with the stored ones."""

from __future__ import annotations

import argparse
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tk_ai_extension.cli import fresh_runs, wire
from tk_ai_extension.cli.commands.answers import Verified
from tk_ai_extension.cli.commands.command import Command
from tk_ai_extension.cli.no_kernels import ServerRequired
from tk_ai_extension.cli.parsing import WrongCall
from tk_ai_extension.cli.session import Session, as_json
from tk_ai_extension.cli.terminal import UnreadableFile, harmless
from tk_ai_extension.model.cells import Cell
from tk_ai_extension.model.errors import (
    InvalidArguments,
    OpenElsewhere,
    ToolError,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.operations import SetOutputs
from tk_ai_extension.model.ranges import format_ranges
from tk_ai_extension.notebooks.atomic_file import save_error
from tk_ai_extension.tools.verification import verify_notebook
from tk_ai_extension.verification.comparing import is_error
from tk_ai_extension.verification.hidden_state import hidden_state
from tk_ai_extension.verification.report import NotebookReport, junit_xml
from tk_ai_extension.verification.rules import DEFAULT
from tk_ai_extension.verification.verifying import Verification
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.files import Walk
from tk_ai_extension.workspace.verifications import VerificationRun


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="notebooks, and folders of notebooks (default: the current notebook)",
    )
    parser.add_argument(
        "--kernel", metavar="NAME", help="kernelspec, instead of the notebooks' own"
    )
    parser.add_argument("--timeout", type=_positive, metavar="SECONDS", help="for each cell")
    parser.add_argument(
        "--sanitize-with",
        action="append",
        default=[],
        metavar="FILE",
        help="replace text before comparing: a file with lines `regex:` and `replace:`, as nbval has it",
    )
    parser.add_argument(
        "--ignore-times",
        action="store_true",
        help="ignore dates, times of day and durations",
    )
    parser.add_argument(
        "--lax",
        action="store_true",
        help="compare only cells with the tag nbval-check-output; run all",
    )
    parser.add_argument(
        "--tolerance",
        type=_share,
        default=DEFAULT.relative,
        metavar="NUMBER",
        help=f"relative tolerance of numbers in tables and JSON (default: {DEFAULT.relative})",
    )
    parser.add_argument(
        "--image-tolerance",
        type=_share,
        default=DEFAULT.image,
        metavar="SHARE",
        help=f"share of an image's pixels that may differ (default: {DEFAULT.image})",
    )
    parser.add_argument("--strict", action="store_true", help="hidden state is a failure, too")
    parser.add_argument("--update", action="store_true", help="store the new outputs that differ")
    parser.add_argument("--junitxml", metavar="FILE", help="write a report for a build server")


def _positive(text: str) -> float:
    return _number(text, above=0)


def _share(text: str) -> float:
    return _number(text, above=-1e-300)


def _number(text: str, *, above: float) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not above < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed here")
    return value


async def _run(session: Session, args: argparse.Namespace) -> int:
    options: dict[str, Any] = {
        "sanitizers": [await _read(session, file) for file in args.sanitize_with],
        "ignore_times": args.ignore_times,
        "lax": args.lax,
        "tolerance": args.tolerance,
        "image_tolerance": args.image_tolerance,
        "kernel_name": args.kernel,
        "timeout": args.timeout,
    }
    paths = await _notebooks(session, args.paths)
    reports: list[NotebookReport] = []
    shown = 0
    is_ended_early = False
    for path in paths:
        try:
            with _tool_errors(path):
                report, is_ended_early = await _verify(session, path, options, update=args.update)
        except ToolError as error:
            if await _ends_command(session, paths, error, reports):
                raise
            report = NotebookReport(path, error=fresh_runs.as_line(error))
        reports.append(report)
        if session.has_effect:  # Until then the command may be redirected, and show them there.
            shown = _show(session, reports, shown)
        if is_ended_early:
            break
    _show(session, reports, shown)
    if args.junitxml is not None:
        await _write(session, args.junitxml, junit_xml(reports))
    is_verified = _show_all(session, reports, len(paths), strict=args.strict)
    if is_ended_early:
        return wire.INTERRUPTED
    return wire.OK if is_verified else wire.FAILED


async def _ends_command(
    session: Session, paths: list[str], error: ToolError, reports: list[NotebookReport]
) -> bool:
    """Whether an error ends the command, instead of being the report of one notebook.

    Of several notebooks, wrong options do so before the first report, and a redirect before the first run.
    """
    if len(paths) == 1:
        return True
    if session.has_effect:
        return False
    if isinstance(error, OpenElsewhere):
        return await _belong_to(session, paths, error.details.get("server"))
    return isinstance(error, ServerRequired) or (type(error) is InvalidArguments and not reports)


async def _belong_to(session: Session, paths: list[str], url: str | None) -> bool:
    """Whether all notebooks belong to the server of this address."""
    for path in paths:
        server = await session.context.owner_of(path)
        if server is None or server.url != url:
            return False
    return True


@contextmanager
def _tool_errors(path: str) -> Generator[None]:
    """Raise errors of the file system as those of a notebook."""
    try:
        yield
    except OSError as error:
        raise save_error(error, path) from error


def _show(session: Session, reports: list[NotebookReport], shown: int) -> int:
    """Show the reports that are not shown yet, unless as JSON at the end; return the number of all."""
    for report in () if session.options.json else reports[shown:]:
        session.screen.print_text(harmless("\n".join(report.as_lines())))
    return len(reports)


def _show_all(session: Session, reports: list[NotebookReport], total: int, *, strict: bool) -> bool:
    """Show the result of all notebooks; return whether all of them are verified."""
    good = [each for each in reports if each.status == "same" and not (strict and each.findings)]
    is_verified = len(good) == total
    if session.options.json:
        fields = [report.as_dict() for report in reports]
        answer = Verified.of({"verified": is_verified, "notebooks": fields})
        session.terminal.out(as_json(answer.structured()))
    elif total > 1:
        session.screen.print_text(f"{len(good)} of {total} notebooks are verified.")
    return is_verified


async def _read(session: Session, file: str) -> str:
    try:
        return await session.terminal.read_file(file)
    except UnreadableFile as problem:
        raise WrongCall(f"nb verify: {file}: {problem}\n") from None


async def _write(session: Session, file: str, text: str) -> None:
    try:
        await session.terminal.write_file(file, text)
    except UnreadableFile as problem:
        raise WrongCall(f"nb verify: {file}: {problem}\n") from None


async def _notebooks(session: Session, given: list[str]) -> list[str]:
    """Return the paths of the notebooks that the arguments name, each once.

    Raises:
        InvalidArguments: None is named, and there is no current one.
        FileMissing: A folder does not exist.
        InvalidArguments: The folders have no notebook.
    """
    workspace = session.context.workspace
    if not given:
        if workspace.notebooks.current(session.caller) is None:
            raise InvalidArguments(
                "No notebook is named, and none is open.",
                hint="Name notebooks or folders: `nb verify .` verifies all notebooks here.",
            )
        given = [workspace.path(session.caller, None)]
    found: dict[str, None] = {}
    for each in given:
        named = session.located({"notebook": each})["notebook"]
        if each.endswith(".ipynb") or workspace.notebooks.resolve(session.caller, named):
            found[workspace.path(session.caller, named)] = None
            continue
        walk = Walk(workspace.files, session.folder(each), recursive=True)
        found |= {entry.path: None async for entry in walk if entry.kind == "notebook"}
        for left_out in walk.left_out:
            session.terminal.err(f"Note: {harmless(left_out)}\n")
    if not found:
        raise InvalidArguments("There is no notebook in these folders.")
    return list(found)


async def _verify(
    session: Session, path: str, options: dict[str, Any], *, update: bool
) -> tuple[NotebookReport, bool]:
    """Verify a notebook; return its report, and whether the person ended it early."""
    snapshot = await (await session.context.workspace.store.open(path)).read()
    if not Verification(snapshot, {}, DEFAULT).cells:
        return NotebookReport(path, findings=hidden_state(snapshot)), False
    run, _ = await fresh_runs.start(session, verify_notebook, notebook=path, **options)
    report = run.report
    assert isinstance(report, VerificationRun)
    total = len(run.steps)

    async def show() -> None:
        number = run.steps.index(run.current) + 1
        seconds = report.verification.seconds
        await session.screen.progress(f"{path}: cell {number} of {total}, {seconds:.0f} s")

    is_ended_early = await fresh_runs.follow(session, run, show)
    finished = report.finished
    if finished is None:
        error = run.error or ToolError("The verification ended without a report.")
        if not is_ended_early:
            raise error
        return NotebookReport(path, error=fresh_runs.as_line(error)), True
    if update and not is_ended_early:
        finished = await _updated(session, report, finished)
    return finished, is_ended_early


async def _updated(
    session: Session, report: VerificationRun, finished: NotebookReport
) -> NotebookReport:
    """Store the new outputs; return the report, with the error if some of them are not stored."""
    path = report.verification.snapshot.path
    try:
        with _tool_errors(path):
            error = await _update(session, report)
    except ToolError as problem:
        error = f"not updated: {fresh_runs.as_line(problem)}"
    return replace(finished, error=error)


async def _update(session: Session, report: VerificationRun) -> str:
    """Store the outputs that differ, and the execution counts of this run.

    Cells that failed, and those whose outputs are not compared, keep their outputs. So do those whose
    outputs were made by code that is no longer the notebook's: from the first code cell that was edited,
    inserted, deleted or moved, that one and all below.

    Returns:
        Which cells keep their outputs because the code changed; empty if none.
    """
    verification, finished = report.verification, report.finished
    assert finished is not None
    workspace = session.context.workspace
    document = await workspace.store.open(verification.snapshot.path)
    now = (await document.read()).code_hashes
    before = {cell.key: (code, cell) for code, cell in verification.snapshot.code_hashes.items()}
    operations: list[SetOutputs] = []
    left: list[int] = []
    for cell in finished.cells:
        execution = verification.ended.get(cell.cell)
        if execution is None or cell.status == "failed":
            continue
        code, ran = before[cell.cell]
        is_new = cell.status == "differs" or not finished.has_outputs
        count, made_by = execution.execution_count, verification.code_of(ran)
        if made_by not in now:
            if is_new or count != ran.execution_count:
                left.append(cell.index + 1)
            continue
        present = now[code]
        if _state(present) != _state(ran):
            session.terminal.err(f"Cell {cell.index + 1} changed meanwhile: not updated.\n")
            continue
        stored = await document.outputs(present.key)
        outputs = _counted(execution.outputs if is_new else stored, count)
        if outputs != stored or count != present.execution_count:
            replaces = stored, present.execution_count
            operations.append(
                SetOutputs(present.key, outputs, count, present.hash, replaces, made_by)
            )
    await editing.apply(workspace, session.caller, document, operations, tool="nb verify")
    if not left:
        return ""
    cells = f"cell{'s' if len(left) > 1 else ''} {format_ranges(left)}"
    return f"not updated: {cells}: the code there or above changed meanwhile"


def _state(cell: Cell) -> tuple[Any, ...]:
    """Return what changes when somebody runs a cell."""
    return cell.execution_count, cell.outputs


def _counted(outputs: tuple[Json, ...], count: int | None) -> tuple[Json, ...]:
    """Return outputs whose results have this execution count."""
    return tuple(
        {**output, "execution_count": count}
        if "execution_count" in output and not is_error(output)
        else output
        for output in outputs
    )


COMMANDS = (
    Command(
        "verify",
        "Run notebooks in fresh kernels and compare their outputs with the stored ones.",
        _configure,
        _run,
        (
            "nb verify analysis.ipynb",
            "nb verify . --junitxml report.xml   # all notebooks of the folder, for a build server",
            "nb verify docs --sanitize-with nbval.cfg --ignore-times",
            "nb verify analysis.ipynb --update   # store the outputs that differ",
        ),
        group="Run",
        answers=(Verified,),
    ),
)
