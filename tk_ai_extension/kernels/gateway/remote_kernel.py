"""One kernel behind a gateway as we know it: one WebSocket kept, what happens to it told.

Its process is not seen from here. What is known of its end is what the kernel says (that it stops), what
the gateway says (that it restarts a dead one, that there is none), and that the WebSocket is gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Literal

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

log = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT = 10.0
"""Seconds after which a kernel that does not answer is tried over a new WebSocket."""

RETRY_INTERVAL = 0.2
"""Seconds between attempts to reach the next incarnation of a kernel."""

LOOK_INTERVAL = 5.0
"""Seconds between looks whether a gateway still has a kernel in which something runs, and the same."""

LOOK_TIMEOUT = 2.0
"""Seconds in which a gateway has to say whether it has a kernel."""

WS_CLOSE_TIMEOUT = 1.0
"""Seconds in which a gateway has to close its end of a WebSocket that we close."""

SHUTDOWN_TIMEOUT = 10.0
"""Seconds in which a kernel that says it stops is gone, or else has been started again."""

STOP_OUTCOME_UNKNOWN = (
    "The gateway failed while it stopped the kernel: whether the code ran to its end is unknown."
)
DIED = "The kernel died, possibly out of memory: the gateway does not say of what."
GONE = "The kernel is gone: the gateway has it no more."


class RemoteKernel(TrackedKernel):
    """Follows one kernel of a gateway through all its incarnations, until the gateway has it no more.

    Args:
        kernel_id: Its id.
        manager: Its `GatewayKernelManager`.
        is_listed: Whether the kernel is still one of the server's.
        emit: Told of each `KernelEvent`.
        on_gone: Called once, when the gateway has it no more.
        ping_interval: As in `GatewayConnection.open`.
    """

    def __init__(
        self,
        kernel_id: str,
        manager: Any,
        *,
        is_listed: Callable[[], bool],
        emit: Callable[[KernelEvent], None],
        on_gone: Callable[[], None],
        ping_interval: float = PING_INTERVAL,
    ) -> None:
        super().__init__(kernel_id, manager, is_listed=is_listed, emit=emit)
        self.stop_requested = False
        """Whether a restart or shutdown is being carried out."""
        self.stop_announced: bool | None = None
        """While it is: that the kernel has said it stops, and whether to be restarted."""
        self.seen_since = asyncio.get_running_loop().time()
        self._on_gone = on_gone
        self._ping_interval = ping_interval
        self._connection: GatewayConnection | None = None
        self._is_verified = False  # whether the kernel has answered on that connection
        self._between: Literal["died", "restarted"] | None = None  # two incarnations
        self._restart_announced = False  # so that the server's word of the same one is no other's
        self._session = ""  # in which the present incarnation speaks, or the last one spoke
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
        """Whether we are shutting it down or restarting it just now."""
        return self.stop_requested

    @property
    def is_settled(self) -> bool:
        """Whether it is not just being started again."""
        return self._between is None

    async def _try(self, first: bool) -> GatewayConnection | None:
        """One attempt; None where the kernel does not answer yet."""
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
        if self.ending is not None:  # it came while we connected
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
            connection.close(Ending("closed", "It is still the kernel that stops."))
            return None
        self._is_verified = True
        self._begin(answer, session, first=first)
        return connection

    def _begin(self, answer: Mapping[str, Any], session: str, *, first: bool) -> None:
        """An incarnation has answered: a new one, or the one from before the connection was lost."""
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
        """Close the connection for good; leaves the kernel as it is."""
        closed = Ending("closed", "The connection to the kernel was closed.")
        self.ending = self.ending or closed
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(closed)
            await asyncio.wait({connection.reading}, timeout=WS_CLOSE_TIMEOUT)
        await self._tasks.close()

    # -- how an incarnation ends

    def restarted(self) -> None:
        """It was restarted by us."""
        self._end(Ending("restarted", "The kernel was restarted."))

    def was_restarted(self) -> None:
        """Somebody on this server has had it restarted: it has said so, or says nothing."""
        said, self._restart_announced = self._restart_announced, False
        if not said and not self.stop_requested and self._between is None:
            self.restarted()

    def on_stop_failed(self) -> None:
        """The gateway has failed to restart it or to shut it down for us, and perhaps has done it."""
        if self.stop_announced is not None:
            self.on_stopping(self.stop_announced)
            self._restart_announced = False  # the server has no word of it
        elif self._connection is not None:
            self._spawn(self._handle_loss(self._connection, STOP_OUTCOME_UNKNOWN))

    def shut_down(self) -> None:
        """It was shut down from this server."""
        self._mark_gone(Ending("shutdown", "The kernel was shut down."))

    async def look(self) -> bool | None:
        """Return whether the gateway has it; None where the gateway does not say.

        Where it has it no more, all that waits for the kernel ends.
        """
        try:
            async with asyncio.timeout(LOOK_TIMEOUT):
                model = await model_of(self.manager)
        except FAILURES as error:
            log.debug("The gateway does not say how kernel %s is: %s", self.id, error)
            return None
        if model is None:
            self._mark_gone(Ending("shutdown", GONE))
            return False
        with suppress(*FAILURES):  # there are gateways that leave a kernel's last activity open
            await response_to(self.manager.refresh_model(model))
        return True

    def _end(self, ending: Ending) -> None:
        """This incarnation has ended; the next one is waited for."""
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
        """The gateway has it no more."""
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
        """The connection is no good: the kernel may be gone, or be another, or only out of reach."""
        await self.look()
        connection.close(self.ending or Ending("lost", why))
        if self.ending is None:
            log.warning("Kernel %s: %s", self.id, why)
            if self._connection is connection:
                self.state = "unknown"
                self._notify("state")
            await self._reconnect()

    async def _wait_for_shutdown(self) -> None:
        """It says that it stops for good: it is gone soon, unless the gateway starts it again."""
        loop = asyncio.get_running_loop()
        until = loop.time() + SHUTDOWN_TIMEOUT
        # Nothing says when a gateway has done with a kernel.
        while loop.time() < until and self._is_listed() and await self.look() is not False:  # noqa: ASYNC110
            await asyncio.sleep(RETRY_INTERVAL)
        if not self._is_listed():
            self._mark_gone(Ending("shutdown", "The kernel was shut down."))
        elif self.ending is None:
            await self._reconnect()

    async def _reconnect(self) -> None:
        """Connect anew, so that nothing that people do in the kernel is missed.

        As often, and at such intervals, as the server's own connections to the gateway do.
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
                log.info("Kernel %s is not reached again yet: %s", self.id, error)
            wait = settings.gateway_retry_interval * 2**attempt
            await asyncio.sleep(min(wait, settings.gateway_retry_interval_max))

    async def _poll(self) -> None:
        """A kernel that goes without a word is missed by those who wait for it."""
        while True:
            await asyncio.sleep(LOOK_INTERVAL)
            if not self._is_listed():
                self._mark_gone(Ending("shutdown", "The kernel was shut down."))
            elif (connection := self._connection) is not None and connection.has_listeners:
                await self.look()
                connection.probe_session()

    # -- what the connection observes

    def on_state(self, state: KernelState) -> None:
        """The kernel says what it is doing, or its gateway what becomes of it."""
        if state == "restarting":  # only a gateway says so: of a kernel that has died
            self._end(Ending("died", DIED))
        elif state == "dead":
            self._mark_gone(Ending("died", f"{DIED} It could not be started again."))
        else:
            if state == "starting" and self._is_verified:
                state = "idle"  # said on another channel than the answer, and heard after it
            self._set_state(state)

    def on_stopping(self, restart: bool) -> None:
        """The kernel says that it stops on request."""
        if self.stop_requested:
            self.stop_announced = restart  # on ours: we hear from the gateway when it is done
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
        """It was restarted without a word of it."""
        self.on_stopping(restart=True)

    def on_disconnect(self, conversation: BaseKernelConnection) -> None:
        """The other end has closed the WebSocket, or what is between."""
        connection = self._connection
        if connection is None or connection is not conversation:
            return
        if not self._is_verified:
            connection.close(Ending("lost", LOST))
        else:
            self._spawn(self._handle_loss(connection))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._tasks.spawn(work, f"Following kernel {self.id}")
