"""Run Python code in a session kernel or in a kernel for one call, without a notebook."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from tk_ai_extension.model.callers import Caller, checked_key
from tk_ai_extension.model.errors import FileMissing, InvalidArguments, NotReadable
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.proposals import KernelReference, Proposal, ProposalStep, marked
from tk_ai_extension.tools.parameters import Wait
from tk_ai_extension.tools.registry import ToolContext, tool
from tk_ai_extension.tools.runs import ExecutionResult, follow
from tk_ai_extension.workspace.python_sessions import (
    PythonSession,
    PythonStep,
    SessionKey,
    SessionSupervisor,
    reset_in_progress,
)
from tk_ai_extension.workspace.runs import Run
from tk_ai_extension.workspace.tool_bridge import Answer
from tk_ai_extension.workspace.workspace import Workspace

CellState = Literal["pending", "running", "complete", "error"]

MAX_CELLS = 100

_STATES: dict[str, CellState] = {
    "queued": "pending",
    "skipped": "pending",
    "running": "running",
    "ok": "complete",
}


class PythonCell(BaseModel, extra="forbid"):
    """Code to run."""

    code: str
    title: str | None = None
    """Its purpose, in a few words."""
    reset: bool = False
    """Start a new kernel for the session before this cell."""


class PythonCellState(BaseModel):
    """The state of a cell."""

    index: int
    status: CellState
    title: str | None = None


class PythonResult(ExecutionResult):
    """The outputs and states of the cells."""

    session: str | None = None
    """The session's id; None for a kernel of one call."""
    kernel_id: str
    cells: list[PythonCellState]
    cancelled: bool = False
    """Whether somebody interrupted it."""
    stdin_requested: bool = False
    """Whether the code requested input, which was refused."""


@dataclass(frozen=True)
class PythonPlan:
    """The plan of a `python` call.

    Attributes:
        cells: The cells to run, in order.
        key: The session; None for a kernel of one call.
        folder: The folder that the code runs in, relative to the root.
        env: Environment variables to set.
        wait: Seconds to wait for the end.
        timeout: Seconds after which a cell is interrupted; None for no limit.
        kernel_id: The session's current kernel; None if one will be started.
    """

    cells: tuple[PythonCell, ...]
    key: SessionKey | None
    folder: str
    env: tuple[tuple[str, str], ...]
    wait: float
    timeout: float | None
    kernel_id: str | None = None

    def proposal(self) -> Proposal:
        """Return all of the code."""
        where = "the session's kernel" if self.key else "a new kernel"
        title = f"Run Python code in {where}, in the folder {self.folder or '.'}"
        env = "\n".join(f"{name}={value}" for name, value in self.env)
        variables = ProposalStep("arguments", "Set environment variables", lines=marked("+", env))
        steps = [variables] if env else []
        for cell in self.cells:
            if cell.reset:
                steps.append(
                    ProposalStep("kernel", "Reset the session first. Its variables are lost")
                )
            steps.append(ProposalStep("code", title, runs=True, lines=marked(" ", cell.code)))
        session = None if self.key is None else f"{self.key.name}:{self.key.folder}"
        return Proposal(title, tuple(steps), kernel=KernelReference(self.kernel_id, session))


async def _run(context: ToolContext, plan: PythonPlan, tool: str) -> PythonResult:
    """Run the cells in the session's kernel, or in a kernel for this call."""
    workspace, caller = context.workspace, context.caller
    sessions, present = workspace.python, workspace.python.get(plan.key)
    resets = any(cell.reset for cell in plan.cells)
    if resets and present is not None and present.resetting:
        raise reset_in_progress()
    before = present.kernel_id if present else ""
    await sessions.bridge.open()
    artifacts = await asyncio.to_thread(workspace.artifacts.folder_of, caller.user)
    if plan.key is None:
        session = await sessions.single(caller.user, plan.folder)
    else:
        session = await sessions.acquire(plan.key, caller)
    supervisor = SessionSupervisor(
        workspace.kernels, sessions, session, caller, dict(plan.env), artifacts, _answers(context)
    )
    steps = [PythonStep(code=cell.code, reset=cell.reset) for cell in plan.cells]
    try:
        if context.approval is not None and plan.key is not None and not resets:
            kernel_id = session.kernel_id
            context.approval.check_kernel(kernel_id, started=kernel_id != before)
        run = workspace.executions.start(
            context.caller,
            session.kernel_id,
            steps,
            timeout=plan.timeout,
            approval=context.approval,
            tool=tool,
            supervisor=supervisor,
        )
    except BaseException:
        await sessions.release(session)
        raise
    return _result(await follow(context, run, plan.wait), run, plan, session)


def _result(
    followed: ExecutionResult, run: Run, plan: PythonPlan, session: PythonSession
) -> PythonResult:
    result = PythonResult(
        **dict(followed),
        session=session.id if plan.key else None,
        kernel_id=run.kernel_id,
        cells=[
            PythonCellState(index=index, status=_STATES.get(step.status, "error"), title=cell.title)
            for index, (step, cell) in enumerate(zip(run.steps, plan.cells, strict=True))
        ],
        cancelled=run.cancelled,
        stdin_requested=followed.prompt is not None,
    )
    result.with_images(followed.images)
    return result


@tool("EXECUTE", carry_out=_run)
async def python(
    context: ToolContext,
    cells: Annotated[list[PythonCell], Field(min_length=1, max_length=MAX_CELLS)],
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
    env: Annotated[dict[str, str] | None, Field(description="variables for this call")] = None,
    wait: Wait = 30,
    timeout: Annotated[float | None, Field(gt=0, description="seconds per cell")] = None,
) -> PythonPlan:
    """Run Python cells in order; variables persist between calls. Returns their outputs. In the code,
    `tool_bridge.call(tool, **arguments)` calls these tools.
    """
    for number, cell in enumerate(cells):
        if "\0" in cell.code:
            raise InvalidArguments(f"The code of cell {number} contains a NUL character.")
    for name, value in (env or {}).items():
        if not name or "=" in name or "\0" in name + value:
            raise InvalidArguments(f"`env`: the variable {name!r} cannot be set.")
    folder = await _folder(context.workspace, cwd)
    key = _key(context.caller, session, folder) if mode == "session" else None
    if reset:
        cells = [cells[0].model_copy(update={"reset": True}), *cells[1:]]
    found = context.workspace.python.get(key)
    kernel_id = (found.kernel_id or None) if found else None
    variables = tuple((env or {}).items())
    return PythonPlan(tuple(cells), key, folder, variables, wait, timeout, kernel_id)


def _key(caller: Caller, name: str | None, folder: str) -> SessionKey:
    """Return the key of the named session, which all callers of the user share, or of the caller's.

    Raises:
        InvalidArguments: The name is invalid, or there is neither a name nor a caller's session.
    """
    chosen = checked_key(name)
    if chosen is not None:
        return SessionKey(caller.user, f"session:{chosen}", folder)
    if caller.session is None:
        raise InvalidArguments(
            "Your connection has no session, so no kernel can be kept for it.",
            hint="Set `session` to a name, or use mode `per-call`.",
        )
    return SessionKey(caller.user, caller.session, folder)


async def _folder(workspace: Workspace, cwd: str | None) -> str:
    """Return the path of a folder relative to the root; empty for the root, which is the default.

    Raises:
        PathRefused: The folder is outside the root or hidden.
        FileMissing: The folder does not exist.
    """
    if cwd in (None, "", ".", "/"):
        return ""
    folder = workspace.contain(f"{str(cwd).rstrip('/')}/x.ipynb").rpartition("/")[0]
    try:
        await workspace.files.list(folder)
    except (FileMissing, NotReadable):
        raise FileMissing(f"Folder `{cwd}` does not exist.") from None
    return folder


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
