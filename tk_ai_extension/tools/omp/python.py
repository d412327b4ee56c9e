"""Python code in kernels of its own: kept from call to call, or for one call. No notebook is changed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from tk_ai_extension.model.callers import Caller, checked_key
from tk_ai_extension.model.cells import Json
from tk_ai_extension.model.errors import (
    ApprovalOutdated,
    Conflict,
    FileMissing,
    InvalidArguments,
    LimitReached,
    NotReadable,
)
from tk_ai_extension.model.proposals import KernelReference, Proposal, ProposalStep, marked
from tk_ai_extension.model.sentences import Sentence
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.following import ExecutionResult, follow
from tk_ai_extension.tools.parameters import Wait
from tk_ai_extension.tools.registry import tool
from tk_ai_extension.workspace.bridge import Answer
from tk_ai_extension.workspace.python_runs import (
    PythonStep,
    SessionKeeper,
    SingleKeeper,
    Surroundings,
)
from tk_ai_extension.workspace.python_sessions import (
    PythonSession,
    SessionKey,
    reset_in_progress,
)
from tk_ai_extension.workspace.running import Run
from tk_ai_extension.workspace.workspace import Workspace

CellState = Literal["pending", "running", "complete", "error"]

MAX_CELLS = 100


class PythonCell(BaseModel, extra="forbid"):
    """Code to run."""

    code: str
    title: str | None = None
    """What it is for, in a few words."""
    reset: bool = False
    """Gives the session a new kernel before this cell."""


class PythonCellState(BaseModel):
    """How far a cell is."""

    index: int
    status: CellState
    title: str | None = None


class PythonResult(ExecutionResult):
    """What the cells did."""

    session: str | None = None
    """The session's id; none for a kernel of this call alone."""
    kernel_id: str
    cells: list[PythonCellState]
    cancelled: bool = False
    """Whether it was interrupted on somebody's behalf."""
    stdin_requested: bool = False
    """Whether the code asked for input, which was refused."""


@dataclass(frozen=True)
class PythonPlan:
    """Cells that are about to run, and where.

    Attributes:
        cells: In order.
        key: The session; None for a kernel of the call's own.
        folder: Where the code runs, below the root.
        env: Variables that are set for it.
        wait: Seconds to wait for the end.
        timeout: Seconds after which a cell is interrupted.
        kernel_id: The session's kernel as it is now; None where one is started.
    """

    cells: tuple[PythonCell, ...]
    key: SessionKey | None
    folder: str
    env: tuple[tuple[str, str], ...]
    wait: float
    timeout: float | None
    kernel_id: str | None = None

    def proposal(self) -> Proposal:
        """The code, whole."""
        title = Sentence(
            "run_python_in_session" if self.key else "run_python_alone", folder=self.folder or "."
        )
        env = "\n".join(f"{name}={value}" for name, value in self.env)
        variables = ProposalStep("arguments", Sentence("set_environment"), lines=marked("+", env))
        steps = [variables] if env else []
        for cell in self.cells:
            if cell.reset:
                steps.append(ProposalStep("kernel", Sentence("reset_first")))
            steps.append(ProposalStep("code", title, runs=True, lines=marked(" ", cell.code)))
        session = None if self.key is None else f"{self.key.name}:{self.key.folder}"
        return Proposal(title, tuple(steps), kernel=KernelReference(self.kernel_id, session))


async def _run(context: ToolContext, plan: PythonPlan, tool: str) -> PythonResult:
    """Runs the cells in the session's kernel, or in one of their own."""
    workspace = context.workspace
    sessions = workspace.python
    resets = any(cell.reset for cell in plan.cells)
    if resets and plan.key is not None and sessions.resetting(plan.key):
        raise reset_in_progress()
    await sessions.bridge.open()
    artifacts = await asyncio.to_thread(workspace.artifacts.folder_of, context.caller.user)
    around = Surroundings(context.caller, dict(plan.env), artifacts, _answers(context))
    if plan.key is None:
        session = await sessions.single(plan.folder)
        keeper = SingleKeeper(workspace.kernels, sessions, session, around)
    else:
        before = {one.kernel_id for one in sessions}
        session = await sessions.acquire(plan.key, context.caller)
        if context.approval is not None and not resets:
            try:
                kernel_id = session.kernel_id
                context.approval.check_kernel(kernel_id, started=kernel_id not in before)
            except ApprovalOutdated:
                sessions.release(session)
                raise
        keeper = SessionKeeper(workspace.kernels, sessions, session, around)
    steps = [PythonStep(code=cell.code, reset=cell.reset) for cell in plan.cells]
    try:
        run = workspace.executions.start(
            context.caller,
            session.kernel_id,
            steps,
            timeout=plan.timeout,
            approval=context.approval,
            tool=tool,
            keeper=keeper,
        )
    except (LimitReached, Conflict):
        await keeper.let_go()
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
            PythonCellState(index=index, status=_state(step.status), title=cell.title)
            for index, (step, cell) in enumerate(zip(run.steps, plan.cells, strict=True))
        ],
        cancelled=run.cancelled,
        stdin_requested=followed.prompt is not None,
    )
    result.with_images(followed.images)
    return result


def _state(status: str) -> CellState:
    match status:
        case "queued" | "skipped":
            return "pending"
        case "running":
            return "running"
        case "ok":
            return "complete"
        case _:
            return "error"


async def _concerns(context: ToolContext, arguments: BaseModel) -> str | None:  # noqa: ARG001
    return None


@tool("EXECUTE", carry_out=_run, concerns=_concerns)
async def python(
    context: ToolContext,
    cells: Annotated[list[PythonCell], Field(min_length=1, max_length=MAX_CELLS)],
    mode: Annotated[
        Literal["session", "per-call"], Field(description="per-call: a kernel for this call alone")
    ] = "session",
    reset: Annotated[bool, Field(description="a new kernel before the first cell")] = False,
    session: Annotated[
        str | None, Field(description="a name, to share the session with other callers")
    ] = None,
    cwd: Annotated[
        str | None, Field(description="folder that the code runs in; each has its own kernel")
    ] = None,
    env: Annotated[dict[str, str] | None, Field(description="variables set for this call")] = None,
    wait: Wait = 30,
    timeout: Annotated[float | None, Field(gt=0, description="for each cell, in seconds")] = None,
) -> PythonPlan:
    """Runs Python cells in order; variables persist from call to call. Answers with their outputs. In
    the code, `tool_bridge.call(tool, **arguments)` calls these tools.
    """
    for number, cell in enumerate(cells):
        if "\0" in cell.code:
            raise InvalidArguments(f"The code of cell {number} has a NUL character.")
    for name, value in (env or {}).items():
        if not name or "=" in name or "\0" in name + value:
            raise InvalidArguments(f"`env`: {name!r} is no variable that can be set.")
    folder = await _folder(context.workspace, cwd)
    key = _key(context.caller, session, folder) if mode == "session" else None
    if reset:
        cells = [cells[0].model_copy(update={"reset": True}), *cells[1:]]
    found = (one for one in context.workspace.python if key is not None and one.key == key)
    kernel_id = next((one.kernel_id or None for one in found), None)
    variables = tuple((env or {}).items())
    return PythonPlan(tuple(cells), key, folder, variables, wait, timeout, kernel_id)


def _key(caller: Caller, name: str | None, folder: str) -> SessionKey:
    """The session meant: the one of that name, which the user's callers share, else the caller's.

    Raises:
        InvalidArguments: neither is there, or the name is none.
    """
    chosen = checked_key(name)
    if chosen is not None:
        return SessionKey(caller.user, f"session:{chosen}", folder)
    if caller.session is None:
        raise InvalidArguments(
            "Your calls have no session that a kernel could be kept for.",
            hint="Name one (`session`), or use mode `per-call`.",
        )
    return SessionKey(caller.user, caller.session, folder)


async def _folder(workspace: Workspace, cwd: str | None) -> str:
    """The folder below the root; the root itself unless another is named.

    Raises:
        PathRefused, FileMissing, NotReadable.
    """
    if cwd in (None, "", ".", "/"):
        return ""
    folder = workspace.contain(f"{str(cwd).rstrip('/')}/x.ipynb").rpartition("/")[0]
    try:
        await workspace.files.list(folder)
    except (FileMissing, NotReadable):
        raise FileMissing(f"There is no folder `{cwd}` to run in.") from None
    return folder


def _answers(context: ToolContext) -> Answer:
    """Calls tools for the code in a kernel, of the registry that its caller has."""
    workspace, tools = context.workspace, context.tools

    async def answer(caller: Caller, name: str, arguments: Json) -> Json:
        if tools is None or name == "python":
            raise InvalidArguments(
                f"`{name}` is not called from code.", hint="It would wait for itself: run it here."
            )
        result = await tools.call(name, arguments, ToolContext(workspace, caller))
        return result.structured()

    return answer
