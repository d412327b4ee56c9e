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
from collections.abc import Awaitable, Callable, Generator
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

from tk_ai_extension.kernels.base import (
    KernelInfo,
    Kernelspec,
    KernelState,
    Message,
)
from tk_ai_extension.kernels.executor import (
    Connection,
    ConnectionClosed,
    Ending,
    Timeouts,
)
from tk_ai_extension.kernels.kernel import (
    LOST,
    RESTARTED,
    SHUT_DOWN,
    TrackedKernel,
    language_of,
)
from tk_ai_extension.kernels.service import JupyterKernels
from tk_ai_extension.model.encoding import MALFORMED
from tk_ai_extension.model.errors import (
    GatewayUnavailable,
    KernelStartFailed,
)
from tk_ai_extension.model.json_values import Json

if TYPE_CHECKING:
    from jupyter_client.multikernelmanager import MultiKernelManager

log = logging.getLogger(__name__)
_jupyter: Any = base  # its functions are not annotated

V1 = "v1.kernel.websocket.jupyter.org"
"""The WebSocket subprotocol with binary framing."""

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
        self._is_binary = socket.selected_subprotocol == V1
        stream: Any = getattr(socket.protocol, "stream", None)
        self._tcp: Any = None if stream is None else stream.socket
        if stream is not None:  # Nagle's algorithm delays the small messages of short cells
            stream.set_nodelay(True)
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
        opening = asyncio.ensure_future(
            websocket_connect(
                request,
                subprotocols=[V1],
                ping_interval=ping_interval,
                ping_timeout=ping_interval,
                max_message_size=MAX_MESSAGE,
            )
        )
        try:
            return cls(await asyncio.shield(opening), session)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_late)
            raise

    def stop_channels(self) -> None:
        """Close the WebSocket."""
        self._reader.cancel()
        self._socket.close()

    def _send(self, channel: str, message: Message) -> None:
        if self._is_binary:
            data = _jupyter.serialize_msg_to_ws_v1(message, channel, self.session.pack)
        else:
            data = json.dumps({**message, "channel": channel}, default=json_default)
        try:
            sent = self._socket.write_message(data, binary=self._is_binary)
        except WebSocketClosedError:
            raise ConnectionError(LOST) from None
        # The reader notices a lost connection.
        asyncio.ensure_future(sent).add_done_callback(lambda done: done.exception())

    def _unpack(self, data: str | bytes) -> tuple[str, Message]:
        if self._is_binary:
            channel, parts = _jupyter.deserialize_msg_from_ws_v1(data)
            names = ("header", "parent_header", "metadata", "content")
            message = dict(zip(names, map(self.session.unpack, parts[:4]), strict=True))
            message["buffers"] = parts[4:]
        else:
            with_buffers = isinstance(data, bytes)
            message = (
                _jupyter.deserialize_binary_message(data) if with_buffers else json.loads(data)
            )
            channel = message["channel"]
        return channel, {**message, "msg_type": message["header"]["msg_type"]}

    async def _read(self) -> None:
        # tornado buffers one message, so that a faster sender waits at the gateway.
        while (data := await self._socket.read_message()) is not None:
            if self._tcp is not None and hasattr(sockets, "TCP_QUICKACK"):
                # The gateway may wait for the ACK, which Linux delays by 40 ms. Not permanent.
                with suppress(OSError):
                    self._tcp.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_QUICKACK, 1)
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


def _close_late(opening: asyncio.Future[WebSocketClientConnection]) -> None:
    """Close a WebSocket whose opening was cancelled meanwhile."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


class RemoteKernel(TrackedKernel):
    """A kernel whose process is not visible: its messages and its gateway tell what happens to it.

    Its end is known from the kernel (it announces a shutdown), from the gateway (it restarts a dead
    kernel, or has none), from messages of another session, and from the loss of the WebSocket.

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
        self._between: str | None = None  # "died" or "restarted": waits for the next process
        self._process = ""  # the session id of the messages of the last known process
        self._publisher = ""  # the same, on the newest connection
        self._is_gone = asyncio.Event()

    async def connect(self, *, first: bool = False) -> Connection:
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
    def stopping(self) -> bool:
        """Whether it is being shut down or restarted."""
        return self.stop_requested or self._between is not None

    async def _try(self, first: bool) -> Connection | None:
        """Try once to connect; return None if the kernel does not answer yet."""
        self._publisher = ""
        try:
            client = await WebSocketClient.open(self.id, self._ping_interval)
        except FAILURES as error:
            status = status_of(error)
            if status == 404:
                await self.look()
            elif self._between is None or status is None or status < 500:
                raise unavailable(error) from error
            return None
        connection = Connection(client, self._observe)
        self._spawn(self._await_loss(connection))
        unanswered = Ending("closed", "The kernel did not answer.")
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                answer = await connection.kernel_info(on_shell=first)
        except (TimeoutError, ConnectionClosed):
            connection.close(unanswered)
            return None
        except BaseException:
            connection.close(unanswered)
            raise
        still_stopping = self._between and self._publisher == self._process != ""
        if self.ending is not None or still_stopping:
            connection.close(self.ending or unanswered)
            return None
        self._connection = connection
        self.language = language_of(answer)
        self._begin(first)
        return connection

    def _begin(self, first: bool) -> None:
        """Note that a process answered: a new one, or the one before the connection was lost."""
        between, self._between = self._between, None
        unseen = between is None and "" != self._process != self._publisher
        self._process = self._publisher
        if first or between or unseen or self.state in {"starting", "restarting"}:
            self.state = "idle"
        if between or unseen:
            self.restarts += 1
        if between == "died" or unseen:
            self._notify("restarted")

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
        """End this process of the kernel and wait for the next one."""
        connection = self.connection
        self._between = "died" if ending.kind == "died" else "restarted"
        self.state = "restarting"
        log.info("Kernel %s: %s", self.id, ending.message)
        self._notify(self._between)
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
        self._notify("shutdown" if ending.kind == "shutdown" else "died")
        self._on_gone()

    async def _await_loss(self, connection: Connection) -> None:
        """Handle the loss of a connection: the kernel may be gone, replaced, or merely unreachable."""
        await connection.lost.wait()
        was_known = self._connection is connection
        if was_known and connection.ending is None:
            await self.look()
        connection.close(self.ending or Ending("lost", LOST))
        if was_known and self.ending is None and self._between is None:
            log.warning("Kernel %s: %s", self.id, LOST)
            self._set_state("unknown")
            await self._reconnect()

    async def _reconnect(self) -> None:
        """Reconnect, so that no activity of other clients is missed.

        What fails now is tried again at the kernel's next use.
        """
        try:
            async with asyncio.timeout(RECONNECT_TIMEOUT):
                await self.connect()
        except (TimeoutError, ConnectionClosed, GatewayUnavailable) as error:
            log.info("Kernel %s cannot be reached yet: %s", self.id, error)

    async def settled(self) -> None:
        """Wait until no restart is under way, during which a gateway cannot stop a kernel."""
        if self.stopping:
            await self._reconnect()

    async def watch(self) -> Ending:
        """Check regularly whether a kernel that runs code is gone or was replaced, until it is gone."""
        while self.ending is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_INTERVAL):
                    await self._is_gone.wait()
            if not self._is_listed():
                self.gone(SHUT_DOWN)
            elif self.connection is not None and self.connection.has_runs:
                await self.look()
                if self.connection is not None:
                    self.connection.probe()
        return self.ending

    async def _await_shutdown(self) -> None:
        """Wait for the end of a kernel that announced its shutdown; the gateway may restart it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SHUTDOWN_TIMEOUT):
                while self._is_listed() and self.ending is None:
                    await self.look()
                    await asyncio.sleep(RETRY_INTERVAL)
        if self._is_listed():
            await self._reconnect()
        else:
            self.gone(SHUT_DOWN)

    # -- called by the connection

    def _observe(self, message: Message, ours: bool) -> None:
        publisher = message["header"].get("session", "")
        state = message["content"].get("execution_state")
        # Other states are the gateway's. Some kernels publish with the client's session.
        known = message["msg_type"] == "status" and state in {"starting", "busy", "idle"}
        if known and publisher != message["parent_header"].get("session"):
            former, self._publisher = self._publisher, publisher
            if former and former != publisher:
                self._on_stopping(restart=True)
                return
        super()._observe(message, ours)

    def _on_state(self, state: KernelState) -> None:
        if state == "restarting":  # published only by gateways, after a kernel has died
            self.end(Ending("died", DIED))
        elif state == "dead":
            self.gone(Ending("died", f"{DIED} It could not be restarted."))
        elif self.connection is not None:
            # "starting" comes on iopub and may arrive after the reply.
            self._set_state("idle" if state == "starting" else state)

    def _on_stopping(self, restart: bool) -> None:
        if self.stop_requested or self.connection is None:
            return  # the gateway's response follows
        if restart:
            self.end(RESTARTED)
            return
        self.connection.close(SHUT_DOWN)
        self._between = "died"
        self._spawn(self._await_shutdown())

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        return self._tasks.spawn(work, f"Following kernel {self.id}")


class GatewayKernels(JupyterKernels):
    """Starts, finds, watches and stops kernels through jupyter_server's gateway client.

    The environment chooses which of this server's variables kernels may have; of those, only the ones
    in ``GatewayClient.allowed_envs`` are sent to the gateway. Stacks and sandboxes are not used.

    Args:
        manager: The `GatewayMappingKernelManager`.
        specs: The `GatewayKernelSpecManager`.
        timeouts: How long executors wait for messages that do not arrive.
        ping_interval: As in `RemoteKernel`.
        options: As in `JupyterKernels`.
    """

    own_executor = "gateway"

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
        options = {**options, "stack": None, "backend": "direct", "timeouts": timeouts}
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
            found = await kernel.look() or {}
            self._kernel(kernel_id)
            state = found.get("execution_state", state)
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

    # -- starting

    async def _launch(self, name: str, path: str | None) -> str:
        """Have the gateway start a kernel; try once more if it fails (HTTP 5xx)."""
        # Blanks for variables that the gateway client would send and kernels must not have.
        allowed = self._environment.environment(name, path)
        withheld = {variable: "" for variable in os.environ if variable not in allowed}
        start: Callable[..., Awaitable[str]] = self._manager.start_kernel
        for is_last in (False, True):
            try:
                return await start(kernel_name=name, path=path, env=withheld)
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

    async def _discard(self, kernel_id: str) -> None:
        try:
            await super()._discard(kernel_id)
        except GatewayUnavailable as error:
            log.warning("Kernel %s is left at the gateway: %s", kernel_id, error)
            self._kernels[kernel_id].gone(SHUT_DOWN)

    # -- interrupting and stopping

    async def _interrupt(self, kernel: TrackedKernel, connection: Connection) -> None:  # noqa: ARG002 - the base's
        with asking():
            await self._manager.interrupt_kernel(kernel.id)

    async def _restart(self, kernel: TrackedKernel) -> None:
        await kernel.settled()
        remote = self._kernel(kernel.id)
        with _stopping(remote):
            await self._manager.restart_kernel(kernel.id)
        remote.end(RESTARTED)
        await self.wait_ready(kernel.id)

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

    # -- one kernel

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


def kernels_of(manager: MultiKernelManager, specs: Any, **options: Any) -> JupyterKernels:
    """Return the service for a server's kernels; the options are those of `JupyterKernels`."""
    if isinstance(manager, GatewayMappingKernelManager):
        log.info("Kernels are behind a gateway: executions go over WebSockets")
        return GatewayKernels(manager, specs, **options)
    return JupyterKernels(manager, specs, **options)
