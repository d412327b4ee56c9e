"""Run Python code in a session kernel or in a kernel for one call, without a notebook."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from tk_ai_extension.model.callers import Caller, checked_key
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.proposals import Proposal, ProposalKernel, ProposalStep, marked
from tk_ai_extension.tools.parameter_types import Wait
from tk_ai_extension.tools.registry import ToolContext, tool
from tk_ai_extension.tools.run_plans import ExecutionResult, follow
from tk_ai_extension.workspace.python_sessions import PythonSessionKey, PythonSessionSupervisor
from tk_ai_extension.workspace.runs import RunStep
from tk_ai_extension.workspace.tool_bridge import Answer

CellState = Literal["pending", "running", "complete", "error"]

_STATES: dict[str, CellState] = {
    "queued": "pending",
    "skipped": "pending",
    "running": "running",
    "ok": "complete",
}


class PythonCellInput(BaseModel):
    """Code to run; a title, as some clients send, is ignored."""

    code: str
    reset: bool = False
    """Start a new kernel for the session before this cell."""


class PythonResult(ExecutionResult):
    """The outputs of the cells, and the state of each."""

    session: str | None = None
    """The session's id; None for a kernel of one call."""
    kernel_id: str
    cells: list[CellState]
    cancelled: bool = False
    """Whether a person or another caller interrupted it."""
    stdin_requested: bool = False
    """Whether the code requested input, which was refused."""


@dataclass(frozen=True)
class PythonPlan:
    """The plan of a `python` call.

    Attributes:
        cells: The cells to run, in order.
        key: The session, or a kernel of one call.
        wait: Seconds to wait for the end.
        timeout: Seconds after which a cell is interrupted; None for no limit.
        kernel_id: The session's current kernel; None if one will be started.
    """

    cells: tuple[PythonCellInput, ...]
    key: PythonSessionKey
    wait: float
    timeout: float | None
    kernel_id: str | None

    def proposal(self) -> Proposal:
        """Return all of the code."""
        name, folder = self.key.name, self.key.folder
        where = "the session's kernel" if name else "a new kernel"
        title = f"Run Python code in {where}, in the folder {folder or '.'}"
        steps: list[ProposalStep] = []
        for cell in self.cells:
            if cell.reset:
                steps.append(
                    ProposalStep("kernel", "Reset the session first. Its variables are lost")
                )
            steps.append(ProposalStep("code", title, runs=True, lines=marked(" ", cell.code)))
        session = f"{name}:{folder}" if name else None
        return Proposal(title, tuple(steps), kernel=ProposalKernel(self.kernel_id, session))


async def _run(context: ToolContext, plan: PythonPlan, tool: str) -> PythonResult:
    """Run the cells in the session's kernel, or in a kernel for this call."""
    workspace, caller = context.workspace, context.caller
    steps = [RunStep(code=cell.code) for cell in plan.cells]
    resets = {step for step, cell in zip(steps, plan.cells, strict=True) if cell.reset}
    artifacts = await asyncio.to_thread(workspace.artifacts.folder_of, caller.user)
    before = workspace.python.kernel_of(plan.key)
    session = await workspace.python.acquire(plan.key, caller, resets=bool(resets))
    supervisor = PythonSessionSupervisor(
        workspace.python,
        session,
        caller,
        artifacts,
        _answers(context),
        resets,
    )
    try:
        started = session.kernel_id != before
        if context.approval is not None and not resets:
            context.approval.check_kernel(session.kernel_id, started=started)
        if started:
            resets.discard(steps[0])
        run = workspace.executions.start(
            caller,
            session.kernel_id,
            steps,
            timeout=plan.timeout,
            approval=context.approval,
            tool=tool,
            supervisor=supervisor,
        )
    except BaseException:
        await workspace.python.release(session)
        raise
    followed = await follow(context, run, plan.wait)
    result = PythonResult(
        **dict(followed),
        session=session.id if plan.key.name else None,
        kernel_id=run.kernel_id,
        cells=[_STATES.get(step.status, "error") for step in run.steps],
        cancelled=run.cancelled,
        stdin_requested=followed.prompt is not None,
    )
    result.with_images(followed.images)
    return result


@tool("EXECUTE", carry_out=_run)
async def python(
    context: ToolContext,
    cells: Annotated[list[PythonCellInput], Field(min_length=1, max_length=100)],
    mode: Annotated[
        Literal["session", "per-call"], Field(description="per-call: a kernel for this call only")
    ] = "session",
    reset: Annotated[bool, Field(description="start a new kernel first")] = False,
    session: Annotated[
        str | None, Field(description="a name, to share the session with other callers")
    ] = None,
    cwd: Annotated[
        str | None, Field(description="folder to run in; each one has its own kernel")
    ] = None,
    wait: Wait = 30,
    timeout: Annotated[float | None, Field(gt=0, description="seconds per cell")] = None,
) -> PythonPlan:
    """Run Python cells in order; variables persist between calls. Returns their outputs. In the code,
    `tool_bridge.call(tool, **arguments)` calls these tools.
    """
    inside = "x.ipynb" if cwd in (None, "", "/") else f"{cwd}/x.ipynb"
    folder = context.workspace.contain(inside).rpartition("/")[0]
    await context.workspace.files.list(folder)  # raises FileMissing
    name = "" if mode == "per-call" else _session_name(context.caller, session)
    key = PythonSessionKey(context.caller.user, name, folder)
    if reset:
        cells = [cells[0].model_copy(update={"reset": True}), *cells[1:]]
    kernel_id = context.workspace.python.kernel_of(key)
    return PythonPlan(tuple(cells), key, wait, timeout, kernel_id)


def _session_name(caller: Caller, given: str | None) -> str:
    """Return the name of the session: the given one, which all callers of the user share, or the caller's.

    Raises:
        InvalidArguments: The name is invalid, or there is neither a name nor a caller's session.
    """
    if (name := checked_key(given)) is not None:
        return f"session:{name}"
    if caller.session is None:
        raise InvalidArguments(
            "Your connection has no session, so no kernel can be kept for it.",
            hint="Set `session` to a name, or use mode `per-call`.",
        )
    return caller.session


def _answers(context: ToolContext) -> Answer:
    """Return a function that calls the caller's tools for code in a kernel."""
    workspace, tools = context.workspace, context.tools

    async def answer(caller: Caller, name: str, arguments: Json) -> Json:
        if tools is None or name == "python":
            raise InvalidArguments(
                f"`{name}` cannot be called from code.",
                hint="It would wait for itself. Run the code directly.",
            )
        result = await tools.call(name, arguments, ToolContext(workspace, caller))
        return result.structured()

    return answer
