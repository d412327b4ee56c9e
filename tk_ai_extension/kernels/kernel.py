"""A kernel through all its processes: one client that is kept open, its events, and how it ends."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import zmq
import zmq.asyncio
from jupyter_client.session import Session
from zmq.utils.monitor import recv_monitor_message

from tk_ai_extension.kernels.base import KernelEvent, KernelState, Message
from tk_ai_extension.kernels.collector import OTHER_DISPLAY_MIME, OutputCollector
from tk_ai_extension.kernels.executor import Connection, ConnectionClosed, Ending, SocketChannel
from tk_ai_extension.kernels.process import describe_exit, local_process, process_end
from tk_ai_extension.model.background import BackgroundTasks

log = logging.getLogger(__name__)

STOP_TIMEOUT = 15.0
"""Seconds in which a manager must have restarted or removed a kernel whose process it has ended."""

DRAIN_TIMEOUT = 2.0
"""Seconds to wait for a kernel's last messages after its process has ended."""

STEP_INTERVAL = 0.05
"""Seconds between looks at a manager that replaces a process: jupyter_client has no event for that."""

RESTARTED = Ending("restarted", "The kernel was restarted.")
SHUT_DOWN = Ending("shutdown", "The kernel was shut down.")
LOST = "The connection to the kernel was lost: whether the code ran to its end is unknown."


class TrackedKernel(ABC):
    """A kernel through all its processes, with the one client that is kept open for each.

    Args:
        kernel_id: Its id.
        manager: Its kernel manager.
        is_listed: Returns whether the server still has the kernel.
        emit: Called with each `KernelEvent`.
    """

    def __init__(
        self,
        kernel_id: str,
        manager: Any,
        *,
        is_listed: Callable[[], bool],
        emit: Callable[[KernelEvent], None],
    ) -> None:
        self.id = kernel_id
        self.manager = manager
        self.restarts = 0
        self.language = ""
        self.state: KernelState = "unknown"
        self.ending: Ending | None = None
        """Why the kernel no longer answers; None while it may."""
        self.lock = asyncio.Lock()
        """Held by restarts and shutdowns."""
        self.restarting: asyncio.Task[None] | None = None
        self._is_listed = is_listed
        self._emit = emit
        self._connecting = asyncio.Lock()
        self._connection: Connection | None = None
        self._tasks = BackgroundTasks(log)

    @abstractmethod
    async def connect(self, *, first: bool = False) -> Connection:
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
    def connection(self) -> Connection | None:
        """The connection, if one is open."""
        connection = self._connection
        if connection is None or connection.ending is not None or connection.lost.is_set():
            return None
        return connection

    @property
    def is_ours(self) -> bool:
        """Whether the manager started it, rather than just finding its connection file."""
        return bool(getattr(self.manager, "owns_kernel", True))

    @abstractmethod
    async def settled(self) -> None:
        """Wait until the manager is neither starting nor stopping it: it cannot do both at once."""

    @abstractmethod
    async def watch(self) -> Ending:
        """Follow the kernel's processes until it is shut down or stays dead; return how it ended."""

    @property
    @abstractmethod
    def stopping(self) -> bool:
        """Whether it is being shut down or restarted, as far as this server knows."""

    async def close(self) -> None:
        """Close the connection; the kernel keeps running."""
        if self._connection is not None:
            self._connection.close(Ending("closed", "The connection to the kernel was closed."))
        await self._tasks.close()

    def _observe(self, message: Message, ours: bool) -> None:
        """Emit the events in an iopub message, whichever client caused it."""
        kind, content, parent = message["msg_type"], message["content"], message["parent_header"]
        if kind == "execute_input":
            code, count = str(content.get("code", "")), content.get("execution_count")
            self._notify("ran", code=code, execution_count=count, ours=ours)
        elif kind == "status":
            state = content.get("execution_state", "unknown")
            if parent.get("msg_type") in {"execute_request", None} or state not in {"busy", "idle"}:
                self._on_state(state)
        elif kind == "shutdown_reply":
            self._on_stopping(bool(content.get("restart")))
        elif (
            not ours
            and kind in {"display_data", "update_display_data"}
            and content.get("transient")
        ):
            self._notify_display(kind, content)

    def _notify_display(self, kind: str, content: Mapping[str, Any]) -> None:
        collector = OutputCollector()
        collector.add(kind, content)
        for event in collector.drain_events():
            if event.mime == OTHER_DISPLAY_MIME:
                self._notify("display", display=event.data)

    @abstractmethod
    def _on_state(self, state: KernelState) -> None:
        """Note an execution state that was published."""

    @abstractmethod
    def _on_stopping(self, restart: bool) -> None:
        """Note the kernel's announcement that it shuts down on request."""

    def _set_state(self, state: KernelState) -> None:
        if state != self.state:
            self.state = state
            self._notify("state")

    def _notify(self, kind: Any, **fields: Any) -> None:
        self._emit(KernelEvent(self.id, kind, self.state, **fields))


def language_of(kernel_info: Message) -> str:
    """Return the language in a kernel_info reply."""
    about: Any = kernel_info["content"].get("language_info") or {}
    return str(about.get("name", "")).lower()


class LocalKernel(TrackedKernel):
    """A kernel whose process is on this machine: its end is an event, with its exit code.

    Args:
        context: Makes the sockets.
    """

    def __init__(
        self,
        kernel_id: str,
        manager: Any,
        *,
        context: zmq.asyncio.Context,
        **observed: Any,
    ) -> None:
        super().__init__(kernel_id, manager, **observed)
        self._context = context
        self._alive = asyncio.Event()
        self._alive.set()
        self._disconnected = asyncio.Event()
        self._sockets: Any = None  # the client's
        self._monitor: asyncio.Task[None] | None = None
        self._stop_announced: bool | None = None  # on iopub: whether for a restart

    async def connect(self, *, first: bool = False) -> Connection:
        """Return the open connection; open one if there is none."""
        while True:
            async with self._connecting:
                await self._alive.wait()
                if self.ending is not None:
                    raise ConnectionClosed(self.ending)
                if self.connection is not None:
                    return self.connection
                connection = self._connection = self._open()
                try:
                    answer = await connection.kernel_info(on_shell=first)
                except ConnectionClosed:
                    if first:
                        raise
                    continue
                except BaseException:
                    connection.close(Ending("closed", "The kernel did not answer."))
                    raise
                self.language = language_of(answer)
                if self.state in {"starting", "restarting"} or (first and self.state == "unknown"):
                    self._set_state("idle")
                return connection

    def _open(self) -> Connection:
        session = self.manager.session
        client = self._sockets = self.manager.client(
            # Its own identity: a kernel replies to the last client of one.
            session=Session(key=session.key, signature_scheme=session.signature_scheme),
            context=self._context,
            **dict.fromkeys(
                (f"{name}_channel_class" for name in ("shell", "iopub", "stdin", "control")),
                SocketChannel,
            ),
        )
        connection = Connection(client, self._observe)
        self._disconnected.clear()
        if self._monitor is not None:
            self._monitor.cancel()
        self._monitor = self._tasks.spawn(
            self._await_disconnect(client.iopub_channel.socket), f"Monitoring kernel {self.id}"
        )
        return connection

    async def _await_disconnect(self, socket: Any) -> None:
        monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        try:
            await recv_monitor_message(monitor)
            self._disconnected.set()
        finally:
            if not socket.closed:
                socket.disable_monitor()
            monitor.close(linger=0)

    @property
    def stopping(self) -> bool:
        """Whether it is being shut down or restarted."""
        shutting_down = bool(getattr(self.manager, "shutting_down", False))
        return shutting_down or self._stop_announced is not None or not self._alive.is_set()

    async def settled(self) -> None:
        """Wait until the manager is neither starting nor stopping it: it cannot do both at once."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT):
                while not self.manager.ready.done():  # noqa: ASYNC110 - it is replaced meanwhile
                    await asyncio.sleep(STEP_INTERVAL)

    async def watch(self) -> Ending:
        """Follow the kernel's processes until it is shut down or stays dead; return how it ended."""
        while True:
            process = local_process(self.manager)
            code = await self._end()
            self._alive.clear()
            ending = await self._why(process, code)
            log.info("Kernel %s: %s", self.id, ending.message)
            was_connected = self.connection is not None
            if self._connection is not None:
                await self._drain(self._connection)
                self._connection.close(ending)
            self.ending = ending
            comes_back = ending.kind != "shutdown" and (
                ending.kind != "died" or self._has_restarter
            )
            self.state = "restarting" if comes_back else "dead"
            self._notify("died" if ending.kind == "lost" else ending.kind)
            if not comes_back or (ending.kind != "lost" and not await self._replaced(process)):
                self.state = "dead"
                self._alive.set()  # `connect` must not wait for a process that never comes
                if comes_back:
                    self._notify("died")
                return ending
            self.restarts += 1
            self.ending = self._stop_announced = None
            self.state = "starting"
            self._alive.set()
            if ending.kind == "died":
                self._notify("restarted")
            if was_connected:
                self._tasks.spawn(self._reconnect(), f"Connecting to kernel {self.id}")

    async def _end(self) -> int | None:
        if self.is_ours:
            return await process_end(self.manager)
        await self._disconnected.wait()  # the only sign that another process's kernel has ended
        self._disconnected.clear()
        return None

    async def _why(self, process: Any, code: int | None) -> Ending:
        if not self.is_ours:
            return Ending("lost", LOST)
        if not self.manager.shutting_down and local_process(self.manager) is process:
            return Ending("died", f"The kernel {describe_exit(code)}.")
        restart = self._stop_announced
        if restart is None:
            restart = True
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_TIMEOUT):
                    restart = await self._replaced(process)
        return RESTARTED if restart else SHUT_DOWN

    @property
    def _has_restarter(self) -> bool:
        """Whether Jupyter restarts the kernel when it dies."""
        return getattr(self.manager, "autorestart", False) and hasattr(
            self.manager, "restarter_class"
        )

    async def _replaced(self, old: Any) -> bool:
        """Wait until the manager has another process (True) or no longer the kernel (False)."""
        while self._is_listed():
            process = local_process(self.manager)
            if process is not None and process is not old:
                return True
            await asyncio.sleep(STEP_INTERVAL)
        return False

    async def _drain(self, connection: Connection) -> None:
        """Wait until everything is read that the process sent before it ended."""
        if not connection.receives:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT):
                await self._disconnected.wait()
        while await self._sockets.iopub_channel.socket.poll(0):  # noqa: ASYNC110 - read in turns
            await asyncio.sleep(0)

    async def _reconnect(self) -> None:
        """Reconnect at once, so that no activity of other clients is missed."""
        try:
            await self.connect()
        except ConnectionClosed as closed:
            log.info("Kernel %s does not answer after its restart: %s", self.id, closed)

    def _on_state(self, state: KernelState) -> None:
        # "starting" comes on iopub and may arrive after the reply on shell or control.
        if state == "starting" and self.language:
            state = "idle"
        self._set_state(state)

    def _on_stopping(self, restart: bool) -> None:
        self._stop_announced = restart
