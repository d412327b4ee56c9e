"""Kernels behind a gateway (``jupyter lab --gateway-url …``), which possibly run on another machine.

jupyter_server's managers start and stop them. Its `GatewayKernelClient` is not used: it sends no
credentials with its WebSocket, answers no input requests and occupies a processor while it waits.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket as sockets
import struct
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from jupyter_client.jsonutil import json_default
from jupyter_client.session import Session
from jupyter_server.gateway.gateway_client import GatewayClient, gateway_request
from jupyter_server.gateway.managers import GatewayMappingKernelManager
from jupyter_server.services.kernels.connection import base
from jupyter_server.utils import url_path_join
from tornado.escape import url_escape
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.web import HTTPError
from tornado.websocket import (
    WebSocketClientConnection,
    WebSocketClosedError,
    WebSocketError,
    websocket_connect,
)

from tk_ai_extension.kernels.base import KernelInfo, Kernelspec, KernelState, Message
from tk_ai_extension.kernels.executor import Connection, ConnectionClosed, Ending, Timeouts
from tk_ai_extension.kernels.kernel import RESTARTED, SHUT_DOWN, UNANSWERED, TrackedKernel
from tk_ai_extension.kernels.service import Kernels
from tk_ai_extension.model.encoding import MALFORMED
from tk_ai_extension.model.errors import GatewayUnavailable, KernelStartFailed
from tk_ai_extension.model.json_values import Json

if TYPE_CHECKING:
    from jupyter_client.multikernelmanager import MultiKernelManager

log = logging.getLogger(__name__)
_jupyter: Any = base  # its functions are not annotated

V1 = "v1.kernel.websocket.jupyter.org"
"""The WebSocket subprotocol that gateways forward without parsing, so that they keep up with a flood."""

PING_INTERVAL = 30.0
"""Seconds between pings, and seconds in which the gateway must answer one."""

MAX_MESSAGE = 512 * 1024 * 1024
"""Maximum bytes of one message from a kernel; tornado's default is less than a large plot."""

MAX_UNREAD = 1_000
"""Messages of a channel that are received before they are read; then the gateway has to wait."""

ANSWER_TIMEOUT = 10.0
"""Seconds to wait for a kernel's reply before a new WebSocket is tried."""

RETRY_INTERVAL = 0.2
"""Seconds between attempts to reach the next process of a kernel."""

LOOK_INTERVAL = 5.0
"""Seconds between checks that a gateway still has the same kernel while code runs."""

LOOK_TIMEOUT = 2.0
"""Seconds in which a gateway must report whether it has a kernel."""

RECONNECT_TIMEOUT = 30.0
"""Seconds in which a kernel must answer after the loss of a connection, or after a restart."""

SHUTDOWN_TIMEOUT = 10.0
"""Seconds after its announcement in which a kernel must be shut down or restarted."""

INTERRUPT_GRACE = 1.0
"""Seconds after another client's interrupt in which it may prove to be the start of a restart."""

FAILURES = (HTTPError, HTTPClientError, WebSocketError, OSError, json.JSONDecodeError)
"""Exceptions that a request to a gateway may raise; any other is a bug of this package."""

LOST = "The connection to the kernel was lost: whether the code ran to its end is unknown."
DIED = "The kernel died, possibly out of memory: the gateway gives no reason."


class WebSocketClient:
    """A client of a kernel over the gateway's WebSocket, with the part of `AsyncKernelClient` in use.

    Args:
        socket: An open WebSocket.
        session: The session whose id the WebSocket was opened with.
    """

    def __init__(self, socket: WebSocketClientConnection, session: Session) -> None:
        self.session: Any = session
        self._socket = socket
        self._is_v1 = socket.selected_subprotocol == V1
        self._channels = {
            name: WebSocketChannel(partial(self._send, name))
            for name in ("shell", "iopub", "stdin", "control")
        }
        self.shell_channel = self._channels["shell"]
        self.iopub_channel = self._channels["iopub"]
        self.stdin_channel = self._channels["stdin"]
        self.control_channel = self._channels["control"]
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, kernel_id: str, ping_interval: float) -> WebSocketClient:
        """Open a client. Raises `FAILURES`: the gateway does not respond, or not with a WebSocket."""
        gateway: Any = GatewayClient.instance()
        session: Any = Session()
        url = url_path_join(
            gateway.ws_url, gateway.kernels_endpoint, url_escape(kernel_id), "channels"
        )
        request = HTTPRequest(
            f"{url}?session_id={url_escape(session.session)}", **gateway.load_connection_args()
        )
        return cls(
            await websocket_connect(
                request,
                subprotocols=[V1],
                ping_interval=ping_interval,
                ping_timeout=ping_interval,
                max_message_size=MAX_MESSAGE,
            ),
            session,
        )

    def stop_channels(self) -> None:
        """Close the WebSocket."""
        self._reader.cancel()
        self._socket.close()

    def _send(self, channel: str, message: Message) -> None:
        if self._is_v1:
            data = _jupyter.serialize_msg_to_ws_v1(message, channel, self.session.pack)
        else:
            data = json.dumps({**message, "channel": channel}, default=json_default)
        try:
            sent = self._socket.write_message(data, binary=self._is_v1)
        except WebSocketClosedError:
            raise ConnectionError(LOST) from None
        # The reader notices a lost connection.
        asyncio.ensure_future(sent).add_done_callback(lambda done: done.exception())

    def _unpack(self, data: str | bytes) -> tuple[str, Message]:
        if self._is_v1:
            channel, parts = _jupyter.deserialize_msg_from_ws_v1(data)
            names = ("header", "parent_header", "metadata", "content")
            message = dict(zip(names, map(self.session.unpack, parts[:4]), strict=True))
        elif isinstance(data, bytes):  # it has buffers
            message = _jupyter.deserialize_binary_message(data)
            channel = message["channel"]
        else:
            message = json.loads(data)
            channel = message["channel"]
        return channel, {**message, "msg_type": message["header"]["msg_type"]}

    async def _read(self) -> None:
        stream: Any = getattr(self._socket.protocol, "stream", None)
        if stream is not None:  # Nagle's algorithm delays the small messages of short cells
            stream.set_nodelay(True)
        # tornado buffers one message, so that a faster sender waits at the gateway.
        while (data := await self._socket.read_message()) is not None:
            if stream is not None and hasattr(sockets, "TCP_QUICKACK"):
                # The gateway may wait for the ACK, which Linux delays by 40 ms. Not permanent.
                with suppress(OSError):
                    stream.socket.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_QUICKACK, 1)
            try:
                channel, message = self._unpack(data)
                queue = self._channels[channel].queue
            except (*MALFORMED, struct.error) as error:
                log.warning("Dropped a malformed message from a gateway: %s", error)
            else:
                await queue.put(message)
        for each in self._channels.values():
            await each.queue.put(None)


class WebSocketChannel:
    """A channel of a `WebSocketClient`."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        self.send = send
        self.queue: asyncio.Queue[Message | None] = asyncio.Queue(MAX_UNREAD)

    async def get_msg(self) -> Message:
        """Return the next message. Raises ConnectionError once the WebSocket is closed."""
        message = await self.queue.get()
        if message is None:
            raise ConnectionError(LOST)
        return message


class RemoteKernel(TrackedKernel):
    """A kernel whose process is not visible: its messages and its gateway tell what happens to it.

    The gateway publishes that it restarts a dead kernel, and has none that was shut down. The session of
    the kernel's messages is another one after a restart.

    Args:
        on_gone: Called once, when the gateway no longer has the kernel.
        ping_interval: Seconds between pings, and in which each must be answered.
    """

    def __init__(
        self,
        kernel_id: str,
        manager: Any,
        *,
        on_gone: Callable[[], None],
        ping_interval: float,
        **observed: Any,
    ) -> None:
        super().__init__(kernel_id, manager, **observed)
        self.seen_since = asyncio.get_running_loop().time()
        self.stop_requested = False
        """Whether a restart or shutdown that this server requested is under way."""
        self._on_gone = on_gone
        self._ping_interval = ping_interval
        self._announced = False  # whether the process announced its end
        self._replacing = ""  # "died" or "restarted" until the next process has answered
        self._process = ""  # the session of the messages of the present process
        self._is_gone = asyncio.Event()

    async def connect(self, *, first: bool = False) -> Connection:
        """Return the open connection; open one if there is none."""
        async with self._connecting:
            while self.ending is None:
                connection = self.connection or await self._try(first)
                if connection is not None:
                    return connection
                await asyncio.sleep(RETRY_INTERVAL)
            raise ConnectionClosed(self.ending)

    @property
    def stopping(self) -> bool:
        """Whether it is being shut down or restarted."""
        return self.stop_requested or self._announced or self._replacing != ""

    async def _try(self, first: bool) -> Connection | None:
        """Try once to connect; return None if the kernel does not answer yet."""
        try:
            client = await WebSocketClient.open(self.id, self._ping_interval)
        except FAILURES as error:
            status = status_of(error)
            if status == 404:
                await self.look()
            elif not self._replacing or status is None or status < 500:
                raise unavailable(error) from error
            return None
        connection = Connection(client, self._observe)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                answer = await connection.kernel_info(on_shell=first)
        except (TimeoutError, ConnectionClosed):
            connection.close(UNANSWERED)
            return None
        except BaseException:
            connection.close(UNANSWERED)
            raise
        if self.ending is not None:
            connection.close(self.ending)
            return None
        has_died, self._replacing = self._replacing == "died", ""
        self._answered(connection, answer)
        self._spawn(self._await_loss(connection))
        if has_died:
            self._notify("restarted")
        return connection

    async def look(self) -> Json | None:
        """Return the gateway's model of the kernel; None if it has none or does not respond.

        If it has none, all pending requests end. The manager's ``refresh_model`` is not used: it takes
        an unknown host name for a missing kernel, and remembers that.
        """
        try:
            async with asyncio.timeout(LOOK_TIMEOUT):
                answer = await gateway_request(self.manager.kernel_url, method="GET")
            return json.loads(answer.body)
        except FAILURES as error:
            log.debug("The gateway does not report on kernel %s: %s", self.id, error)
            if status_of(error) == 404:
                self.gone(Ending("shutdown", "The kernel is gone: the gateway no longer has it."))
            return None

    def end(self, ending: Ending) -> None:
        """End this process of the kernel; the next one follows."""
        connection = self.connection
        self._process, self._announced, self._replacing = "", False, ending.kind
        self.restarts += 1
        self.state = "restarting" if ending.kind == "died" else "starting"
        log.info("Kernel %s: %s", self.id, ending.message)
        self._notify(ending.kind)
        if connection is not None:
            connection.close(ending)
            if not self.stop_requested:
                self._spawn(self._reconnect())

    def gone(self, ending: Ending) -> None:
        """End for good: the gateway no longer has the kernel."""
        if self.ending is not None:
            return
        self.ending = ending
        self.state = "dead"
        log.info("Kernel %s: %s", self.id, ending.message)
        if self.connection is not None:
            self.connection.close(ending)
        self._is_gone.set()
        self._notify(ending.kind)
        self._on_gone()

    async def _await_loss(self, connection: Connection) -> None:
        """Handle the loss of a connection: the kernel may be gone, replaced, or merely unreachable."""
        await connection.lost.wait()
        if connection.ending is None:
            await self.look()
            connection.close(self.ending or Ending("lost", LOST))
            if self.ending is None:
                log.warning("Kernel %s: %s", self.id, LOST)
                self.state = "unknown"
                self._notify("state")
                await self._reconnect()

    async def _reconnect(self) -> None:
        """Reconnect. What fails now is tried again at the kernel's next use."""
        try:
            async with asyncio.timeout(RECONNECT_TIMEOUT):
                await super()._reconnect()
        except (TimeoutError, GatewayUnavailable) as error:
            log.info("Kernel %s cannot be reached yet: %s", self.id, error)

    async def settled(self) -> None:
        """Wait until no restart is under way, during which a gateway cannot stop a kernel."""
        while self._announced:  # noqa: ASYNC110 - `_await_stop` bounds it
            await asyncio.sleep(RETRY_INTERVAL)
        if self._replacing:
            await self._reconnect()

    async def watch(self) -> Ending:
        """Check regularly whether a kernel that runs code is gone or was replaced, until it is gone."""
        while self.ending is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_INTERVAL):
                    await self._is_gone.wait()
            if self.connection is not None and self.connection.has_runs:
                await self._check()
            elif not self._is_listed():
                self.gone(SHUT_DOWN)
        return self.ending

    async def _check(self) -> None:
        """Learn whether the kernel is gone, or which process publishes its messages."""
        if not self._is_listed():
            self.gone(SHUT_DOWN)
            return
        await self.look()
        if self.connection is not None:
            self.connection.probe()

    async def _await_stop(self) -> None:
        """Wait for the end of a process that announced it: it is shut down or restarted."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SHUTDOWN_TIMEOUT):
                while self._announced and self.ending is None:
                    await self._check()
                    await asyncio.sleep(RETRY_INTERVAL)
        if self._announced and self.ending is None:
            self.end(RESTARTED)

    # -- called by the connection

    def _observe(self, message: Message, ours: bool) -> None:
        publisher = message["header"].get("session", "")
        state = message["content"].get("execution_state")
        if message["msg_type"] == "shutdown_reply":
            if not self.stopping:
                self._announced = True
                self._spawn(self._await_stop())
            return
        # Other states are the gateway's. Some kernels publish with the client's session.
        known = message["msg_type"] == "status" and state in {"starting", "busy", "idle"}
        if known and publisher != message["parent_header"].get("session"):
            former = self._process
            if former and former != publisher and not self.stop_requested:
                self.end(RESTARTED)
            self._process = publisher
        super()._observe(message, ours)

    def _on_state(self, state: KernelState) -> None:
        if state == "restarting":  # published only by gateways, after a kernel has died
            self.end(Ending("died", DIED))
        elif state == "dead":
            self.gone(Ending("died", f"{DIED} It could not be restarted."))
        elif self.connection is not None or self.state in {"starting", "restarting", "unknown"}:
            super()._on_state(state)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        return self._tasks.spawn(work, f"Following kernel {self.id}")


class GatewayKernels(Kernels):
    """Starts, finds, watches and stops kernels through jupyter_server's gateway client.

    The environment chooses which of this server's variables kernels may have; of those, only the ones
    in ``GatewayClient.allowed_envs`` are sent to the gateway. Stacks and sandboxes are not used.

    Args:
        manager: The `GatewayMappingKernelManager`.
        specs: The `GatewayKernelSpecManager`.
        timeouts: How long executions wait for messages that do not arrive.
        ping_interval: As in `RemoteKernel`.
        options: As in `Kernels`.
    """

    backend = "gateway"

    def __init__(
        self,
        manager: MultiKernelManager,
        specs: Any,
        *,
        timeouts: Timeouts | None = None,
        ping_interval: float = PING_INTERVAL,
        **options: Any,
    ) -> None:
        timeouts = replace(timeouts or Timeouts(), external_interrupt=INTERRUPT_GRACE)
        options |= {"stack": None, "backend": "direct", "timeouts": timeouts}
        super().__init__(manager, specs, **options)
        self._ping_interval = ping_interval

    async def kernelspecs(self) -> list[Kernelspec]:
        """Return the gateway's kernelspecs, its default first. Raises GatewayUnavailable."""
        with asking():
            return await super().kernelspecs()

    async def info(self, kernel_id: str) -> KernelInfo:
        """Return what is known about a kernel; nothing about its process."""
        kernel = self._kernel(kernel_id)
        state = kernel.state
        if state == "unknown":
            state = (await kernel.look() or {}).get("execution_state", state)
            self._kernel(kernel_id)
        model: Json = kernel.manager.kernel or {}
        return KernelInfo(
            id=kernel_id,
            name=str(model.get("name", "")),
            language=kernel.language,
            state=state,
            uptime=asyncio.get_running_loop().time() - kernel.seen_since,
            restarts=kernel.restarts,
            remote=True,
        )

    async def interrupt(self, kernel_id: str, **only: Any) -> None:
        """Interrupt what a kernel runs. Raises GatewayUnavailable, too."""
        with asking():
            await super().interrupt(kernel_id, **only)

    async def _launch(self, name: str, path: str | None) -> str:
        """Have the gateway start a kernel; try once more if it fails (HTTP 5xx)."""
        # Blanks for variables that the gateway client would send and kernels must not have.
        allowed = self._environment()
        withheld = {variable: "" for variable in os.environ if variable not in allowed}
        for is_last in (False, True):
            try:
                return await self._manager.start_kernel(kernel_name=name, path=path, env=withheld)
            except FAILURES as error:
                status = status_of(error)
                if status is None:
                    raise unavailable(error) from error
                if status < 500 or is_last:
                    raise KernelStartFailed(
                        f"The gateway {gateway_address()} failed to start the kernel `{name}`: "
                        f"{' '.join(str(error).split())}",
                        hint="See the gateway's log. Try again later, or choose another kernelspec "
                        "(list_kernels).",
                    ) from error
                log.warning("The gateway failed to start a kernel, trying again: %s", error)
        raise AssertionError("the last attempt returns or raises")

    def _start_failure(self, kernel_id: str, name: str, problem: str) -> KernelStartFailed:  # noqa: ARG002 - the base's
        return KernelStartFailed(
            f"The kernel `{name}` {problem}.",
            hint=f"See the log of the gateway {gateway_address()} for the kernel's output.",
        )

    async def _restart(self, kernel_id: str) -> None:
        kernel = self._kernel(kernel_id)
        await kernel.settled()
        self._kernel(kernel_id)
        with _stopping(kernel):
            await self._manager.restart_kernel(kernel_id)
        kernel.end(RESTARTED)
        await self.wait_ready(kernel_id)

    async def _stop(self, kernel_id: str, *, now: bool = False) -> None:  # noqa: ARG002 - the base's
        if kernel_id not in self._manager:
            return
        kernel, watch = self._kernel(kernel_id), self._watches[kernel_id]
        await kernel.settled()
        if kernel.ending is None:
            with _stopping(kernel):
                await self._manager.shutdown_kernel(kernel_id)
            kernel.gone(SHUT_DOWN)
        await asyncio.wait({watch})

    def _kernel(self, kernel_id: str) -> RemoteKernel:
        if kernel_id in self._kernels and kernel_id not in self._manager:
            self._kernels[kernel_id].gone(SHUT_DOWN)
        return super()._kernel(kernel_id)

    def _track(self, kernel_id: str, manager: Any, **observed: Any) -> RemoteKernel:
        return RemoteKernel(
            kernel_id,
            manager,
            # The manager removes it only when a client lists kernels, which may never happen.
            on_gone=lambda: self._manager.remove_kernel(kernel_id),
            ping_interval=self._ping_interval,
            **observed,
        )


@contextmanager
def _stopping(kernel: RemoteKernel) -> Generator[None]:
    """Request a restart or shutdown of a kernel. Raises GatewayUnavailable."""
    kernel.stop_requested = True
    try:
        with asking():
            yield
    finally:
        kernel.stop_requested = False


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of a gateway's response; None if there was no response.

    tornado's 599 stands for no response, and so do the statuses that Jupyter's client makes up if the
    gateway's name is unknown (404) or nothing listens (503).
    """
    if isinstance(error, HTTPClientError):
        return None if error.code == 599 else error.code
    if isinstance(error, HTTPError):
        made_up = isinstance(error.__cause__, OSError) or error.status_code == 599
        return None if made_up else error.status_code
    return None


def unavailable(error: BaseException) -> GatewayUnavailable:
    """Return the typed error for a gateway that failed or refused a request."""
    said = f"The gateway {gateway_address()} failed: {' '.join(str(error).split())}"
    if status_of(error) in {401, 403}:
        return GatewayUnavailable(
            said,
            hint="The gateway refuses this server: check GatewayClient.auth_token or other "
            "credentials.",
        )
    return GatewayUnavailable(said)


@contextmanager
def asking() -> Generator[None]:
    """Raise GatewayUnavailable if a gateway does not respond or refuses."""
    try:
        yield
    except FAILURES as error:
        raise unavailable(error) from error


def gateway_address() -> str:
    """Return the gateway's address for people, without credentials and query."""
    address = urlsplit(GatewayClient.instance().url or "")
    host = address.netloc.rpartition("@")[2]
    return address._replace(netloc=host, query="", fragment="").geturl()


def kernels_of(manager: MultiKernelManager, specs: Any, **options: Any) -> Kernels:
    """Return the service for a server's kernels; the options are those of `Kernels`."""
    if isinstance(manager, GatewayMappingKernelManager):
        log.info("Kernels are behind a gateway: executions go over WebSockets")
        return GatewayKernels(manager, specs, **options)
    return Kernels(manager, specs, **options)
