"""The kernels of a Jupyter Server (or of a bare kernel manager) as `kernels.base.Kernels`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import zmq
import zmq.asyncio
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from tk_ai_extension.kernels.base import (
    Executor,
    KernelEnvironment,
    KernelEvent,
    KernelInfo,
    Kernelspec,
    KernelState,
    find_kernelspec,
    kernelspecs_of,
)
from tk_ai_extension.kernels.collector import MAX_OUTPUT_BYTES
from tk_ai_extension.kernels.environment import InheritedEnvironment
from tk_ai_extension.kernels.executor import (
    Connection,
    ConnectionClosed,
    KernelExecutor,
    Timeouts,
)
from tk_ai_extension.kernels.kernel import LocalKernel, TrackedKernel
from tk_ai_extension.kernels.process import (
    StderrTail,
    Usage,
    UsageMeter,
    is_stopped,
    local_process,
)
from tk_ai_extension.kernels.stack import StackQueue
from tk_ai_extension.model.background import BackgroundTasks, outcome
from tk_ai_extension.model.errors import (
    KernelBusy,
    KernelDied,
    KernelNotFound,
    KernelStartFailed,
    KernelUnsupported,
)
from tk_ai_extension.model.executions import ExecutionRequest

if TYPE_CHECKING:
    from jupyter_client.multikernelmanager import MultiKernelManager

    from tk_ai_extension.kernels.sandbox.provisioner import Confinement

log = logging.getLogger(__name__)

Backend = Literal["auto", "stack", "direct"]
Confine = Callable[[str | None], Coroutine[Any, Any, "Confinement | None"]]
"""Returns the sandbox for the kernel of a notebook's path, None for none."""

READY_TIMEOUT = 30.0
"""Seconds in which a kernel must answer."""

ANSWER_TIME = 5.0
"""Seconds to wait for the answer of a kernel that is to be restarted; then it is killed."""

START_ATTEMPTS = 3
"""How often a start is tried if a port was taken between its choice and its use."""

CLOSE_TIMEOUT = 3.0
"""Seconds in which launches must be complete when the service is closed."""

RECONNECT_INTERVAL = 20
"""Milliseconds between attempts to connect; short, so that a starting kernel is connected at once."""


class JupyterKernels:
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
        backend: ``auto`` joins the stack's queue if there is one; ``stack`` also logs a warning if
            there is none. ``direct`` never does.
        confine: Returns the sandbox for a notebook's kernel, None for none. Called with the
            notebook's path before each start.
    """

    own_executor = "direct"
    """The name of the executor if no stack is used."""

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
        self._manager: Any = manager  # its methods are annotated only in part
        self._specs = specs or getattr(manager, "kernel_spec_manager", None) or KernelSpecManager()
        self._environment = environment or InheritedEnvironment()
        self._ready_timeout = ready_timeout
        self._kernels: dict[str, Any] = {}  # of the class that `_track` makes
        self._listeners: dict[object, Callable[[KernelEvent], None]] = {}
        self._starts = BackgroundTasks(log)
        self._tasks = BackgroundTasks(log)
        self._context = zmq.asyncio.Context()
        # A flood is received as fast as it comes: the kernel drops what is not taken from it.
        self._context.setsockopt(zmq.RCVHWM, 0)
        self._context.setsockopt(zmq.RECONNECT_IVL, RECONNECT_INTERVAL)
        self._root = root
        self._confine = confine
        self._tails: dict[str, StderrTail] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._meters: dict[str, UsageMeter] = {}
        queue = None
        if stack is not None and backend != "direct":
            queue = StackQueue(stack, self.subscribe, self._state_of)
        elif backend != "direct":
            level = logging.WARNING if backend == "stack" else logging.INFO
            log.log(level, "Using the direct executor: jupyter_server_nbmodel is not enabled")
        self._executor = KernelExecutor(
            self,
            self.own_executor if queue is None else "stack",
            turn=None if queue is None else queue.turn,
            timeouts=timeouts,
            max_output_bytes=max_output_bytes,
        )

    @property
    def backend(self) -> str:
        """The name of the executor that runs code."""
        return self._executor.name

    def ids(self) -> list[str]:
        """Return the ids of running kernels, including those that a person started."""
        return list(self._manager.list_kernel_ids())

    def executor(self, kernel_id: str) -> Executor:
        """Return the executor for a kernel. Raises KernelNotFound."""
        self._kernel(kernel_id)
        return self._executor

    async def kernelspecs(self) -> list[Kernelspec]:
        """Return the kernelspecs, the default one first."""
        found: Mapping[str, Any] = await ensure_async(self._specs.get_all_specs())
        return kernelspecs_of(found, self._manager.default_kernel_name)

    async def start(self, kernel_name: str | None = None, *, path: str | None = None) -> str:
        """Start a kernel in the folder of ``path``, wait until it answers, and return its id.

        A launch is completed also if the caller is cancelled, and its kernel then discarded: one that
        was cancelled halfway would leave a kernel that is in no list.

        Raises:
            InvalidArguments, KernelStartFailed, KernelUnsupported, GatewayUnavailable.
        """
        wanted = kernel_name or self._manager.default_kernel_name
        name = find_kernelspec(await self.kernelspecs(), wanted).name
        for attempt in range(START_ATTEMPTS):
            launch = self._launch(name, path)
            kernel_id = await self._starts.complete(launch, "The start of a kernel", self._discard)
            problem = "nobody waits for it"
            try:
                problem = await self._first_problem(kernel_id, name)
                if not problem:
                    return kernel_id
                failure = self._start_failure(kernel_id, name, problem)
            finally:
                if problem:
                    discarding = self._starts.spawn(self._discard(kernel_id), "Discarding a kernel")
                    await asyncio.shield(discarding)
            if attempt == START_ATTEMPTS - 1 or "Address already in use" not in failure.message:
                raise failure
            log.warning("A port of the new kernel `%s` is in use: starting it again", name)
        raise AssertionError("the last attempt returns or raises")

    async def _first_problem(self, kernel_id: str, name: str) -> str:
        """Wait for a new kernel's first answer; return why there is none, or an empty string."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(self._ready_timeout):
                await self._kernel(kernel_id).connect(first=True)
        except TimeoutError:
            return f"did not answer within {self._ready_timeout:g} s"
        except ConnectionClosed as closed:
            return closed.ending.message.removeprefix("The kernel ").rstrip(".")
        log.info("Kernel %s (%s) answered after %.2f s", kernel_id, name, clock() - began)
        return ""

    async def wait_ready(self, kernel_id: str) -> float:
        """Wait for a kernel_info reply; return the seconds it took."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            await self.connection(kernel_id)
        except (KernelDied, KernelBusy) as error:
            raise KernelStartFailed(error.message) from error
        return clock() - began

    async def connection(self, kernel_id: str) -> Connection:
        """Return an open connection to the kernel.

        Raises:
            KernelNotFound, KernelDied, GatewayUnavailable.
            KernelBusy: it is alive but does not answer.
        """
        kernel = self._kernel(kernel_id)
        try:
            async with asyncio.timeout(self._ready_timeout):
                return await kernel.connect()
        except TimeoutError as error:
            late = f"The kernel {kernel_id} did not answer within {self._ready_timeout:g} s"
            if kernel.ending is not None:
                raise KernelDied(f"{late}. {kernel.ending.message}") from error
            raise KernelBusy(f"{late} but is alive: it is busy or stuck.") from error
        except ConnectionClosed as closed:
            if closed.ending.kind == "shutdown":
                raise KernelNotFound(f"The kernel {kernel_id} was shut down.") from closed
            raise KernelDied(closed.ending.message) from closed

    def is_stopping(self, kernel_id: str) -> bool:
        """Return whether a kernel is being shut down or restarted, as far as this server knows."""
        kernel = self._kernels.get(kernel_id)
        return kernel is None or kernel.stopping

    async def interrupt(self, kernel_id: str, *, only: ExecutionRequest | None = None) -> None:
        """Interrupt what a kernel runs; see `kernels.base.Kernels.interrupt`."""
        kernel = self._kernel(kernel_id)
        if kernel.stopping:
            return  # the code to interrupt ends with its process; later code is not interrupted
        # A kernel that has not answered yet may not have its signal handler: a signal would end it.
        connection = await self.connection(kernel_id)
        if connection.interrupting(only):
            await self._interrupt(kernel, connection)

    async def restart(self, kernel_id: str) -> None:
        """Restart a kernel and wait until it answers. Running executions end as kernel_restarted.

        Restarts that are requested at the same time are one. What has begun is completed even if the
        caller is cancelled: a manager whose restart was cancelled halfway is unusable.
        """
        kernel = self._stoppable(kernel_id)
        if kernel.restarting is None or kernel.restarting.done():

            async def restart() -> None:
                async with kernel.lock:
                    self._kernel(kernel_id)
                    await self._restart(kernel)

            kernel.restarting = asyncio.create_task(restart(), name=f"A restart of {kernel_id}")
            self._tasks.keep(kernel.restarting)
        await outcome(kernel.restarting, log)

    async def shutdown(self, kernel_id: str) -> None:
        """Shut a kernel down. Running executions end as kernel_died."""
        kernel = self._stoppable(kernel_id)

        async def shutdown() -> None:
            async with kernel.lock:
                self._kernel(kernel_id)
                await self._stop(kernel_id)

        kernel.restarting = None  # a restart that is requested from now on comes after it
        task = asyncio.create_task(shutdown(), name=f"A shutdown of {kernel_id}")
        self._tasks.keep(task)
        await outcome(task, log)

    def subscribe(self, listener: Callable[[KernelEvent], None]) -> Callable[[], None]:
        """Call ``listener`` for each `KernelEvent`; return an idempotent unsubscribe function."""
        subscription = object()
        self._listeners[subscription] = listener

        def unsubscribe() -> None:
            self._listeners.pop(subscription, None)

        return unsubscribe

    def _emit(self, event: KernelEvent) -> None:
        for listener in list(self._listeners.values()):  # a listener may change the subscriptions
            listener(event)

    def _state_of(self, kernel_id: str) -> KernelState:
        kernel = self._kernel(kernel_id)
        if kernel.state == "unknown" and kernel.ending is None:
            return getattr(kernel.manager, "execution_state", None) or "unknown"
        return kernel.state

    async def info(self, kernel_id: str) -> KernelInfo:
        """Return what is known about a kernel. Raises KernelNotFound."""
        kernel = self._kernel(kernel_id)
        manager = kernel.manager
        process = local_process(manager)
        state = "stopped" if is_stopped(manager) else self._state_of(kernel_id)
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

    async def _launch(self, name: str, path: str | None) -> str:
        arguments: dict[str, Any] = {}
        folder: str | None
        if hasattr(self._manager, "cwd_for_path"):
            arguments["path"] = path
            folder = self._manager.cwd_for_path(path) if path else None
        else:
            below = self._root and path and Path(self._root, path).parent
            folder = str(below or self._root) if self._root else None
            arguments["cwd"] = folder
        environment = dict(self._environment.environment(name, path))
        if path and folder:
            # As in Jupyter's session manager: gives the kernel's code the path of its notebook.
            environment["JPY_SESSION_NAME"] = str(Path(folder, Path(path).name))
        confinement = await self._confine(path) if self._confine is not None else None
        if confinement is not None:
            arguments["confinement"] = confinement
        kernel_id = str(uuid4())
        tail = StderrTail() if os.name == "posix" and self._is_local(name) else None
        if tail is not None:
            arguments["stderr"] = tail.descriptor
            self._tails[kernel_id] = tail
        try:
            await self._manager.start_kernel(
                kernel_name=name, kernel_id=kernel_id, env=environment, **arguments
            )
        except BaseException as error:
            self._forget(kernel_id)
            # jupyter_client keeps it as pending, and shutdown_all then fails to stop it.
            getattr(self._manager, "_pending_kernels", {}).pop(kernel_id, None)
            if isinstance(error, OSError | RuntimeError | ValueError | HTTPError):
                message = f"The kernel `{name}` could not be started: {error}"
                raise KernelStartFailed(message) from error
            raise
        if tail is not None:
            # After a restart stderr is inherited: the pipe ends with this process of the kernel.
            launched: Any = getattr(self._manager.get_kernel(kernel_id), "_launch_args", {})
            if launched.pop("stderr", None) is not None:
                tail.hand_over()
        if confinement is None and await self._discard_unconfined(kernel_id, path):
            return await self._launch(name, path)
        return kernel_id

    async def _discard_unconfined(self, kernel_id: str, path: str | None) -> bool:
        """Discard a kernel if a sandbox was switched on while it started; return whether it was."""
        if self._confine is None:
            return False
        try:
            if await self._confine(path) is None:
                return False
        except BaseException:
            await self._discard(kernel_id)
            raise
        await self._discard(kernel_id)
        return True

    def _is_local(self, name: str) -> bool:
        """Return whether a kernelspec's kernels are child processes of this one."""
        provisioner = self._specs.get_kernel_spec(name).metadata.get("kernel_provisioner")
        return not provisioner or provisioner.get("provisioner_name") == "local-provisioner"

    def _start_failure(self, kernel_id: str, name: str, problem: str) -> KernelStartFailed:
        tail = self._tails.get(kernel_id)
        said = tail.text if tail is not None else ""
        wrote = f" Its last output:\n{said}" if said else ""
        return KernelStartFailed(f"The kernel `{name}` {problem}.{wrote}", stderr=said)

    async def _discard(self, kernel_id: str) -> None:
        """Remove the remains of a kernel that did not start or that nobody waits for."""
        await self._stop(kernel_id, now=True)
        self._forget(kernel_id)  # it is not watched before it is connected to

    def _forget(self, kernel_id: str) -> None:
        self._meters.pop(kernel_id, None)
        tail = self._tails.pop(kernel_id, None)
        if tail is not None:
            tail.close()

    # -- interrupting and stopping

    async def _interrupt(self, kernel: TrackedKernel, connection: Connection) -> None:
        if not kernel.is_ours:  # another process owns it: ask the kernel itself
            connection.request_interrupt()
            return
        try:
            await ensure_async(self._manager.interrupt_kernel(kernel.id))
        except RuntimeError as error:
            raise KernelDied(f"The kernel {kernel.id} cannot be interrupted: {error}") from error

    async def _restart(self, kernel: TrackedKernel) -> None:
        await kernel.settled()
        # The request to shut down that a kernel does not read would reach its successor.
        kill = True
        with suppress(TimeoutError, ConnectionClosed):
            async with asyncio.timeout(ANSWER_TIME):
                await kernel.connect()
                kill = False
        self._kernel(kernel.id)
        try:
            answered = await ensure_async(self._manager.restart_kernel(kernel.id, now=kill))
            if asyncio.isfuture(answered):
                # jupyter_server's own wait for an answer; `wait_ready` reports failures.
                answered.add_done_callback(lambda done: done.cancelled() or done.exception())
        except asyncio.InvalidStateError:
            log.info("Another client restarted kernel %s at the same time", kernel.id)
        except (OSError, RuntimeError) as error:
            message = f"The kernel {kernel.id} could not be restarted: {error}"
            raise KernelStartFailed(message) from error
        await self.wait_ready(kernel.id)

    async def _stop(self, kernel_id: str, *, now: bool = False) -> None:
        """Have the manager shut a kernel down if it still has it, and wait for the end."""
        watch = self._watches.get(kernel_id)
        if kernel_id in self._kernels:
            await self._kernels[kernel_id].settled()
        if kernel_id in self._manager:
            await ensure_async(self._manager.shutdown_kernel(kernel_id, now=now))
        if watch is not None and watch is not asyncio.current_task():
            await asyncio.wait({watch})

    async def close(self) -> None:
        """Close the connections; the kernels keep running."""
        await self._starts.close(grace=CLOSE_TIMEOUT)
        await self._tasks.close()
        for tail in self._tails.values():
            tail.close()
        self._context.destroy(linger=0)

    # -- one kernel

    def _kernel(self, kernel_id: str) -> Any:
        """Return the kernel, which is watched from now on. Raises KernelNotFound."""
        if kernel_id not in self._manager:
            raise KernelNotFound(f"No kernel `{kernel_id}` is running.")
        manager = self._manager.get_kernel(kernel_id)
        kernel = self._kernels.get(kernel_id)
        if kernel is None or kernel.manager is not manager:
            kernel = self._kernels[kernel_id] = self._track(
                kernel_id,
                manager,
                is_listed=lambda: kernel_id in self._manager,
                emit=self._emit,
            )
            watching = self._tasks.spawn(self._watch(kernel), f"Watching kernel {kernel_id}")
            self._watches[kernel_id] = watching
        return kernel

    def _track(self, kernel_id: str, manager: Any, **observed: Any) -> TrackedKernel:
        return LocalKernel(kernel_id, manager, context=self._context, **observed)

    def _stoppable(self, kernel_id: str) -> TrackedKernel:
        """Return a kernel that may be restarted and shut down. Raises KernelUnsupported."""
        kernel = self._kernel(kernel_id)
        if not kernel.is_ours:
            raise KernelUnsupported(
                f"Another process started the kernel {kernel_id}: only it can restart or stop it."
            )
        return kernel

    async def _watch(self, kernel: TrackedKernel) -> None:
        try:
            ending = await kernel.watch()
            if ending.kind == "died":  # it is not restarted
                await self._stop(kernel.id, now=True)
        finally:
            await kernel.close()
            if self._kernels.get(kernel.id) is kernel:
                del self._kernels[kernel.id], self._watches[kernel.id]
            self._forget(kernel.id)
