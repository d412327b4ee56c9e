"""A kernel behind a gateway: keeps one WebSocket and emits the kernel's events.

Its process is not visible from here. Its end is known from the kernel (it announces a shutdown), from
the gateway (it restarts a dead kernel, or has none), and from the loss of the WebSocket.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from jupyter_server.gateway.gateway_client import GatewayClient

from tk_ai_extension.kernels.base import KernelEvent, KernelState
from tk_ai_extension.kernels.base_connection import BaseKernelConnection, ConnectionClosed, Ending
from tk_ai_extension.kernels.gateway.connection import PING_INTERVAL, GatewayConnection
from tk_ai_extension.kernels.gateway.requests import (
    FAILURES,
    model_of,
    response_to,
    status_of,
    unavailable,
)
from tk_ai_extension.kernels.lifecycle import LOST, TrackedKernel
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.errors import GatewayUnavailable

if TYPE_CHECKING:
    from jupyter_server.gateway.managers import GatewayKernelManager

log = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT = 10.0
"""Seconds to wait for a kernel's reply before a new WebSocket is tried."""

RETRY_INTERVAL = 0.2
"""Seconds between attempts to reach the next incarnation of a kernel."""

LOOK_INTERVAL = 5.0
"""Seconds between checks that a gateway still has the same kernel while requests are pending."""

LOOK_TIMEOUT = 2.0
"""Seconds in which a gateway must report whether it has a kernel."""

WS_CLOSE_TIMEOUT = 1.0
"""Seconds in which a gateway must close its end of a WebSocket."""

SHUTDOWN_TIMEOUT = 10.0
"""Seconds after its announcement in which a kernel must be shut down or restarted."""

STOP_OUTCOME_UNKNOWN = (
    "The gateway failed while it stopped the kernel: whether the code ran to its end is unknown."
)
DIED = "The kernel died, possibly out of memory: the gateway gives no reason."
GONE = "The kernel is gone: the gateway no longer has it."


class RemoteKernel(TrackedKernel):
    """Follows a gateway's kernel through all its incarnations until the gateway no longer has it.

    Args:
        kernel_id: Its id.
        manager: Its `GatewayKernelManager`.
        is_listed: Returns whether the server still has the kernel.
        emit: Called with each `KernelEvent`.
        on_gone: Called once, when the gateway no longer has the kernel.
        ping_interval: As in `GatewayConnection.open`.
    """

    def __init__(
        self,
        kernel_id: str,
        manager: GatewayKernelManager,
        *,
        is_listed: Callable[[], bool],
        emit: Callable[[KernelEvent], None],
        on_gone: Callable[[], None],
        ping_interval: float = PING_INTERVAL,
    ) -> None:
        super().__init__(kernel_id, manager, is_listed=is_listed, emit=emit)
        self.stop_requested = False
        """Whether a restart or shutdown that this server requested is under way."""
        self.stop_announced: bool | None = None
        """During a requested stop: whether the kernel announced a restart; None if nothing yet."""
        self.seen_since = asyncio.get_running_loop().time()
        self._on_gone = on_gone
        self._ping_interval = ping_interval
        self._connection: GatewayConnection | None = None
        self._is_verified = False  # whether the kernel has answered on that connection
        self._between: Literal["died", "restarted"] | None = None  # two incarnations
        self._restart_announced = False  # the server's event for the same restart is ignored
        self._session = ""  # of the current or the previous incarnation
        self._tasks = BackgroundTasks(log)
        self._watch: asyncio.Task[None] | None = None

    # -- connecting

    async def connect(self, *, first: bool = False) -> GatewayConnection:
        """Return the open connection; open one if there is none."""
        async with self._connecting:
            while True:
                if self.ending is not None:
                    raise ConnectionClosed(self.ending)
                connection = self.connection or await self._try(first)
                if connection is not None:
                    return connection
                await asyncio.sleep(RETRY_INTERVAL)

    @property
    def connection(self) -> GatewayConnection | None:
        """The kept connection, if one is open."""
        connection = self._connection
        if connection is None or connection.lost or connection.ending is not None:
            return None
        return connection if self._is_verified else None

    @property
    def stopping(self) -> bool:
        """Whether this server is shutting it down or restarting it."""
        return self.stop_requested

    @property
    def is_settled(self) -> bool:
        """Whether no restart of it is under way."""
        return self._between is None

    async def _try(self, first: bool) -> GatewayConnection | None:
        """Try once to connect; return None if the kernel does not answer yet."""
        try:
            connection = await GatewayConnection.open(
                self.id, self, ping_interval=self._ping_interval
            )
        except FAILURES as error:
            status = status_of(error)
            if status == 404 and await self.look() is False:
                return None
            if self._between is None or status is None or status < 500:
                raise unavailable(error) from error
            return None
        self._tasks.follow(connection.reading)
        if self.ending is not None:  # it ended while the connection was opened
            connection.close(self.ending)
            return None
        before, self._connection, self._is_verified = self._connection, connection, False
        if before is not None:
            before.close(Ending("lost", LOST))
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT):
                answer = await connection.handshake(on_shell=first)
        except (TimeoutError, ConnectionClosed):
            connection.close(Ending("closed", "The kernel did not answer."))
            return None
        except BaseException:
            connection.close(Ending("closed", "The kernel did not answer."))
            raise
        session = connection.reply_session
        if self._between and session and session == self._session:
            connection.close(Ending("closed", "The old incarnation is still stopping."))
            return None
        self._is_verified = True
        self._begin(answer, session, first=first)
        return connection

    def _begin(self, answer: Mapping[str, Any], session: str, *, first: bool) -> None:
        """Note that an incarnation answered: a new one, or the one before the connection was lost."""
        self._set_language(answer)
        between, self._between = self._between, None
        unseen = between is None and bool(session and self._session and session != self._session)
        self._session = session or self._session
        if first or between or unseen or self.state in {"starting", "restarting"}:
            self.state = "idle"
        if between or unseen:
            self.restarts += 1
        if between == "died" or unseen:
            self._notify("restarted")
        if self._watch is None:
            self._watch = self._spawn(self._poll())

    async def close(self) -> None:
        """Close the connection for good; the kernel keeps running."""
        closed = Ending("closed", "The connection to the kernel was closed.")
        self.ending = self.ending or closed
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(closed)
            await asyncio.wait({connection.reading}, timeout=WS_CLOSE_TIMEOUT)
        await self._tasks.close()

    # -- how an incarnation ends

    def restarted(self) -> None:
        """Note a restart by this server."""
        self._end(Ending("restarted", "The kernel was restarted."))

    def was_restarted(self) -> None:
        """Note a restart by another client of this server, unless the kernel announced it already."""
        announced, self._restart_announced = self._restart_announced, False
        if not announced and not self.stop_requested and self._between is None:
            self.restarted()

    def on_stop_failed(self) -> None:
        """Note a failed restart or shutdown of this server's, which may have taken effect."""
        if self.stop_announced is not None:
            self.on_stopping(self.stop_announced)
            self._restart_announced = False  # the server emits no event for it
        elif self._connection is not None:
            self._spawn(self._handle_loss(self._connection, STOP_OUTCOME_UNKNOWN))

    def shut_down(self) -> None:
        """Note a shutdown by this server or its clients."""
        self._mark_gone(Ending("shutdown", "The kernel was shut down."))

    async def look(self) -> bool | None:
        """Return whether the gateway has the kernel; None if it does not respond.

        If the gateway no longer has it, all pending requests end.
        """
        try:
            async with asyncio.timeout(LOOK_TIMEOUT):
                model = await model_of(self.manager)
        except FAILURES as error:
            log.debug("The gateway does not report on kernel %s: %s", self.id, error)
            return None
        if model is None:
            self._mark_gone(Ending("shutdown", GONE))
            return False
        with suppress(*FAILURES):  # some gateways omit a kernel's last activity
            await response_to(self.manager.refresh_model(model))
        return True

    def _end(self, ending: Ending) -> None:
        """End this incarnation and wait for the next one."""
        connection, self._connection = self._connection, None
        was_known = self._is_verified
        self._between = "died" if ending.kind == "died" else "restarted"
        self.state = "restarting"
        log.info("Kernel %s: %s", self.id, ending.message)
        if connection is not None:
            connection.close(ending)
        self._notify("died" if ending.kind == "died" else "restarted")
        if was_known and not self.stop_requested:
            self._spawn(self._reconnect())

    def _mark_gone(self, ending: Ending) -> None:
        """End for good: the gateway no longer has the kernel."""
        if self.ending is not None:
            return
        self.ending = ending
        self.state = "dead"
        log.info("Kernel %s: %s", self.id, ending.message)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(ending)
        if self._watch is not None:
            self._watch.cancel()
        self._notify("shutdown" if ending.kind == "shutdown" else "died")
        self._on_gone()

    async def _handle_loss(self, connection: GatewayConnection, why: str = LOST) -> None:
        """Handle a lost connection: the kernel may be gone, replaced, or merely unreachable."""
        await self.look()
        connection.close(self.ending or Ending("lost", why))
        if self.ending is None:
            log.warning("Kernel %s: %s", self.id, why)
            if self._connection is connection:
                self.state = "unknown"
                self._notify("state")
            await self._reconnect()

    async def _wait_for_shutdown(self) -> None:
        """Wait for the end of a kernel that announced its shutdown; the gateway may restart it."""
        loop = asyncio.get_running_loop()
        until = loop.time() + SHUTDOWN_TIMEOUT
        # Poll: no event reports that a gateway has removed a kernel.
        while loop.time() < until and self._is_listed() and await self.look() is not False:  # noqa: ASYNC110
            await asyncio.sleep(RETRY_INTERVAL)
        if not self._is_listed():
            self._mark_gone(Ending("shutdown", "The kernel was shut down."))
        elif self.ending is None:
            await self._reconnect()

    async def _reconnect(self) -> None:
        """Reconnect, so that no activity of other clients is missed.

        Retries as often and at the same intervals as the server's own connections to the gateway.
        """
        settings: Any = GatewayClient.instance()
        for attempt in range(settings.gateway_retry_max + 1):
            try:
                async with asyncio.timeout(settings.request_timeout):
                    await self.connect()
                return
            except ConnectionClosed:
                return
            except (TimeoutError, GatewayUnavailable) as error:
                log.info("Kernel %s cannot be reached yet: %s", self.id, error)
            wait = settings.gateway_retry_interval * 2**attempt
            await asyncio.sleep(min(wait, settings.gateway_retry_interval_max))

    async def _poll(self) -> None:
        """Check regularly whether a kernel with pending requests is gone or was replaced."""
        while True:
            await asyncio.sleep(LOOK_INTERVAL)
            if not self._is_listed():
                self._mark_gone(Ending("shutdown", "The kernel was shut down."))
            elif (connection := self._connection) is not None and connection.has_listeners:
                await self.look()
                connection.probe_session()

    # -- called by the connection

    def on_state(self, state: KernelState) -> None:
        """Note an execution state that the kernel or its gateway published."""
        if state == "restarting":  # published only by gateways, after a kernel has died
            self._end(Ending("died", DIED))
        elif state == "dead":
            self._mark_gone(Ending("died", f"{DIED} It could not be restarted."))
        else:
            if state == "starting" and self._is_verified:
                state = "idle"  # on iopub, so it may arrive after the reply
            self._set_state(state)

    def on_stopping(self, restart: bool) -> None:
        """Note the kernel's announcement that it shuts down on request."""
        if self.stop_requested:
            self.stop_announced = restart  # by this server: the gateway's response follows
            return
        if restart:
            self._restart_announced = True
            self._end(Ending("restarted", "The kernel was restarted."))
            return
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(Ending("shutdown", "The kernel was shut down."))
        self._between = "died"
        self._spawn(self._wait_for_shutdown())

    def on_kernel_replaced(self) -> None:
        """Note a restart that was not announced."""
        self.on_stopping(restart=True)

    def on_disconnect(self, connection: BaseKernelConnection) -> None:
        """Handle a WebSocket that the other end or the network has closed."""
        current = self._connection
        if current is None or current is not connection:
            return
        if not self._is_verified:
            current.close(Ending("lost", LOST))
        else:
            self._spawn(self._handle_loss(current))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._tasks.spawn(work, f"Following kernel {self.id}")
