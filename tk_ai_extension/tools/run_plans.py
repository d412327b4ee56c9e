"""Runs of cells and code: their plans, waiting for them with progress, and their new output."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, Field

from tk_ai_extension.model.cell_tags import may_fail
from tk_ai_extension.model.cells import Cell, Snapshot, counted
from tk_ai_extension.model.errors import CellNotFound, InvalidArguments, ToolError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.output_changes import OutputBuffer, stream_text, summarise
from tk_ai_extension.model.output_text import RenderedOutputs, digest, shorten
from tk_ai_extension.model.proposals import Proposal, ProposalStep, marked
from tk_ai_extension.tools.edit_plans import RESTART, EditPlan, cell_step
from tk_ai_extension.tools.registry import Image, Result, ToolContext
from tk_ai_extension.verification.report import CellReport
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.fresh_kernels import VerificationRun
from tk_ai_extension.workspace.runs import Run, RunStep

T = TypeVar("T")


MAX_IMAGES = 20
"""Maximum images of a result."""
MAX_IMAGE_DATA = 900_000
"""Maximum characters of the images of a result in base64: clients refuse messages of some megabytes."""
PIECE = 500
"""Minimum share of one cell's text, in characters, as long as that many are left."""

BRIEF = 120
"""Minimum limit of a text, in characters: the replacement of a longer text is about as long."""


@dataclass(slots=True)
class OutputBudget:
    """The remaining budget for the outputs of one result, all of its cells together.

    Attributes:
        text: Characters of text.
        data: Characters of JSON: values and status displays.
        images: The number of images.
        image_data: Characters of base64: each image may take half of the rest.
    """

    text: int
    data: int
    images: int = MAX_IMAGES
    image_data: int = MAX_IMAGE_DATA

    def share(self, cells: int) -> int:
        """Return the characters that the text of the next of these cells may have."""
        return max(self.text // max(cells, 1), min(PIECE, self.text), BRIEF)

    def fitting(self, values: Sequence[T]) -> list[T]:
        """Return the JSON values that fit, in order, and subtract them from the budget."""
        found: list[T] = []
        for value in values:
            if self.data <= 0:
                break
            size = len(json.dumps(value))
            if size <= self.data:
                self.data -= size
                found.append(value)
        return found


@dataclass(frozen=True, slots=True)
class PresentedOutputs:
    """Outputs as a result shows them.

    Attributes:
        text: The text, within the budget.
        artifact: The id of the artifact with the whole text; None if `text` is the whole.
        images: The images, scaled down.
        data: The values of ``application/json`` outputs that fit the budget.
        left_out: The number of images and values that do not fit.
        placeholders: The line numbers in an unshortened `text`, from 0, that stand for an image, a
            value of `data`, or the whole traceback.
        total_lines: The number of lines of the whole text; None if `text` is the whole.
    """

    text: str
    artifact: str | None = None
    images: tuple[Image, ...] = ()
    data: tuple[Any, ...] = ()
    placeholders: tuple[int, ...] = ()
    total_lines: int | None = None
    left_out: int = 0


SMALL = 200_000
"""Characters of outputs that are digested on the event loop; more are digested in a thread."""


async def digested(outputs: Sequence[Json]) -> RenderedOutputs:
    """Return the `digest` of outputs without blocking the event loop."""
    if summarise(outputs).size <= SMALL:
        return digest(outputs)
    return await asyncio.to_thread(digest, outputs)


async def present(
    context: ToolContext,
    outputs: Sequence[Json],
    *,
    budget: int | None = None,
    allowance: OutputBudget | None = None,
) -> PresentedOutputs:
    """Return outputs as a result shows them.

    Args:
        context: The context of the call.
        outputs: The outputs, in nbformat.
        budget: Maximum characters of the text; None for the workspace's default.
        allowance: The budget that the outputs of the result share; None if there are no others.
    """
    limit = context.workspace.limits.answer_budget if budget is None else budget
    allowance = OutputBudget(limit, limit) if allowance is None else allowance
    found = await digested(outputs)
    images, reduced = await _for_model(found.images, allowance)
    data = tuple(await asyncio.to_thread(allowance.fitting, found.data) if found.data else ())
    presented = await _with_text(context, found, limit, images, data)
    if reduced:
        presented = replace(presented, text=f"{presented.text}{await _wholes(context, reduced)}")
    allowance.text = max(allowance.text - len(presented.text), 0)
    return presented


async def _with_text(
    context: ToolContext,
    found: RenderedOutputs,
    limit: int,
    images: tuple[Image, ...],
    data: tuple[Any, ...],
) -> PresentedOutputs:
    """Return a digest with its text, of about ``limit`` characters, and an artifact with the whole."""
    # If a value is left out, the model must read it in the text.
    lines = tuple(found.placeholders) if len(data) == len(found.data) else ()
    whole = found.hidden or found.text
    counts = {
        "images": (len(found.images) - len(images), len(found.images)),
        "values of `data`": (len(found.data) - len(data), len(found.data)),
    }
    left_out = sum(missing for missing, _ in counts.values())
    note = "".join(
        f"\n[{missing} of {count} {what} are not shown]"
        for what, (missing, count) in counts.items()
        if missing
    )
    if len(found.text) <= limit and found.hidden is None:
        return PresentedOutputs(found.text + note, None, images, data, lines, left_out=left_out)
    try:
        artifact = await context.workspace.artifacts.write(context.caller.user, whole)
    except ToolError as error:
        # The code has run: return its result even though the whole output cannot be kept.
        short = shorten(found.text, limit, pointer=f"; the whole was not saved: {error.message}")
        return PresentedOutputs(
            short.text + note,
            images=images,
            data=data,
            total_lines=short.total_lines,
            left_out=left_out,
        )
    short = shorten(found.text, limit, pointer=f"; read_output {artifact.id}")
    text = short.text
    if found.hidden is not None and not short.truncated:
        text = f"{text}\n[whole traceback: read_output {artifact.id}]"
        lines = (*lines, text.count("\n"))
    lines = () if short.truncated else lines
    return PresentedOutputs(
        text + note, artifact.id, images, data, lines, whole.count("\n") + 1, left_out
    )


MAX_REPORT = 8_000
"""Maximum characters of the text of a verification."""
MAX_PROBLEMS = 50
"""Maximum cells that fail or differ of a verification."""
MAX_DIFF = 2_000
"""Maximum characters of the diff of one of these cells."""
MAX_SIDE = 1_568
"""Maximum pixels of an image's side. The model's API would scale larger images down anyway."""


async def _for_model(
    images: Sequence[tuple[str, str]], allowance: OutputBudget
) -> tuple[tuple[Image, ...], list[Image]]:
    """Return the last (MIME type, base64 data) pairs as images that fit, and those that were too large.

    Sides have at most `MAX_SIDE` pixels. Data that is not a valid image is left out. Scaling runs in a
    thread.
    """
    chosen = images[-allowance.images :] if allowance.images > 0 else ()
    shown: list[Image] = []
    reduced: list[Image] = []
    for mime, data in chosen:
        room = allowance.image_data // 2
        image = await asyncio.to_thread(_scaled, mime, data, room)
        if image is not None:
            shown.append(image)
            allowance.images -= 1
            allowance.image_data -= len(image.data)
            if len(data) > room:
                reduced.append(Image(data, mime))
    return tuple(shown), reduced


async def _wholes(context: ToolContext, reduced: Sequence[Image]) -> str:
    """Store whole images; return lines with the addresses to read them."""
    lines = ""
    for image in reduced:
        raw = await asyncio.to_thread(base64.b64decode, image.data)
        with suppress(ToolError):  # The code has run, and the notebook may have the image.
            artifact = await context.workspace.artifacts.write(
                context.caller.user, raw, mime=image.mime
            )
            lines += f"\n[{image.mime} reduced; the whole: GET /api/tk-ai/artifacts/{artifact.id}]"
    return lines


def _scaled(mime: str, data: str, room: int) -> Image | None:
    """Return an image of at most ``room`` characters; None if the data is not an image or never fits."""
    import PIL.Image  # Imported late: most results have no image.

    try:
        with PIL.Image.open(io.BytesIO(base64.b64decode(data))) as picture:
            if max(picture.size) <= MAX_SIDE and len(data) <= room:
                return Image(data, mime)
            side = min(max(picture.size), MAX_SIDE)
            while side:
                picture.thumbnail((side, side))
                buffer = io.BytesIO()
                picture.save(buffer, "PNG" if mime == "image/png" else "JPEG")
                scaled = base64.b64encode(buffer.getvalue()).decode("ascii")
                if len(scaled) <= room:
                    return Image(scaled, mime)
                side //= 2
    except Exception:  # noqa: BLE001 - of invalid data, decoders raise errors of many kinds
        return None
    return None


PROGRESS_HEARTBEAT = 10.0
"""Seconds after which progress is reported without new output."""
PROGRESS_INTERVAL = 0.5
"""Minimum seconds between two reports of new output."""


class CellRun(BaseModel):
    """The run of one cell, or of scratch code."""

    cell: str | None = None
    index: int | None = None
    status: str
    execution_count: int | None = None
    duration: float | None = None
    output: str = ""
    artifact: str | None = None
    total_lines: int | None = None
    """The number of lines of the whole output, if `output` is shortened."""
    placeholders: list[int] = Field(default_factory=list[int])
    """The line numbers in `output`, from 0, that stand for an image or a value of `data`."""
    error: str | None = None
    """The exception's name and value."""
    message: str | None = None
    data: list[Any] = Field(default_factory=list[Any])
    """The values of its ``application/json`` outputs."""
    events: list[Json] = Field(default_factory=list[Json])
    """Its newest status displays: MIME type and value."""
    left_out: int = 0
    """The number of images, values of `data` and status displays that exceed the answer's budget."""


class VerificationSummary(BaseModel):
    """The findings of a verification, or its progress."""

    status: Literal["running", "same", "runs", "differs", "failed", "interrupted"]
    """``runs``: it ran without an error, and nothing was compared."""
    text: str = ""
    total: int
    """Code cells to run."""
    number: int
    """The cell that runs now, counted from 1; the last one at the end."""
    problems: list[CellReport] = Field(default_factory=list[CellReport])
    left_out: int = 0
    """The number of cells that fail or differ beyond those in `problems`."""
    artifact: str | None = None
    """The whole report, if the text is shortened."""


class ExecutionResult(Result):
    """An execution: its status and its output."""

    execution_id: str
    notebook: str | None = None
    status: str
    runs: list[CellRun]
    skipped: int = 0
    total_cells: int | None = None
    prompt: str | None = None
    """The prompt of `input()`, which was not answered."""
    next: str | None = None
    """For ``since`` in the next call of `wait_execution`, while it runs."""
    verification: VerificationSummary | None = None
    """The findings of a run that verifies the notebook, instead of outputs."""

    @property
    def is_error(self) -> bool:
        return self.status not in ("ok", "queued", "running")

    def as_text(self) -> str:
        parts = [_run_text(run, quiet=len(self.runs) > 1) for run in self.runs]
        if self.verification is not None:
            parts.append(self.verification.text)
        if self.prompt is not None:
            parts.append(
                f"input_requested: {self.prompt!r} — input() is not supported. Set the value in code."
            )
        if self.skipped:
            cells = "1 more cell was" if self.skipped == 1 else f"{self.skipped} more cells were"
            parts.append(f"[{cells} not run]")
        if self.status in ("queued", "running"):
            since = f', since="{self.next}"' if self.next else ""
            call = f'wait_execution("{self.execution_id}"{since})'
            parts.append(f"Still {self.status}: follow it with {call}.")
        return "\n".join(parts)


def _run_text(run: CellRun, *, quiet: bool) -> str:
    name = f"@{run.cell} " if run.cell else ""
    count = f"[{run.execution_count}] " if run.execution_count is not None else ""
    duration = f" {run.duration:.2f} s" if run.duration is not None else ""
    line = f"{name}{count}{run.status}{duration}"
    if run.message:
        line += f" — {run.message}"
    if quiet and run.status == "ok" and not run.output:
        return line
    return f"{line}\n{run.output}" if run.output else f"{line}\n(no output)" if not quiet else line


async def follow(
    context: ToolContext,
    run: Run,
    wait: float,
    *,
    total_cells: int | None = None,
    watch: bool = False,
    since: str | None = None,
) -> ExecutionResult:
    """Wait for a run, report progress, and return its output.

    If the call is cancelled, its run is cancelled too, unless ``watch`` is true.

    Args:
        context: The context of the call.
        run: The run.
        wait: Maximum seconds to wait.
        total_cells: The number of cells of the notebook, for the result.
        watch: Whether the call only watches a run that another call started.
        since: Leave out the output before this place (`ExecutionResult.next`).

    Raises:
        InvalidArguments: ``since`` is not a place.
    """
    workspace = context.workspace
    place = _Place.parse(since)
    try:
        await _wait(context, run, min(wait, workspace.limits.max_wait))
    except asyncio.CancelledError:
        if not watch:
            await asyncio.shield(workspace.executions.cancel(run))
        raise
    if run.error is not None:
        raise run.error
    if isinstance(run.report, VerificationRun):
        return await _verification(context, run, run.report, total_cells)
    return await _answer(context, run, total_cells, place)


async def _wait(context: ToolContext, run: Run, wait: float) -> None:
    began = time.monotonic()

    def left() -> float:
        return max(wait - (time.monotonic() - began), 0)

    await run.wait(min(left(), PROGRESS_INTERVAL))
    while not run.done and left() > 0:
        version = run.version
        await context.progress(_progress(run, time.monotonic() - began))
        if await run.changed(version, min(left(), PROGRESS_HEARTBEAT)):
            await run.wait(min(left(), PROGRESS_INTERVAL))


def _progress(run: Run, elapsed: float) -> str:
    step = run.current
    # Progress is for people, who count cells from 1.
    what = "code" if step.index is None else f"cell {step.index + 1}"
    if len(run.steps) > 1:
        number, total = run.steps.index(step) + 1, len(run.steps)
        what = f"{what} {number}/{total}"
    last = next((line for line in reversed(_last_lines(step.outputs)) if line.strip()), "")
    seconds = f"{elapsed:.0f}"
    if last:
        return f"{what} {step.status}, {seconds} s: {last[:200]}"
    return f"{what} {step.status}, {seconds} s"


def _last_lines(outputs: OutputBuffer) -> list[str]:
    last = outputs.stream(-1)
    return [] if last is None else last.since(max(len(last) - 500, 0)).splitlines()


async def _verification(
    context: ToolContext, run: Run, report: VerificationRun, total_cells: int | None
) -> ExecutionResult:
    """Return the findings of a verification, or its progress."""
    number, finished = run.steps.index(run.current) + 1, report.finished
    found = VerificationSummary(status="running", total=len(run.steps), number=number)
    if not run.done or finished is None:
        found.text = f"Cell {number} of {found.total} code cells is {run.current.status}."
    else:
        found.status = "interrupted" if run.cancelled else finished.status
        text = {"output_type": "stream", "name": "stdout", "text": finished.as_text()}
        presented = await present(context, [text], budget=MAX_REPORT)
        found.text, found.artifact = presented.text, presented.artifact
        bad = [cell for cell in finished.cells if cell.is_bad]
        found.left_out = max(len(bad) - MAX_PROBLEMS, 0)
        found.problems = [
            replace(cell, diff=shorten(cell.diff, MAX_DIFF).text) for cell in bad[:MAX_PROBLEMS]
        ]
    status = {"same": "ok", "runs": "ok", "interrupted": "interrupted", "running": run.status}
    return ExecutionResult(
        execution_id=run.id,
        notebook=run.path,
        status=status.get(found.status, "error"),
        runs=[],
        total_cells=total_cells,
        verification=found,
    )


class _Place(NamedTuple):
    """A place in the output of a run: the step, its output, and a character of a stream."""

    step: int = 0
    output: int = 0
    character: int = 0

    @classmethod
    def parse(cls, text: str | None) -> _Place:
        """Parse a place; None is the beginning."""
        try:
            return cls(*map(int, text.split("."))) if text else cls()
        except (TypeError, ValueError):
            raise InvalidArguments(
                f"`since` {text!r} is not a place in an output.",
                hint="Copy it from the last answer.",
            ) from None

    @classmethod
    def after(cls, step: int, outputs: Sequence[Json]) -> _Place:
        """Return the place after these outputs; of a stream, after its last whole line."""
        if outputs and outputs[-1].get("output_type") == "stream":
            return cls(step, len(outputs) - 1, stream_text(outputs[-1]).rfind("\n") + 1)
        return cls(step, len(outputs))

    def rest(self, step: int, outputs: list[Json]) -> list[Json]:
        """Return the outputs after the place; all of them if the place no longer exists."""
        if step > self.step or self.output > len(outputs):
            return outputs
        rest = outputs[self.output :]
        if self.character and rest and rest[0].get("output_type") == "stream":
            text = stream_text(rest[0])
            if len(text) >= self.character:
                rest[0] = {**rest[0], "text": text[self.character :]}
        return rest


async def _answer(
    context: ToolContext, run: Run, total_cells: int | None, since: _Place
) -> ExecutionResult:
    """Return the output of a run since a place in it."""
    limit = context.workspace.limits.answer_budget
    allowance = OutputBudget(limit, limit)
    # Copy status and outputs once: more may arrive while this result is built.
    status, current = run.status, run.steps.index(run.current)
    outputs = {at: list(step.outputs) for at, step in enumerate(run.steps) if at >= since.step}
    begun = {at for at, step in enumerate(run.steps) if step.status not in ("queued", "skipped")}
    shown = [at for at in outputs if at in (begun or {0})]
    parts: dict[int, tuple[CellRun, tuple[Image, ...]]] = {}
    # The last one, which may have failed, gets its share of the budget first.
    for at in (*shown[-1:], *shown[:-1]):
        parts[at] = await _cell_run(
            context,
            run.steps[at],
            since.rest(at, outputs[at]),
            allowance,
            allowance.share(len(shown) - len(parts)),
        )
    executions = [each for at in shown if (each := run.steps[at].execution) is not None]
    prompts = [each.prompt for each in executions if each.prompt is not None]
    result = ExecutionResult(
        execution_id=run.id,
        notebook=run.path,
        status=status,
        runs=[parts[at][0] for at in shown],
        skipped=sum(step.status == "skipped" for step in run.steps),
        total_cells=total_cells,
        prompt=prompts[-1] if prompts else None,
    )
    if status in ("queued", "running"):
        result.next = ".".join(map(str, _Place.after(current, outputs.get(current, ()))))
    if images := tuple(image for at in shown for image in parts[at][1]):
        result.with_images(images)
    return result


async def _cell_run(
    context: ToolContext,
    step: RunStep,
    outputs: list[Json],
    allowance: OutputBudget,
    budget: int,
) -> tuple[CellRun, tuple[Image, ...]]:
    """Return a step with these of its outputs, and their images."""
    statuses = step.statuses.events()
    presented = await present(context, outputs, budget=budget, allowance=allowance)
    events = allowance.fitting([{"mime": each.mime, "data": each.data} for each in statuses[::-1]])
    execution = step.execution
    messages = [m for m in (execution.message if execution else None, step.warning) if m]
    run = CellRun(
        cell=step.cell,
        index=step.index,
        status=step.status,
        execution_count=execution.execution_count if execution else None,
        duration=round(execution.duration, 3) if execution else None,
        output=presented.text,
        artifact=presented.artifact,
        total_lines=presented.total_lines,
        placeholders=list(presented.placeholders),
        error=_error(execution.error) if execution and execution.error else None,
        message="; ".join(messages) or None,
        data=list(presented.data),
        events=events[::-1],
        left_out=presented.left_out + len(statuses) - len(events),
    )
    return run, presented.images


def _error(error: Json) -> str:
    return f"{error.get('ename')}: {error.get('evalue')}"


@dataclass(frozen=True)
class RunPlan:
    """Cells of a notebook, or scratch code, to run in the notebook's kernel.

    Attributes:
        path: The notebook; its kernel runs them.
        snapshot: The notebook as the cells were read; None for scratch code.
        cells: The cells, in order; empty for scratch code.
        code: The scratch code.
        restart: Whether to restart the kernel first.
        stop_on_error: Whether to skip the remaining cells after one fails.
        wait: Seconds to wait for the end.
        timeout: Seconds after which a cell is interrupted; None for no limit.
    """

    path: str
    snapshot: Snapshot | None = None
    cells: tuple[Cell, ...] = ()
    code: str = ""
    restart: bool = False
    stop_on_error: bool = True
    wait: float = 30.0
    timeout: float | None = None

    def proposal(self) -> Proposal:
        """Return all of the code."""
        steps = [RESTART] if self.restart else []
        if self.snapshot is None:
            lines = marked(" ", self.code)
            code = ProposalStep("code", "Run code", runs=True, lines=lines)
            return Proposal("Run code in the notebook's kernel", (*steps, code), notebook=self.path)
        runs = [cell_step(self.snapshot, cell) for cell in self.cells]
        title = runs[0].title if len(runs) == 1 else f"Run {counted(len(runs))}"
        return Proposal(title, (*steps, *runs), notebook=self.path)


async def run(context: ToolContext, plan: RunPlan, tool: str) -> ExecutionResult:
    """Run the planned cells or code in the notebook's kernel; start one if none runs."""
    workspace = context.workspace
    notebook = workspace.by_path.at(plan.path)
    kernel_id, started = await kernel_for(context, plan.path)
    if plan.restart and not started:
        await workspace.kernels.restart(kernel_id)
        workspace.incarnations.end(kernel_id)
    # It may have been renamed since.
    path = notebook.path
    steps = (
        [RunStep(code=plan.code)] if plan.snapshot is None else steps_of(plan.snapshot, plan.cells)
    )
    begun = start_steps(
        context,
        path,
        kernel_id,
        steps,
        tool=tool,
        timeout=plan.timeout,
        stop_on_error=plan.stop_on_error,
    )
    total_cells = None if plan.snapshot is None else len(plan.snapshot.cells)
    return await follow(context, begun, plan.wait, total_cells=total_cells)


async def edit_and_run(context: ToolContext, edit: EditPlan, tool: str) -> ExecutionResult:
    """Apply the edit and run the changed code cells."""
    # Get the kernel first: if it does not start, nothing is changed.
    kernel_id, _ = await kernel_for(context, edit.document.path)
    applied = await editing.apply(
        context.workspace, context.caller, edit.document, edit.operations, tool=tool, run=True
    )
    cells = code_of(applied)
    entry = applied.entry + 1 if applied.entry else None
    begun: Run | None = None
    try:
        begun = start_steps(
            context,
            edit.document.path,
            kernel_id,
            steps_of(applied.snapshot, cells),
            tool=tool,
            timeout=edit.timeout,
            entry=entry,
        )
        return await follow(context, begun, edit.wait, total_cells=len(applied.snapshot.cells))
    except CellNotFound:  # The cell was deleted while it waited in the queue.
        raise
    except ToolError as error:
        if begun is None and entry is not None:
            await context.workspace.journal.end_run(entry, "did not run")
        # A caller that retries would insert the cell twice.
        message = f"{error.message} The new cell @{cells[0].key} is in the notebook."
        details = {**error.details, "cell": cells[0].key}
        raise type(error)(message, hint=error.hint, **details) from error


async def kernel_for(context: ToolContext, path: str) -> tuple[str, bool]:
    """Return the notebook's kernel, and whether it was started for this call.

    Raises:
        ApprovalOutdated: The person approved another kernel.
    """
    kernel_id, started = await context.workspace.kernel_for(path)
    if context.approval is not None:
        context.approval.check_kernel(kernel_id, started=started)
    return kernel_id, started


def code_of(applied: editing.JournaledEdit) -> list[Cell]:
    """Return the inserted and replaced code cells, in notebook order."""
    return [cell for cell in applied.written if cell.type == "code"]


def steps_of(
    snapshot: Snapshot, cells: Sequence[Cell], *, allow_errors: bool = False
) -> list[RunStep]:
    """Return the steps that run cells; those with a tag for it, or all if the caller allows it, may fail."""
    index = snapshot.places.get  # Another cell may have been deleted since it was written.
    return [
        RunStep(cell.key, index(cell.key), cell.source, may_fail=allow_errors or may_fail(cell))
        for cell in cells
    ]


def start_steps(
    context: ToolContext,
    path: str,
    kernel_id: str,
    steps: Sequence[RunStep],
    *,
    tool: str,
    timeout: float | None = None,
    stop_on_error: bool = True,
    entry: int | None = None,
) -> Run:
    """Queue cells or scratch code for a kernel; the outputs of cells are written to the notebook."""
    workspace = context.workspace
    return workspace.executions.start(
        context.caller,
        kernel_id,
        steps,
        open_document=workspace.store.open if steps[0].cell else None,
        path=path,
        timeout=timeout,
        stop_on_error=stop_on_error,
        approval=context.approval,
        tool=tool,
        entry=entry,
    )
