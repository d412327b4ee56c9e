"""The lifecycle of kernels, local or behind a gateway: a service, and its record of each kernel.

`JupyterKernels` (on this machine) and `GatewayKernels` (behind a gateway) are the two adapters.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tk_ai_extension.kernels.base import (
    Executor,
    KernelEvent,
    Kernelspec,
    KernelState,
)
from tk_ai_extension.kernels.base_connection import BaseKernelConnection, ConnectionClosed, Ending
from tk_ai_extension.kernels.collector import OTHER_DISPLAY_MIME, OutputCollector
from tk_ai_extension.model.background import BackgroundTasks, outcome
from tk_ai_extension.model.errors import (
    KernelBusy,
    KernelDied,
    KernelspecNotFound,
    KernelStartFailed,
    ToolError,
)
from tk_ai_extension.model.executions import ExecutionRequest

if TYPE_CHECKING:
    from jupyter_client.manager import KernelManager
    from jupyter_client.multikernelmanager import MultiKernelManager

log = logging.getLogger(__name__)

Action = Callable[[], Coroutine[Any, Any, None]]

INTERRUPT_DELAY = 0.1
"""Seconds from the start of code in which it is not interrupted by `only`.

Short code ends before its end is received: the interrupt would reach the next client's code.
"""

LOST = "The connection to the kernel was lost: whether the code ran to its end is unknown."


class LifecycleQueue:
    """Runs restarts and shutdowns of one kernel in the order in which they were requested.

    An action that has begun is completed even if the caller is cancelled: a jupyter_client manager
    whose restart was cancelled halfway is unusable.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._tasks = BackgroundTasks(log)
        self._last: tuple[str, asyncio.Task[None]] | None = None

    async def run(self, kind: str, action: Action, *, join: bool = False) -> None:
        """Run an action after the ones that were requested earlier.

        Args:
            kind: Its name.
            action: The action.
            join: Whether to wait for the last requested action instead if it is of the same kind and
                still pending.
        """
        if join and self._last is not None and self._last[0] == kind:
            await outcome(self._last[1], log)
            return
        task = asyncio.create_task(self._run(action), name=f"A {kind} of a kernel")
        self._last = (kind, task)
        self._tasks.keep(task)
        task.add_done_callback(self._done)
        await outcome(task, log)

    async def drain(self) -> bool:
        """Wait until no action is left; return whether there was any."""
        had_any = bool(self._tasks)
        await self._tasks.join()
        return had_any

    async def close(self) -> None:
        """Cancel the actions that have not ended."""
        await self._tasks.close()

    async def _run(self, action: Action) -> None:
        async with self._lock:
            await action()

    def _done(self, task: asyncio.Task[None]) -> None:
        if self._last is not None and self._last[1] is task:
            self._last = None


class TrackedKernel(ABC):
    """A kernel through all its incarnations; an `Observer` of its connection.

    Args:
        kernel_id: Its id.
        manager: Its kernel manager.
        is_listed: Returns whether the server still has the kernel.
        emit: Called with each `KernelEvent`.
    """

    def __init__(
        self,
        kernel_id: str,
        manager: KernelManager,
        *,
        is_listed: Callable[[], bool],
        emit: Callable[[KernelEvent], None],
    ) -> None:
        self.id = kernel_id
        self.manager: Any = manager  # its attributes are traits
        self.restarts: int = 0
        self.language: str = ""
        self.state: KernelState = "unknown"
        self.queue = LifecycleQueue()
        """The restarts and shutdowns that were requested through this server."""
        self.ending: Ending | None = None
        """Why the kernel no longer answers; None while it may."""
        self._is_listed = is_listed
        self._emit = emit
        self._connecting = asyncio.Lock()
        self._connection: Any = None

    @abstractmethod
    async def connect(self, *, first: bool = False) -> BaseKernelConnection:
        """Return the open connection, or open one and wait until the kernel answers.

        Waits for a kernel that is being restarted, without a timeout.

        Args:
            first: Whether the kernel was just started: it must then answer on its shell channel, which
                a running cell would block, and is not retried if it dies.

        Raises:
            ConnectionClosed: the kernel is gone.
            GatewayUnavailable: its gateway cannot be reached.
        """

    @property
    @abstractmethod
    def connection(self) -> BaseKernelConnection | None:
        """The connection, if one is open."""

    @property
    @abstractmethod
    def stopping(self) -> bool:
        """Whether it is being shut down or restarted, as far as this server knows."""

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """Whether no start or stop of it is under way."""

    def on_run(self, code: str, execution_count: int | None, parent: Mapping[str, Any]) -> None:
        """Emit that code begins to run, whichever client submitted it."""
        connection = self._connection
        ours = connection is not None and connection.is_ours(str(parent.get("msg_id")))
        self._notify("ran", code=code, execution_count=execution_count, ours=ours)

    def on_display_update(self, content: Mapping[str, Any]) -> None:
        """Emit the new content of a display that another client's code has updated."""
        collector = OutputCollector()
        collector.add("update_display_data", content)
        for event in collector.drain_events():
            if event.mime == OTHER_DISPLAY_MIME:
                self._notify("display", display=event.data)

    def _set_state(self, state: KernelState) -> None:
        if state != self.state:
            self.state = state
            self._notify("state")

    def _set_language(self, kernel_info: Mapping[str, Any]) -> None:
        about: Any = kernel_info.get("language_info") or {}
        self.language = str(about.get("name", "")).lower()

    def _notify(self, kind: Any, **fields: Any) -> None:
        self._emit(KernelEvent(self.id, kind, self.state, **fields))


Tracked = TypeVar("Tracked", bound=TrackedKernel)


class KernelService(ABC, Generic[Tracked]):
    """The common part of services over kernels; see `kernels.base.Kernels`.

    Args:
        manager: The multi-kernel manager.
        ready_timeout: Seconds in which a kernel must answer.
    """

    _executor: Executor

    def __init__(self, manager: MultiKernelManager, *, ready_timeout: float) -> None:
        self._manager: Any = manager  # its methods are annotated only in part
        self._ready_timeout = ready_timeout
        self._kernels: dict[str, Tracked] = {}
        self._listeners: dict[object, Callable[[KernelEvent], None]] = {}
        self._starts = BackgroundTasks(log)

    @property
    def backend(self) -> str:
        """The name of the executor that runs code by default."""
        return self._executor.name

    def ids(self) -> list[str]:
        """Return the ids of running kernels, including those that a person started."""
        return list(self._manager.list_kernel_ids())

    def executor(self, kernel_id: str) -> Executor:
        """Return the executor for a kernel. Raises KernelNotFound."""
        self._kernel(kernel_id)
        return self._executor

    @abstractmethod
    async def kernelspecs(self) -> list[Kernelspec]:
        """Return the kernelspecs, the default one first."""

    async def start(self, kernel_name: str | None = None, *, path: str | None = None) -> str:
        """Start a kernel in the folder of ``path``, wait until it answers, and return its id.

        Raises:
            KernelspecNotFound, KernelStartFailed, SandboxUnavailable, GatewayUnavailable.
        """
        specs = await self.kernelspecs()  # a gateway's default is known only after this
        name = kernel_name or self._manager.default_kernel_name
        if name not in {spec.name for spec in specs}:
            raise self._no_kernelspec(name, ", ".join(spec.name for spec in specs) or "none")
        return await self._start(name, path)

    async def _launched(self, launch: Coroutine[Any, Any, str]) -> str:
        """Await a launch and return its kernel's id.

        A launch that was cancelled halfway would leave a kernel that is in no list. If the caller is
        cancelled, the launch is completed and its kernel discarded.
        """
        return await self._starts.complete(launch, "The start of a kernel", self._discard)

    async def _discarded(self, kernel_id: str) -> None:
        """Discard a kernel; completed even if the caller is cancelled."""
        await asyncio.shield(self._starts.spawn(self._discard(kernel_id), "Discarding a kernel"))

    async def wait_ready(self, kernel_id: str) -> float:
        """Wait for a kernel_info reply; return the seconds it took."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            await self.connection(kernel_id)
        except (KernelDied, KernelBusy) as error:
            raise KernelStartFailed(error.message) from error
        return clock() - began

    async def connection(self, kernel_id: str) -> Any:
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
            raise self._unresponsive(kernel, late) from error
        except ConnectionClosed as closed:
            raise self._ended(kernel, closed.ending) from closed

    def is_stopping(self, kernel_id: str) -> bool:
        """Return whether a kernel is being shut down or restarted, as far as this server knows."""
        kernel = self._kernels.get(kernel_id)
        return kernel is None or kernel.stopping

    async def interrupt(self, kernel_id: str, *, only: ExecutionRequest | None = None) -> None:
        """Interrupt what a kernel runs; see `kernels.base.Kernels.interrupt`."""
        connection = self._kernel(kernel_id).connection
        if only is not None:
            began = None if connection is None else connection.running_since(only)
            if began is None:
                return
            await asyncio.sleep(began + INTERRUPT_DELAY - asyncio.get_running_loop().time())
        await self._interrupt(kernel_id, only)

    def _begin_interrupt(self, kernel: Tracked, only: ExecutionRequest | None) -> bool:
        """Notify the listeners of an interrupt; return False if it must not be sent."""
        connection = kernel.connection
        if only is not None and (connection is None or connection.running_since(only) is None):
            return False
        if connection is not None:
            connection.interrupted()
        return True

    async def restart(self, kernel_id: str) -> None:
        """Restart a kernel and wait until it answers. Running executions end as kernel_restarted."""
        kernel = self._stoppable(kernel_id)
        await kernel.queue.run("restart", lambda: self._restart(kernel_id), join=True)

    async def shutdown(self, kernel_id: str) -> None:
        """Shut a kernel down. Running executions end as kernel_died."""
        kernel = self._stoppable(kernel_id)
        await kernel.queue.run("shutdown", lambda: self._shutdown(kernel_id))

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

    # -- for adapters to implement

    @abstractmethod
    def _kernel(self, kernel_id: str) -> Tracked:
        """Return the kernel. Raises KernelNotFound."""

    def _stoppable(self, kernel_id: str) -> Tracked:
        """Return a kernel that may be restarted and shut down. Raises KernelUnsupported."""
        return self._kernel(kernel_id)

    @abstractmethod
    def _no_kernelspec(self, name: str, known: str) -> KernelspecNotFound: ...

    @abstractmethod
    async def _start(self, name: str, path: str | None) -> str:
        """Start a kernel with `_launched`, and wait until it answers; if it does not, `_discarded`."""

    @abstractmethod
    async def _discard(self, kernel_id: str) -> None:
        """Remove the remains of a kernel that did not start or that nobody waits for."""

    @abstractmethod
    async def _interrupt(self, kernel_id: str, only: ExecutionRequest | None) -> None:
        """Send an interrupt at once if `_begin_interrupt`, called last, allows it."""

    @abstractmethod
    async def _restart(self, kernel_id: str) -> None: ...

    @abstractmethod
    async def _shutdown(self, kernel_id: str) -> None: ...

    @abstractmethod
    def _unresponsive(self, kernel: Tracked, late: str) -> ToolError:
        """Return the error for a kernel that did not answer in time."""

    @abstractmethod
    def _ended(self, kernel: Tracked, ending: Ending) -> ToolError:
        """Return the error for a kernel that is gone."""
