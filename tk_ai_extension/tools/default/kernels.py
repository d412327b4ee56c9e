"""Tools that list, inspect and control kernels."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Literal

from pydantic import BaseModel, Field

from tk_ai_extension.kernels.kernel_info import KernelInfo
from tk_ai_extension.model.errors import KernelNotFound
from tk_ai_extension.tools.edit_plans import KernelChangePlan, Verb
from tk_ai_extension.tools.parameter_types import Notebook
from tk_ai_extension.tools.registry import Result, ToolContext, path_of_kernel, tool
from tk_ai_extension.workspace.execution_service import Cancellation

KernelId = str | None


class KernelspecEntry(BaseModel):
    """An installed kernelspec."""

    name: str
    display_name: str
    language: str
    default: bool


class KernelspecList(Result):
    """The installed kernelspecs."""

    kernels: list[KernelspecEntry]

    def as_text(self) -> str:
        return (
            "\n".join(
                f"{k.name}: {k.display_name} ({k.language}){', default' if k.default else ''}"
                for k in self.kernels
            )
            or "No kernel is installed. For Python: `pip install ipykernel`."
        )


@tool("READ", command="kernels")
async def list_kernels(context: ToolContext) -> KernelspecList:
    """List the installed kernelspecs."""
    specs = await context.workspace.kernels.kernelspecs()
    return KernelspecList(
        kernels=[
            KernelspecEntry(
                name=s.name, display_name=s.display_name, language=s.language, default=s.default
            )
            for s in specs
        ]
    )


class KernelEntry(BaseModel):
    """A running kernel."""

    kernel_id: str
    name: str
    language: str
    state: str
    notebooks: list[str]
    backend: str
    """The executor that runs its code: ``stack``, ``direct`` or ``gateway``."""
    memory_mb: float | None = None
    cpu_percent: float | None = None
    uptime: float | None = None
    restarts: int = 0
    running: str | None = None
    """The execution that runs now, if a tool started it."""
    queued: int = 0
    waiting: list[str] = Field(default_factory=list)
    """The authors of queued executions, in order."""


def kernel_text(kernel: KernelEntry) -> str:
    """Return a kernel's description in one line."""
    parts = [f"{kernel.kernel_id} {kernel.name} {kernel.state}, {kernel.backend} executor"]
    if kernel.notebooks:
        parts.append(f"for {', '.join(kernel.notebooks)}")
    if kernel.memory_mb is not None:
        parts.append(f"{kernel.memory_mb:,.0f} MB")
    if kernel.cpu_percent is not None:
        parts.append(f"{kernel.cpu_percent:.0f} % CPU")
    if kernel.uptime is not None:
        parts.append(f"up {kernel.uptime:,.0f} s")
    if kernel.restarts:
        parts.append(f"{kernel.restarts} restarts")
    if kernel.running:
        parts.append(f"running {kernel.running}")
    if kernel.queued:
        parts.append(f"{kernel.queued} queued ({', '.join(kernel.waiting)})")
    return ", ".join(parts)


class RunningKernelList(Result):
    """The running kernels."""

    kernels: list[KernelEntry]

    def as_text(self) -> str:
        return "\n".join(kernel_text(kernel) for kernel in self.kernels) or "No kernel is running."


async def _entry(context: ToolContext, info: KernelInfo) -> KernelEntry:
    workspace = context.workspace
    runs = workspace.executions.active(kernel_id=info.id)
    running = [run for run in runs if run.status == "running"]
    queued = [run for run in runs if run.status == "queued"]
    return KernelEntry(
        kernel_id=info.id,
        name=info.name,
        language=info.language,
        state=info.state,
        notebooks=await workspace.sessions.paths_of(info.id),
        backend=workspace.kernels.backend,
        memory_mb=round(info.memory / 1e6, 1) if info.memory is not None else None,
        cpu_percent=info.cpu,
        uptime=round(info.uptime, 1) if info.uptime is not None else None,
        restarts=info.restarts,
        running=running[0].id if running else None,
        queued=len(queued),
        waiting=[run.caller.author for run in queued],
    )


@tool("READ", command="ps")
async def list_running_kernels(context: ToolContext) -> RunningKernelList:
    """List running kernels: notebooks, states, memory, CPU."""
    kernels = context.workspace.kernels
    found: list[KernelEntry] = []
    for kernel_id in kernels.ids():
        with suppress(KernelNotFound):  # It has since ended.
            found.append(await _entry(context, await kernels.info(kernel_id)))
    return RunningKernelList(kernels=found)


class KernelStatus(Result):
    """The status of a kernel."""

    kernel: KernelEntry

    def as_text(self) -> str:
        return kernel_text(self.kernel)


@tool("READ", command="kernel notebook")
async def get_kernel_status(
    context: ToolContext, notebook: Notebook = None, kernel_id: KernelId = None
) -> KernelStatus:
    """Show a kernel's state, queue, memory, CPU and uptime."""
    found = await context.workspace.kernel_id(
        context.caller, notebook, kernel_id, tool="get_kernel_status"
    )
    return KernelStatus(kernel=await _entry(context, await context.workspace.kernels.info(found)))


_TOOLS: Mapping[Verb, str] = {
    "interrupt": "interrupt_kernel",
    "restart": "restart_kernel",
    "shut down": "shutdown_kernel",
}
_OUTCOMES: Mapping[Cancellation, str] = {
    "ended": "ok",
    "waiting": "waiting",
    "ignored": "interrupt_ignored",
}


class KernelActionResult(Result):
    """The result of interrupting, restarting or shutting down a kernel."""

    kernel_id: str
    action: Literal["interrupted", "restarted", "shut down"]
    outcome: str = "ok"
    """``ok``; ``interrupt_ignored``: the code still runs; ``waiting``: it has not started."""

    @property
    def is_error(self) -> bool:
        return self.outcome == "interrupt_ignored"

    def as_text(self) -> str:
        if self.outcome == "waiting":
            return (
                f"Kernel {self.kernel_id[:8]} is running another caller's code. This execution has not "
                "started; it ends when its turn comes."
            )
        if self.outcome != "ok":
            return (
                f"{self.outcome}: kernel {self.kernel_id[:8]} was interrupted, but the code still "
                "runs. restart_kernel ends it; all variables are lost."
            )
        lost = " Its variables are lost." if self.action != "interrupted" else ""
        return f"Kernel {self.kernel_id[:8]} {self.action}.{lost}"


async def _change(context: ToolContext, plan: KernelChangePlan, tool: str) -> KernelActionResult:  # noqa: ARG001
    """Execute the planned change of a kernel."""
    if plan.verb == "interrupt":
        return await _interrupt(context, plan)
    restart = plan.verb == "restart"
    kernels = context.workspace.kernels
    await (kernels.restart(plan.kernel_id) if restart else kernels.shutdown(plan.kernel_id))
    return KernelActionResult(
        kernel_id=plan.kernel_id, action="restarted" if restart else "shut down"
    )


async def _interrupt(context: ToolContext, plan: KernelChangePlan) -> KernelActionResult:
    """Interrupt the kernel's running code, or one execution."""
    workspace, found = context.workspace, plan.kernel_id
    if plan.execution_id is not None:
        run = workspace.executions.get(context.caller, plan.execution_id)
        outcome = _OUTCOMES[await workspace.executions.cancel(run)]
        return KernelActionResult(kernel_id=run.kernel_id, action="interrupted", outcome=outcome)
    running = next(
        (run for run in workspace.executions.active(kernel_id=found) if run.current.started), None
    )
    if running is None:
        await workspace.kernels.interrupt(found)
        return KernelActionResult(kernel_id=found, action="interrupted")
    outcome = _OUTCOMES[await workspace.executions.cancel(running)]
    return KernelActionResult(kernel_id=found, action="interrupted", outcome=outcome)


async def _plan(
    context: ToolContext, verb: Verb, notebook: str | None, kernel_id: str | None
) -> KernelChangePlan:
    workspace, caller = context.workspace, context.caller
    path = await path_of_kernel(context, notebook, kernel_id)
    found = await workspace.kernel_id(caller, notebook, kernel_id, tool=_TOOLS[verb])
    return KernelChangePlan(verb, found, path)


@tool("EXECUTE", carry_out=_change, command="interrupt notebook")
async def interrupt_kernel(
    context: ToolContext,
    notebook: Notebook = None,
    kernel_id: KernelId = None,
    execution_id: str | None = None,
) -> KernelChangePlan:
    """Interrupt a kernel's running code; with `execution_id` only that execution, even if queued."""
    if execution_id is not None:
        run = context.workspace.executions.get(context.caller, execution_id)
        return KernelChangePlan("interrupt", run.kernel_id, run.path, execution_id)
    return await _plan(context, "interrupt", notebook, kernel_id)


@tool("EXECUTE", destructive=True, carry_out=_change, command="restart notebook")
async def restart_kernel(
    context: ToolContext, notebook: Notebook = None, kernel_id: KernelId = None
) -> KernelChangePlan:
    """Restart a kernel; its variables are lost."""
    return await _plan(context, "restart", notebook, kernel_id)


@tool("EXECUTE", destructive=True, carry_out=_change, command="stop notebook")
async def shutdown_kernel(
    context: ToolContext, notebook: Notebook = None, kernel_id: KernelId = None
) -> KernelChangePlan:
    """Shut down a kernel; its variables are lost."""
    return await _plan(context, "shut down", notebook, kernel_id)
