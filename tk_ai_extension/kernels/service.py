"""The kernels of a Jupyter Server (or of a bare kernel manager) as `kernels.base.Kernels`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_core.utils import ensure_async

from tk_ai_extension.kernels.base import (
    Executor,
    KernelEnvironment,
    KernelEvent,
    KernelInfo,
    Kernelspec,
    kernelspecs_of,
)
from tk_ai_extension.kernels.collector import MAX_OUTPUT_BYTES
from tk_ai_extension.kernels.connection import KernelConnection
from tk_ai_extension.kernels.conversation import ConnectionClosed
from tk_ai_extension.kernels.direct import DirectExecutor
from tk_ai_extension.kernels.environment import InheritedEnvironment
from tk_ai_extension.kernels.kernel import LiveKernel
from tk_ai_extension.kernels.listeners import KernelListeners
from tk_ai_extension.kernels.process import Usage, UsageMeter, is_stopped, local_process
from tk_ai_extension.kernels.run import Patience
from tk_ai_extension.kernels.sockets import client_context
from tk_ai_extension.kernels.stack import (
    GuardedClient,
    GuardedStack,
    StackExecutor,
    StackUnavailable,
)
from tk_ai_extension.kernels.starting import Confine, KernelStarter
from tk_ai_extension.model.errors import (
    KernelBusy,
    KernelDied,
    KernelNotFound,
    KernelspecNotFound,
    KernelStartFailed,
    KernelUnsupported,
)

log = logging.getLogger(__name__)

Backend = Literal["auto", "stack", "direct"]

READY_TIMEOUT = 30.0
"""Seconds in which a kernel must answer."""


class JupyterKernels:
    """Starts, finds, watches and stops the kernels of a multi-kernel manager.

    It works with jupyter_server's `AsyncMappingKernelManager` and with jupyter_client's
    `AsyncMultiKernelManager`, and with kernels that others have started there. A kernel is watched
    from when it is first asked for.

    Args:
        manager: The multi-kernel manager.
        specs: The kernelspec manager; the manager's own unless given.
        environment: What the environment of a kernel that we start holds.
        ready_timeout: Seconds in which a kernel must answer.
        root: The folder that paths are relative to, for a manager that has no notion of it.
        capture_stderr: Whether the kernels that we start write their stderr through a pipe, which
            puts it into the error if one does not start. Kernels that outlive us must not.
        patience: How long executors wait for what does not come.
        max_output_bytes: The bound of what is kept of one execution's outputs.
        stack: jupyter_server_nbmodel's ExecutionStack, where that extension is enabled.
        backend: ``auto`` takes the stack where there is one; ``stack`` says so in the log where
            there is none, and takes direct.
        confine: The sandbox that the kernel of a notebook is to have, None for none. Asked before
            each start, with the notebook's path.
    """

    def __init__(
        self,
        manager: Any,
        specs: Any = None,
        *,
        environment: KernelEnvironment | None = None,
        ready_timeout: float = READY_TIMEOUT,
        root: Path | None = None,
        capture_stderr: bool = True,
        patience: Patience | None = None,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        stack: Any = None,
        backend: Backend = "auto",
        confine: Confine | None = None,
    ) -> None:
        self._manager = manager
        self._specs = specs or manager.kernel_spec_manager or KernelSpecManager()
        self._ready_timeout = ready_timeout
        self._context = client_context()
        self._kernels: dict[str, LiveKernel] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._meters: dict[str, UsageMeter] = {}
        self._listeners = KernelListeners()
        self._starter = KernelStarter(
            manager,
            self._specs,
            environment or InheritedEnvironment(),
            root=root,
            capture_stderr=capture_stderr,
            ready_timeout=ready_timeout,
            confine=confine,
            connect=self._connect_first,
            discard=self._discard,
        )
        direct = DirectExecutor(self, patience=patience, max_output_bytes=max_output_bytes)
        self._guarded = self._guard(stack, backend)
        self._executor: Executor = (
            StackExecutor(self._guarded, direct) if self._guarded is not None else direct
        )

    # -- what there is

    async def kernelspecs(self) -> list[Kernelspec]:
        """The installed kernelspecs, the default one first."""
        return kernelspecs_of(self._specs.get_all_specs(), self._manager.default_kernel_name)

    def ids(self) -> list[str]:
        """The ids of running kernels, those that a person started too."""
        return list(self._manager.list_kernel_ids())

    async def info(self, kernel_id: str) -> KernelInfo:
        """What is known of a kernel."""
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
            memory=usage and usage.memory,
            cpu=usage and usage.cpu,
            uptime=usage and usage.uptime,
            pid=process and process.pid,
            restarts=kernel.restarts,
            sandboxed=getattr(manager.provisioner, "confinement", None) is not None,
        )

    async def _usage(self, kernel_id: str, pid: int) -> Usage | None:
        meter = self._meters.get(kernel_id)
        if meter is None or meter.pid != pid:
            meter = self._meters[kernel_id] = UsageMeter(pid)
        # It looks at every child: off the loop.
        return await asyncio.to_thread(meter.look)

    # -- starting

    async def start(self, kernel_name: str | None = None, *, path: str | None = None) -> str:
        """Starts a kernel in the folder of ``path`` and waits until it answers; returns its id."""
        name = kernel_name or self._manager.default_kernel_name
        specs = await self.kernelspecs()
        if name not in {spec.name for spec in specs}:
            known = ", ".join(spec.name for spec in specs) or "none"
            raise KernelspecNotFound(f"No kernelspec `{name}` is installed (there are: {known}).")
        return await self._starter.start(name, path)

    async def _connect_first(self, kernel_id: str) -> None:
        await self._kernel(kernel_id).connect(first=True)

    async def _discard(self, kernel_id: str) -> None:
        """Removes what is left of a kernel that did not start."""
        if kernel_id in self._manager:
            await self._manager.shutdown_kernel(kernel_id, now=True)
        if kernel_id in self._kernels:
            self._kernels[kernel_id].stir()
        watch = self._watches.get(kernel_id)
        if watch is not None:
            await asyncio.wait({watch})

    async def wait_ready(self, kernel_id: str) -> float:
        """Waits for a kernel_info reply; returns the seconds it took."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            await self.connection(kernel_id)
        except (KernelDied, KernelBusy) as error:
            raise KernelStartFailed(error.message) from error
        return clock() - began

    # -- executing

    async def connection(self, kernel_id: str) -> KernelConnection:
        """An open connection to the kernel.

        Raises:
            KernelNotFound, KernelDied.
            KernelBusy: it lives and does not answer.
        """
        kernel = self._kernel(kernel_id)
        try:
            async with asyncio.timeout(self._ready_timeout):
                return await kernel.connect()
        except TimeoutError as error:
            late = f"The kernel {kernel_id} did not answer within {self._ready_timeout:g} s"
            if kernel.ending is None:
                raise KernelBusy(f"{late}, but it lives: it is busy or stuck.") from error
            raise KernelDied(f"{late}. {kernel.ending.message}") from error
        except ConnectionClosed as closed:
            if closed.ending.kind == "shutdown":
                raise KernelNotFound(f"The kernel {kernel_id} was shut down.") from closed
            raise KernelDied(closed.ending.message) from closed

    def is_stopping(self, kernel_id: str) -> bool:
        """Whether somebody is shutting the kernel down or restarting it just now."""
        kernel = self._kernels.get(kernel_id)
        return kernel is None or kernel.stopping

    def executor(self, kernel_id: str) -> Executor:
        """The executor that ``auto`` (or the configured choice) takes for this kernel now."""
        self._kernel(kernel_id)
        return self._executor

    @property
    def backend(self) -> str:
        """The name of the executor that runs code where nothing else is known of a kernel."""
        return self._executor.name

    def connection_info(self, kernel_id: str) -> dict[str, Any]:
        """Where the kernel listens now."""
        return self._kernel(kernel_id).manager.get_connection_info(session=False)

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
        log.log(level, "Executions go direct: %s", problem)
        return None

    # -- interrupting and ending

    async def interrupt(self, kernel_id: str) -> None:
        """Interrupts what the kernel runs."""
        kernel = self._kernel(kernel_id)
        if kernel.connection is not None:
            kernel.connection.interrupted()
        if not kernel.is_ours:  # its process is another's: it has to do it itself
            (await self.connection(kernel_id)).request_interrupt()
            return
        if await kernel.turns.over() or not kernel.is_settled:
            # What it ran has ended with its process; what comes after is not what was meant.
            await kernel.settled()
            self._kernel(kernel_id)
            return
        try:
            await ensure_async(self._manager.interrupt_kernel(kernel_id))
        except RuntimeError as error:
            raise KernelDied(f"The kernel {kernel_id} cannot be interrupted: {error}") from error

    async def restart(self, kernel_id: str) -> None:
        """Restarts it and waits until it answers. Running executions end as kernel_restarted."""
        kernel = self._our_kernel(kernel_id)
        await kernel.turns.take("restart", lambda: self._do_restart(kernel_id), join=True)

    async def _do_restart(self, kernel_id: str) -> None:
        await self._kernel(kernel_id).settled()
        self._kernel(kernel_id)
        try:
            await self._restart(kernel_id)
        except asyncio.InvalidStateError:
            log.info("Kernel %s was restarted by somebody else at the same time", kernel_id)
        except (OSError, RuntimeError) as error:
            message = f"The kernel {kernel_id} could not be started again: {error}"
            raise KernelStartFailed(message) from error
        await self.wait_ready(kernel_id)

    async def _restart(self, kernel_id: str, *, now: bool = False) -> None:
        answered: Any = await ensure_async(self._manager.restart_kernel(kernel_id, now=now))
        if asyncio.isfuture(answered):
            # jupyter_server's own wait for an answer; we wait ourselves, its failure is no news.
            answered.add_done_callback(_retrieve)

    async def shutdown(self, kernel_id: str) -> None:
        """Shuts it down. Running executions end as kernel_died."""
        kernel = self._our_kernel(kernel_id)
        await kernel.turns.take("shutdown", lambda: self._do_shutdown(kernel_id))

    async def _do_shutdown(self, kernel_id: str) -> None:
        kernel = self._kernel(kernel_id)
        await kernel.settled()  # jupyter_client cannot stop what is just being started again
        if kernel_id in self._manager:
            await ensure_async(self._manager.shutdown_kernel(kernel_id))
        kernel.stir()
        watch = self._watches.get(kernel_id)
        if watch is not None:
            await asyncio.wait({watch})

    # -- events

    def subscribe(self, listener: Callable[[KernelEvent], None]) -> Callable[[], None]:
        """Calls ``listener`` for each `KernelEvent`; returns how to stop that."""
        return self._listeners.add(listener)

    async def close(self) -> None:
        """Closes connections; leaves kernels as they are."""
        guarded, self._guarded = self._guarded, None
        if guarded is not None:
            await guarded.close()
        for kernel in list(self._kernels.values()):
            await kernel.turns.close()
        for watch in self._watches.values():
            watch.cancel()
        if self._watches:
            await asyncio.wait(self._watches.values())
        self._context.destroy(linger=0)

    # -- one kernel

    def _kernel(self, kernel_id: str) -> LiveKernel:
        if kernel_id not in self._manager:
            if kernel_id in self._kernels:
                self._kernels[kernel_id].stir()
            raise KernelNotFound(f"There is no running kernel {kernel_id}.")
        manager = self._manager.get_kernel(kernel_id)
        kernel = self._kernels.get(kernel_id)
        if kernel is not None and kernel.manager is manager:
            return kernel
        if not hasattr(manager, "provisioner") or hasattr(manager, "kernel_url"):
            raise KernelUnsupported(f"The kernel {kernel_id} is a gateway's, not this server's.")
        kernel = self._kernels[kernel_id] = LiveKernel(
            kernel_id,
            manager,
            self._context,
            is_listed=lambda: kernel_id in self._manager,
            emit=self._listeners.notify,
            revive=lambda: self._revive(kernel_id),
        )
        watch = self._watches[kernel_id] = asyncio.create_task(self._watch(kernel))
        watch.add_done_callback(_log_failure)
        return kernel

    def _our_kernel(self, kernel_id: str) -> LiveKernel:
        kernel = self._kernel(kernel_id)
        if not kernel.is_ours:
            raise KernelUnsupported(f"The kernel {kernel_id} is another process's to stop.")
        return kernel

    async def _watch(self, kernel: LiveKernel) -> None:
        try:
            ending = await kernel.watch()
            if ending.kind == "died" and kernel.id in self._manager:  # it is not started again
                await self._manager.shutdown_kernel(kernel.id, now=True)
            if self._guarded is not None:
                await self._guarded.forget(kernel.id)
        finally:
            await kernel.close()
            del self._kernels[kernel.id], self._watches[kernel.id]
            self._meters.pop(kernel.id, None)
            self._starter.forget(kernel.id)

    async def _revive(self, kernel_id: str) -> None:
        log.warning("Kernel %s is started again; its variables are gone", kernel_id)
        try:
            await self._restart(kernel_id, now=True)
        except (OSError, RuntimeError) as error:
            log.warning("Kernel %s could not be started again: %s", kernel_id, error)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("A kernel is no longer watched", exc_info=error)


def _retrieve(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
