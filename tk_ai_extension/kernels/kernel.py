"""A kernel through all its processes: one client that is kept open, its events, and how it ends."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import zmq.asyncio
from jupyter_client.session import Session

from tk_ai_extension.kernels.base import KernelEvent, KernelState, Message
from tk_ai_extension.kernels.collector import OTHER_DISPLAY_MIME, OutputCollector
from tk_ai_extension.kernels.executor import Connection, ConnectionClosed, Ending, SocketChannel
from tk_ai_extension.kernels.process import (
    describe_exit,
    local_process,
    process_end,
)
from tk_ai_extension.model.background import BackgroundTasks

log = logging.getLogger(__name__)

STOP_TIMEOUT = 15.0
"""Seconds in which a manager must have restarted or removed a kernel whose process it has ended."""

DRAIN_GAP = 100
"""Milliseconds without a message after which a kernel that has ended has sent its last one."""

STEP_INTERVAL = 0.05
"""Seconds between looks at a manager that replaces a process: jupyter_client has no event for that."""

RESTARTED = Ending("restarted", "The kernel was restarted.")
SHUT_DOWN = Ending("shutdown", "The kernel was shut down.")
UNANSWERED = Ending("closed", "The kernel did not answer.")


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

    @abstractmethod
    async def settled(self) -> None:
        """Wait until nobody is starting or stopping it: a manager cannot do both at once."""

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
        if kind == "status":
            state = content.get("execution_state", "unknown")
            if parent.get("msg_type") in {"execute_request", None} or state not in {"busy", "idle"}:
                self._on_state(state)
        elif kind == "execute_input":
            code, count = str(content.get("code", "")), content.get("execution_count")
            self._notify("ran", code=code, execution_count=count, ours=ours)
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

    def _on_state(self, state: KernelState) -> None:
        """Note an execution state that was published."""
        # "starting" comes on iopub and may arrive after the reply on shell or control.
        if state == "starting" and self.language:
            state = "idle"
        if state != self.state:
            self.state = state
            self._notify("state")

    def _answered(self, connection: Connection, answer: Message) -> Connection:
        """Keep a connection on which the kernel has answered a kernel_info request."""
        about: Any = answer["content"].get("language_info") or {}
        self.language = str(about.get("name", "")).lower()
        if self.state in {"starting", "restarting", "unknown"}:
            self._on_state("idle")
        self._connection = connection
        return connection

    async def _reconnect(self) -> None:
        """Reconnect at once, so that no activity of other clients is missed."""
        try:
            await self.connect()
        except ConnectionClosed as closed:
            log.info("Kernel %s does not answer: %s", self.id, closed)

    def _notify(self, kind: Any, **fields: Any) -> None:
        self._emit(KernelEvent(self.id, kind, self.state, **fields))


class LocalKernel(TrackedKernel):
    """A kernel whose process is on this machine: its end is seen, with its exit code.

    Args:
        context: Makes the sockets.
    """

    def __init__(
        self, kernel_id: str, manager: Any, *, context: zmq.asyncio.Context, **observed: Any
    ) -> None:
        super().__init__(kernel_id, manager, **observed)
        self._context = context
        self._alive = asyncio.Event()
        self._alive.set()

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
                except BaseException:
                    connection.close(UNANSWERED)
                    raise
                else:
                    return self._answered(connection, answer)

    def _open(self) -> Connection:
        session = self.manager.session
        client = self.manager.client(
            # Its own identity: a kernel replies to the last client of one.
            session=Session(key=session.key, signature_scheme=session.signature_scheme),
            context=self._context,
            **dict.fromkeys(
                (f"{name}_channel_class" for name in ("shell", "iopub", "stdin", "control")),
                SocketChannel,
            ),
        )
        return Connection(client, self._observe)

    @property
    def stopping(self) -> bool:
        """Whether it is being shut down or restarted."""
        return bool(getattr(self.manager, "shutting_down", False)) or not self._alive.is_set()

    async def settled(self) -> None:
        """Wait until the manager is neither starting nor stopping it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT):
                while not self.manager.ready.done():  # noqa: ASYNC110 - it is replaced meanwhile
                    await asyncio.sleep(STEP_INTERVAL)

    async def watch(self) -> Ending:
        """Follow the kernel's processes until it is shut down or stays dead; return how it ended."""
        while True:
            process = local_process(self.manager)
            code = await process_end(self.manager)
            self._alive.clear()
            if not self.manager.shutting_down and local_process(self.manager) is process:
                ending = Ending("died", f"The kernel {describe_exit(code)}.")
                comes_back = getattr(self.manager, "autorestart", False) and hasattr(
                    self.manager, "restarter_class"
                )
            else:
                ending = RESTARTED if await self._replaced(process, STOP_TIMEOUT) else SHUT_DOWN
                comes_back = ending is RESTARTED
            log.info("Kernel %s: %s", self.id, ending.message)
            connection = self.connection
            if connection is not None:
                await connection.drain(DRAIN_GAP)
            if self._connection is not None:
                self._connection.close(ending)
            self.ending = ending
            self.state = "restarting" if comes_back else "dead"
            self._notify(ending.kind)
            if not comes_back or not await self._replaced(process):
                self.state = "dead"
                self._alive.set()  # `connect` must not wait for a process that never comes
                if comes_back:
                    self._notify("died")
                return ending
            self.restarts += 1
            self.ending = None
            self.state = "starting"
            self._alive.set()
            if ending.kind == "died":
                self._notify("restarted")
            if connection is not None:
                self._tasks.spawn(self._reconnect(), f"Connecting to kernel {self.id}")

    async def _replaced(self, old: Any, timeout: float | None = None) -> bool:
        """Wait until the manager has another process (True) or no longer the kernel (False)."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._is_listed():
                    process = local_process(self.manager)
                    if process is not None and process is not old:
                        return True
                    await asyncio.sleep(STEP_INTERVAL)
        return False
