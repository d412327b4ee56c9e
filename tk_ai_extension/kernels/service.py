"""The kernels of a Jupyter Server (or of a bare kernel manager) as `kernels.base.Kernels`."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_core.utils import ensure_async

from tk_ai_extension.kernels.base import (
    Executor,
    KernelEnvironment,
    KernelInfo,
    Kernelspec,
    kernelspecs_of,
)
from tk_ai_extension.kernels.base_connection import Ending
from tk_ai_extension.kernels.collector import MAX_OUTPUT_BYTES
from tk_ai_extension.kernels.direct import DirectExecutor
from tk_ai_extension.kernels.environment import InheritedEnvironment
from tk_ai_extension.kernels.execution_listener import Timeouts
from tk_ai_extension.kernels.lifecycle import KernelService
from tk_ai_extension.kernels.local_kernel import LocalKernel, settled
from tk_ai_extension.kernels.process import Usage, UsageMeter, is_stopped, local_process
from tk_ai_extension.kernels.sockets import client_context
from tk_ai_extension.kernels.stack import (
    GuardedClient,
    GuardedStack,
    StackExecutor,
    StackUnavailable,
)
from tk_ai_extension.kernels.starter import Confine, KernelStarter
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.errors import (
    KernelBusy,
    KernelDied,
    KernelNotFound,
    KernelspecNotFound,
    KernelStartFailed,
    KernelUnsupported,
    ToolError,
)
from tk_ai_extension.model.executions import ExecutionRequest

if TYPE_CHECKING:
    from jupyter_client.multikernelmanager import MultiKernelManager

log = logging.getLogger(__name__)

Backend = Literal["auto", "stack", "direct"]

CLOSE_TIMEOUT = 2.0
"""Seconds in which launches must be complete when the service is closed."""

READY_TIMEOUT = 30.0
"""Seconds in which a kernel must answer."""


class JupyterKernels(KernelService[LocalKernel]):
    """Starts, finds, watches and stops the kernels of a multi-kernel manager.

    It works with jupyter_server's `AsyncMappingKernelManager` and jupyter_client's
    `AsyncMultiKernelManager`, including kernels that other clients started there. A kernel is watched
    from its first use.

    Args:
        manager: The multi-kernel manager.
        specs: The kernelspec manager; by default the manager's.
        environment: Chooses the environment of the kernels that this service starts.
        ready_timeout: Seconds in which a kernel must answer.
        root: The folder that paths are relative to, for a manager without a root of its own.
        timeouts: How long executors wait for messages that do not arrive.
        max_output_bytes: Limit of the outputs that are kept for one execution.
        stack: jupyter_server_nbmodel's ExecutionStack if that extension is enabled, else None.
        backend: ``auto`` uses the stack if there is one; ``stack`` also logs a warning if there is
            none. ``direct`` never uses it.
        confine: Returns the sandbox for a notebook's kernel, None for none. Called with the
            notebook's path before each start.
    """

    def __init__(
        self,
        manager: MultiKernelManager,
        specs: Any = None,
        *,
        environment: KernelEnvironment | None = None,
        ready_timeout: float = READY_TIMEOUT,
        root: Path | None = None,
        timeouts: Timeouts | None = None,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        stack: Any = None,
        backend: Backend = "auto",
        confine: Confine | None = None,
    ) -> None:
        super().__init__(manager, ready_timeout=ready_timeout)
        self._specs = specs or self._manager.kernel_spec_manager or KernelSpecManager()
        self._context = client_context()
        self._tasks = BackgroundTasks(log)
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._meters: dict[str, UsageMeter] = {}
        self._starter = KernelStarter(
            manager,
            self._specs,
            environment or InheritedEnvironment(),
            root=root,
            ready_timeout=ready_timeout,
            confine=confine,
            connect=self._connect_first,
            launched=self._launched,
            discard=self._discarded,
        )
        direct = DirectExecutor(self, timeouts=timeouts, max_output_bytes=max_output_bytes)
        self._guarded = self._guard(stack, backend)
        self._executor: Executor = (
            StackExecutor(self._guarded, direct) if self._guarded is not None else direct
        )

    # -- queries

    async def kernelspecs(self) -> list[Kernelspec]:
        """Return the installed kernelspecs, the default first."""
        return kernelspecs_of(self._specs.get_all_specs(), self._manager.default_kernel_name)

    async def info(self, kernel_id: str) -> KernelInfo:
        """Return what is known about a kernel. Raises KernelNotFound."""
        kernel = self._kernel(kernel_id)
        manager = kernel.manager
        state = kernel.state
        if state == "unknown" and kernel.ending is None:
            state = getattr(manager, "execution_state", None) or "unknown"
        process = local_process(manager)
        if is_stopped(manager):
            state = "stopped"
        usage = None if process is None else await self._usage(kernel_id, process.pid)
        spec = getattr(manager, "kernel_spec", None)
        return KernelInfo(
            id=kernel_id,
            name=manager.kernel_name,
            language=kernel.language or str(getattr(spec, "language", "")).lower(),
            state=state,
            memory=usage.memory if usage else None,
            cpu=usage.cpu if usage else None,
            uptime=usage.uptime if usage else None,
            pid=process.pid if process else None,
            restarts=kernel.restarts,
            sandboxed=getattr(manager.provisioner, "confinement", None) is not None,
        )

    async def _usage(self, kernel_id: str, pid: int) -> Usage | None:
        meter = self._meters.get(kernel_id)
        if meter is None or meter.pid != pid:
            meter = self._meters[kernel_id] = UsageMeter(pid)
        # It inspects every child process: off the event loop.
        return await asyncio.to_thread(meter.measure)

    # -- starting

    def _no_kernelspec(self, name: str, known: str) -> KernelspecNotFound:
        return KernelspecNotFound(f"No kernelspec `{name}` is installed. Installed: {known}.")

    async def _start(self, name: str, path: str | None) -> str:
        return await self._starter.start(name, path)

    async def _connect_first(self, kernel_id: str) -> None:
        await self._kernel(kernel_id).connect(first=True)

    async def _discard(self, kernel_id: str) -> None:
        await self._stop(kernel_id, now=True)
        if kernel_id in self._kernels:
            self._kernels[kernel_id].wake()
        watch = self._watches.get(kernel_id)
        if watch is not None:
            await asyncio.wait({watch})
        self._starter.forget(kernel_id)  # it is not watched before it is connected to

    # -- executing

    def _unresponsive(self, kernel: LocalKernel, late: str) -> ToolError:
        if kernel.ending is None:
            return KernelBusy(f"{late} but is alive: it is busy or stuck.")
        return KernelDied(f"{late}. {kernel.ending.message}")

    def _ended(self, kernel: LocalKernel, ending: Ending) -> ToolError:
        if ending.kind == "shutdown":
            return KernelNotFound(f"The kernel {kernel.id} was shut down.")
        return KernelDied(ending.message)

    def _guard(self, stack: Any, backend: Backend) -> GuardedStack | None:
        if backend == "direct":
            return None
        problem = "jupyter_server_nbmodel is not enabled"
        if stack is not None:
            try:
                return GuardedStack(stack, lambda kernel_id: GuardedClient(kernel_id, self))
            except StackUnavailable as error:
                problem = str(error)
        level = logging.WARNING if backend == "stack" or stack is not None else logging.INFO
        log.log(level, "Using the direct executor: %s", problem)
        return None

    # -- interrupting and stopping

    async def _interrupt(self, kernel_id: str, only: ExecutionRequest | None) -> None:
        kernel = self._kernel(kernel_id)
        if not kernel.is_ours:  # another process owns it: ask the kernel itself
            connection = await self.connection(kernel_id)
            if self._begin_interrupt(kernel, only):
                connection.request_interrupt()
            return
        if await kernel.queue.drain() or not kernel.is_settled:
            # The code to interrupt ended with its process; do not interrupt later code.
            await kernel.settled()
            self._kernel(kernel_id)
            return
        await kernel.answers()
        self._kernel(kernel_id)
        if not self._begin_interrupt(kernel, only):
            return
        try:
            await ensure_async(self._manager.interrupt_kernel(kernel_id))
        except RuntimeError as error:
            raise KernelDied(f"The kernel {kernel_id} cannot be interrupted: {error}") from error

    async def _restart(self, kernel_id: str) -> None:
        await self._kernel(kernel_id).settled()
        kernel = self._kernel(kernel_id)
        can_end = await ensure_async(kernel.manager.is_alive()) and await kernel.answers()
        self._kernel(kernel_id)
        try:
            # The request to shut down that a kernel does not read would reach its successor.
            await self._ask_for_restart(kernel_id, now=not can_end)
        except asyncio.InvalidStateError:
            log.info("Another client restarted kernel %s at the same time", kernel_id)
        except (OSError, RuntimeError) as error:
            message = f"The kernel {kernel_id} could not be restarted: {error}"
            raise KernelStartFailed(message) from error
        await self.wait_ready(kernel_id)

    async def _ask_for_restart(self, kernel_id: str, *, now: bool = False) -> None:
        answered: Any = await ensure_async(self._manager.restart_kernel(kernel_id, now=now))
        if asyncio.isfuture(answered):
            # jupyter_server's own wait for an answer; `wait_ready` reports failures.
            answered.add_done_callback(_retrieve)

    async def _shutdown(self, kernel_id: str) -> None:
        kernel = self._kernel(kernel_id)
        await self._stop(kernel_id)
        kernel.wake()
        watch = self._watches.get(kernel_id)
        if watch is not None:
            await asyncio.wait({watch})

    async def _stop(self, kernel_id: str, *, now: bool = False) -> None:
        """Have the manager shut a kernel down if it still has it."""
        if kernel_id in self._manager:
            await settled(self._manager.get_kernel(kernel_id))
        if kernel_id in self._manager:
            await ensure_async(self._manager.shutdown_kernel(kernel_id, now=now))

    async def close(self) -> None:
        """Close the connections; the kernels keep running."""
        await self._starts.close(grace=CLOSE_TIMEOUT)
        guarded, self._guarded = self._guarded, None
        if guarded is not None:
            await guarded.close()
        for kernel in list(self._kernels.values()):
            await kernel.queue.close()
        await self._tasks.close()
        self._context.destroy(linger=0)

    # -- one kernel

    def _kernel(self, kernel_id: str) -> LocalKernel:
        if kernel_id not in self._manager:
            if kernel_id in self._kernels:
                self._kernels[kernel_id].wake()
            raise KernelNotFound(f"No kernel `{kernel_id}` is running.")
        manager = self._manager.get_kernel(kernel_id)
        kernel = self._kernels.get(kernel_id)
        if kernel is not None and kernel.manager is manager:
            return kernel
        if not hasattr(manager, "provisioner") or hasattr(manager, "kernel_url"):
            raise KernelUnsupported(
                f"The kernel {kernel_id} belongs to a gateway, not this server."
            )
        kernel = self._kernels[kernel_id] = LocalKernel(
            kernel_id,
            manager,
            self._context,
            is_listed=lambda: kernel_id in self._manager,
            emit=self._emit,
            revive=lambda: self._revive(kernel_id),
        )
        watching = self._tasks.spawn(self._watch(kernel), f"Watching kernel {kernel_id}")
        self._watches[kernel_id] = watching
        return kernel

    def _stoppable(self, kernel_id: str) -> LocalKernel:
        kernel = self._kernel(kernel_id)
        if not kernel.is_ours:
            raise KernelUnsupported(
                f"Another process started the kernel {kernel_id}: only it can restart or stop it."
            )
        return kernel

    async def _watch(self, kernel: LocalKernel) -> None:
        try:
            ending = await kernel.watch()
            if ending.kind == "died":  # it is not restarted
                await self._stop(kernel.id, now=True)
            if self._guarded is not None:
                await self._guarded.forget(kernel.id)
        finally:
            await kernel.close()
            del self._kernels[kernel.id], self._watches[kernel.id]
            self._meters.pop(kernel.id, None)
            self._starter.forget(kernel.id)

    async def _revive(self, kernel_id: str) -> None:
        log.warning("Restarting kernel %s; its variables are lost", kernel_id)
        try:
            await self._ask_for_restart(kernel_id, now=True)
        except (OSError, RuntimeError) as error:
            log.warning("Kernel %s could not be restarted: %s", kernel_id, error)


def _retrieve(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
