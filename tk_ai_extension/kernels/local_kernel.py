"""A kernel of this machine: watches its process, keeps one connection, and emits its events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Future as ThreadFuture
from typing import TYPE_CHECKING, Any

import zmq

from tk_ai_extension.kernels.base import KernelEvent, KernelState
from tk_ai_extension.kernels.base_connection import BaseKernelConnection, ConnectionClosed, Ending
from tk_ai_extension.kernels.connection import KernelConnection
from tk_ai_extension.kernels.lifecycle import LOST, TrackedKernel
from tk_ai_extension.kernels.process import describe_exit, local_process, process_end

if TYPE_CHECKING:
    from jupyter_client.manager import KernelManager

log = logging.getLogger(__name__)

DRAIN_TIMEOUT = 2.0
"""Seconds to wait for a kernel's last messages after its process has ended."""

SETTLE_INTERVAL = 0.5
"""Seconds between checks whether a manager has replaced its `ready` future."""

BOOT_TIME = 5.0
"""Seconds to wait for the first answer of an incarnation before a signal is sent to it."""

STABLE_TIME = 10.0
"""Seconds after which a kernel counts as started successfully."""

RETURN_TIMEOUT = 30.0
"""Seconds to wait for a kernel of another process that was lost. Later, its next use connects."""

RESTART_LIMIT = 3
"""How often in a row a kernel that dies within `STABLE_TIME` seconds of its start is restarted."""


class LocalKernel(TrackedKernel):
    """Watches a kernel through all its incarnations until it is shut down or stays dead.

    Args:
        kernel_id: Its id.
        manager: Its `jupyter_client.KernelManager`.
        context: Makes its sockets (`client_context`).
        is_listed: Returns whether the server still has the kernel.
        emit: Called with each `KernelEvent`.
        revive: Restarts a dead kernel if Jupyter's own restarter does not.
    """

    def __init__(
        self,
        kernel_id: str,
        manager: KernelManager,
        context: zmq.Context[Any],
        *,
        is_listed: Callable[[], bool],
        emit: Callable[[KernelEvent], None],
        revive: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(kernel_id, manager, is_listed=is_listed, emit=emit)
        self._context = context
        self._revive = revive
        self._connection: KernelConnection | None = None
        self._reconnecting: asyncio.Task[None] | None = None
        self._alive = asyncio.Event()
        self._alive.set()
        self._has_answered = False  # this incarnation
        self._woken = asyncio.Event()
        self._disconnected = asyncio.Event()
        self._quick_deaths = 0
        self._stop_announced: bool | None = None  # on iopub: whether for a restart
        for event in ("restart", "dead"):
            self.manager.add_restart_callback(self.wake, event)

    # -- connecting

    async def connect(self, *, first: bool = False) -> KernelConnection:
        """Return the open connection; open one if there is none."""
        while True:
            async with self._connecting:
                if self._alive.is_set() and self.connection is not None:
                    return self.connection
                self._woken.set()
                await self._alive.wait()
                if self.ending is not None:
                    raise ConnectionClosed(self.ending)
                info = self.manager.get_connection_info(session=False)
                self._disconnected.clear()
                connection = self._connection = KernelConnection(info, self._context, self)
                try:
                    answer = await connection.handshake(on_shell=first)
                except ConnectionClosed:
                    if first:
                        raise
                    continue
                except BaseException:
                    connection.close(Ending("closed", "The kernel did not answer."))
                    raise
                self._set_language(answer)
                self._has_answered = True
                if self.state in {"starting", "restarting"} or (first and self.state == "unknown"):
                    self.on_state("idle")
                return connection

    @property
    def connection(self) -> KernelConnection | None:
        """The kept connection, if one is open."""
        open_ = self._connection is not None and self._connection.ending is None
        return self._connection if open_ else None

    @property
    def is_ours(self) -> bool:
        """Whether the manager started it, rather than just finding its connection file."""
        return bool(getattr(self.manager, "owns_kernel", True))

    @property
    def stopping(self) -> bool:
        """Whether it is being shut down or restarted."""
        shutting_down = bool(getattr(self.manager, "shutting_down", False))
        return shutting_down or self._stop_announced is not None

    async def settled(self) -> None:
        """Wait until no start or stop of it is under way."""
        await settled(self.manager)

    @property
    def is_settled(self) -> bool:
        """Whether no start or stop of it is under way."""
        return bool(self.manager.ready.done())

    async def answers(self) -> bool:
        """Wait until this incarnation can be signalled; return False if it does not answer in time.

        A kernel that has not answered yet may not have installed its signal handlers: an interrupt ends it.
        """
        if not self._has_answered:
            try:
                async with asyncio.timeout(BOOT_TIME):
                    await self.connect()
            except (TimeoutError, ConnectionClosed):
                return False
        return True

    async def close(self) -> None:
        """Close the connection; the kernel keeps running."""
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            await asyncio.wait({self._reconnecting})
        for event in ("restart", "dead"):
            self.manager.remove_restart_callback(self.wake, event)
        if self._connection is not None:
            self._connection.close(Ending("closed", "The connection to the kernel was closed."))

    # -- watching

    async def watch(self) -> Ending:
        """Watch the kernel until it is shut down or stays dead; return how it ended."""
        clock = asyncio.get_running_loop().time
        while True:
            process, began = local_process(self.manager), clock()
            code = await self._end()
            self._alive.clear()
            self._has_answered = False
            ending = await self._why(process, code)
            self._quick_deaths = self._quick_deaths + 1 if clock() - began < STABLE_TIME else 0
            log.info("Kernel %s: %s", self.id, ending.message)
            was_connected = self.connection is not None
            if self._connection is not None:
                await self._connection.drained(DRAIN_TIMEOUT)
                self._connection.close(ending)
            comes_back = ending.kind != "shutdown"
            self.ending = ending
            self.state = "restarting" if comes_back else "dead"
            self._notify(_EVENTS[ending.kind])
            if not comes_back or not await self._next(process, ending):
                self.state = "dead"
                self._alive.set()  # `connect` must not wait for an incarnation that never comes
                if comes_back:
                    self._notify("died")
                return ending
            self.restarts += 1
            self.ending = self._stop_announced = None
            self.state = "starting"
            self._alive.set()
            if ending.kind == "died":
                self._notify("restarted")
            if was_connected and (self._reconnecting is None or self._reconnecting.done()):
                self._reconnecting = asyncio.create_task(self._reconnect())

    async def _end(self) -> int | None:
        if self.is_ours:
            return await process_end(self.manager)
        # Another process's kernel: the disconnect is the only sign that it has ended.
        await self._disconnected.wait()
        self._disconnected.clear()
        return None

    async def _why(self, process: Any, code: int | None) -> Ending:
        if not self.is_ours:
            return Ending("lost", LOST)
        if not self.manager.shutting_down and local_process(self.manager) is process:
            return Ending("died", f"The kernel {describe_exit(code)}.")
        restart = self._stop_announced
        if restart is None and not self.manager.shutting_down:
            restart = True  # it is complete: there is a new process
        elif restart is None:
            # A restart replaces `ready` twice in a row: once for the stop, once for the start.
            stopped = self.manager.ready
            await _present_ready_done(self.manager)
            restart = self.manager.ready is not stopped
        if restart:
            return Ending("restarted", "The kernel was restarted.")
        return Ending("shutdown", "The kernel was shut down.")

    async def _next(self, old: Any, ending: Ending) -> bool:
        """Wait for the next incarnation; return False if there will be none."""
        if ending.kind == "lost":
            return True
        restarter = getattr(self.manager, "autorestart", False) and hasattr(
            self.manager, "restarter_class"
        )
        if ending.kind == "died" and not restarter:
            if self._quick_deaths > RESTART_LIMIT:
                return False
            await self._revive()
        while True:
            self._woken.clear()
            await self.settled()
            process = local_process(self.manager)
            if process is not None and process is not old:
                return True
            if not self._is_listed():
                return False
            await self._woken.wait()

    async def _reconnect(self) -> None:
        """Reconnect at once, so that no activity of other clients is missed.

        There is no limit for a kernel of this server: it answers, or its process ends, or `close` cancels
        this. The end of another process's kernel cannot be observed.
        """
        try:
            async with asyncio.timeout(None if self.is_ours else RETURN_TIMEOUT):
                await self.connect()
        except (TimeoutError, ConnectionClosed) as error:
            log.info("Kernel %s does not answer after its restart: %s", self.id, error)

    def wake(self) -> None:
        """Have the watch check a dead kernel again."""
        self._woken.set()

    # -- called by the connection

    def on_state(self, state: KernelState) -> None:
        """Note the kernel's execution state."""
        # "starting" comes on iopub and may arrive after the reply on shell or control.
        if state == "starting" and self._has_answered:
            state = "idle"
        self._set_state(state)

    def on_stopping(self, restart: bool) -> None:
        """Note the kernel's announcement that it shuts down on request."""
        self._stop_announced = restart

    def on_disconnect(self, connection: BaseKernelConnection) -> None:  # noqa: ARG002 - the protocol's
        """Note that the other end has disconnected."""
        self._disconnected.set()


_EVENTS = {"died": "died", "restarted": "restarted", "shutdown": "shutdown", "lost": "died"}


async def settled(manager: Any) -> None:
    """Wait until no start or stop of a manager's kernel is under way.

    jupyter_client cannot stop a kernel while it is restarting it.
    """
    while not manager.ready.done():
        await _present_ready_done(manager)


async def _present_ready_done(manager: Any) -> None:
    """Wait until a manager's current `ready` future is done or replaced.

    When two callers restart a kernel at once, jupyter_client never resolves the first `ready`.
    """
    ready: asyncio.Future[None] | ThreadFuture[None] = manager.ready
    future = ready if isinstance(ready, asyncio.Future) else asyncio.wrap_future(ready)
    while not future.done() and manager.ready is ready:
        await asyncio.wait({future}, timeout=SETTLE_INTERVAL)
