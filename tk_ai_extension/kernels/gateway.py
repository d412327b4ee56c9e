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
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

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

from tk_ai_extension.kernels.kernel import (
    RESTARTED,
    SHUT_DOWN,
    Kernel,
    KernelClient,
    KernelConnection,
    Source,
    unpacked,
)
from tk_ai_extension.kernels.kernel_info import KernelState, Message
from tk_ai_extension.kernels.kernel_run import DisconnectReason
from tk_ai_extension.kernels.kernel_service import KernelService
from tk_ai_extension.model.errors import GatewayUnavailable, KernelStartFailed
from tk_ai_extension.model.masking import masked

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

RETRY_INTERVAL = 0.2
"""Seconds between checks of a kernel that announced its end."""

LOOK_INTERVAL = 5.0
"""Seconds between checks that a gateway still has the same kernel while code runs."""

LOOK_TIMEOUT = 2.0
"""Seconds in which a gateway must report whether it has a kernel."""

SHUTDOWN_TIMEOUT = 10.0
"""Seconds after its announcement in which a kernel must be shut down or restarted."""

FAILURES = (HTTPError, HTTPClientError, WebSocketError, OSError, json.JSONDecodeError)
"""Exceptions that a request to a gateway may raise; any other is a bug of this package."""

LOST = "The connection to the kernel was lost: whether the code ran to its end is unknown."
DIED = "The kernel died, possibly out of memory: the gateway gives no reason."


class WebSocketClient:
    """A client of a kernel over the gateway's WebSocket.

    Args:
        socket: An open WebSocket.
        session: The session with the id that the WebSocket was opened with.
    """

    def __init__(self, socket: WebSocketClientConnection, session: Session) -> None:
        self.session: Any = session
        self.sources: Sequence[Source] = [self._receive]
        self._socket = socket
        self._is_v1 = socket.selected_subprotocol == V1
        self._stream: Any = getattr(socket.protocol, "stream", None)
        if self._stream is not None:  # Nagle's algorithm delays the small messages of short cells
            self._stream.set_nodelay(True)

    @classmethod
    async def open(cls, kernel_id: str) -> WebSocketClient:
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
                ping_interval=PING_INTERVAL,
                ping_timeout=PING_INTERVAL,
                max_message_size=MAX_MESSAGE,
            )
        )
        try:
            return cls(await asyncio.shield(opening), session)
        except asyncio.CancelledError:
            opening.add_done_callback(lambda done: done.exception() or done.result().close())
            raise

    def send(self, channel: str, message: Message) -> None:
        """Send a message. Raises ConnectionError once the WebSocket is closed."""
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

    def close(self) -> None:
        """Close the WebSocket."""
        self._socket.close()

    async def _receive(self) -> tuple[str, Message]:
        # tornado buffers one message, so that a faster sender waits at the gateway.
        data = await self._socket.read_message()
        if data is None:
            raise ConnectionError(LOST)
        if self._stream is not None and hasattr(sockets, "TCP_QUICKACK"):
            # The gateway may wait for the ACK, which Linux delays by 40 ms. Not permanent.
            with suppress(OSError):
                self._stream.socket.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_QUICKACK, 1)
        if self._is_v1:
            channel, parts = _jupyter.deserialize_msg_from_ws_v1(data)
            return channel, unpacked(parts, self.session.unpack)
        # A binary message has buffers.
        is_text = isinstance(data, str)
        message = json.loads(data) if is_text else _jupyter.deserialize_binary_message(data)
        return message["channel"], {**message, "msg_type": message["header"]["msg_type"]}


class RemoteKernel(Kernel):
    """A kernel without a visible process: its state is known from its messages and its gateway.

    The gateway announces the restart of a dead kernel, and no longer lists one that was shut down. After a
    restart, the kernel's messages have another session id.
    """

    remote = True
    grace = 1.0

    def __init__(self, kernel_id: str, manager: Any, **options: Any) -> None:
        super().__init__(kernel_id, manager, **options)
        self._process = ""  # the session of the messages of the present process
        self._announced_at: float | None = None  # when the process announced its end
        self._look_now = asyncio.Event()

    @property
    def language(self) -> str:
        """Its language in lower case; empty until it has answered."""
        return self._language

    @property
    def stopping(self) -> bool:
        """Whether it is being shut down or restarted."""
        return self.lock.locked() or self._announced_at is not None or self._is_replaced

    @property
    def _is_replaced(self) -> bool:
        return self.state in {"starting", "restarting"}

    async def settled(self) -> None:
        """Wait until a process that announced its end is replaced: a gateway cannot stop it twice."""
        while self._announced_at is not None:  # noqa: ASYNC110 - `watch` bounds it
            await asyncio.sleep(RETRY_INTERVAL)

    async def watch(self) -> DisconnectReason:
        """Check a kernel that runs code or is stopped, until the gateway no longer has it."""
        clock = asyncio.get_running_loop().time
        while self.ending is None:
            interval = LOOK_INTERVAL if self._announced_at is None else RETRY_INTERVAL
            with suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await self._look_now.wait()
            self._look_now.clear()
            if not self._is_listed():
                self._end(SHUT_DOWN)
            elif self._announced_at is not None or (self.connection and self.connection.runs):
                await self._look()
                if self.connection is not None:
                    self.connection.probe()
            if self._announced_at is not None and clock() > self._announced_at + SHUTDOWN_TIMEOUT:
                self._replace(RESTARTED)
        return self.ending

    def stopped(self, ending: DisconnectReason) -> None:
        """Note that the manager has stopped it on request."""
        (self._replace if ending is RESTARTED else self._end)(ending)

    async def _open(self) -> KernelClient | None:
        try:
            return await WebSocketClient.open(self.id)
        except FAILURES as error:
            status = status_of(error)
            if status == 404:
                await self._look()
            elif not self._is_replaced or status is None or status < 500:
                raise unavailable(error) from error
            return None

    def _answered(self, connection: KernelConnection) -> None:
        super()._answered(connection)
        self._tasks.spawn(self._await_loss(connection), f"Following kernel {self.id}")

    async def _await_loss(self, connection: KernelConnection) -> None:
        await connection.ended.wait()
        if connection.ending is not None and connection.ending.kind == "lost":
            log.warning("Kernel %s: %s", self.id, LOST)
            self._on_state("unknown")
            await self._reconnect()

    async def _look(self) -> None:
        """Check that the gateway still has the kernel; if not, end all pending requests.

        The manager's ``refresh_model`` is not used: it treats an unknown host name as a missing kernel,
        and caches that.
        """
        try:
            async with asyncio.timeout(LOOK_TIMEOUT):
                await gateway_request(self.manager.kernel_url, method="GET")
        except FAILURES as error:
            log.debug("The gateway does not report on kernel %s: %s", self.id, error)
            if status_of(error) == 404:
                # A shutdown through this server may still be waiting for its response.
                await asyncio.sleep(RETRY_INTERVAL)
                gone = DisconnectReason(
                    "shutdown", "The kernel is gone: the gateway no longer has it."
                )
                self._end(gone if self._is_listed() else SHUT_DOWN)

    def _replace(self, ending: DisconnectReason) -> None:
        """End this process of the kernel; the next one follows."""
        connection = self.connection
        self._process, self._announced_at = "", None
        self.restarts += 1
        self.state = "restarting" if ending.kind == "died" else "starting"
        log.info("Kernel %s: %s", self.id, ending.message)
        self._notify(ending.kind)
        if connection is not None:
            connection.close(ending)
            self._tasks.spawn(self._reconnect(), f"Connecting to kernel {self.id}")

    def _end(self, ending: DisconnectReason) -> None:
        """End for good: the gateway no longer has the kernel."""
        if self.ending is not None:
            return
        self.ending = ending
        self.state = "dead"
        self._announced_at = None
        log.info("Kernel %s: %s", self.id, ending.message)
        if self._connection is not None:
            self._connection.close(ending)
        self._notify(ending.kind)
        self._look_now.set()

    def _observe(self, message: Message, ours: bool) -> None:
        publisher = message["header"].get("session", "")
        state = message["content"].get("execution_state")
        if message["msg_type"] == "shutdown_reply":  # it will be shut down or restarted
            if not self.stopping:
                self._announced_at = asyncio.get_running_loop().time()
                self._look_now.set()
            return
        # Other states are the gateway's. Some kernels publish with the client's session.
        known = message["msg_type"] == "status" and state in {"starting", "busy", "idle"}
        if known and publisher != message["parent_header"].get("session"):
            if self._process not in {"", publisher} and not self.lock.locked():
                self._replace(RESTARTED)
            self._process = publisher
        super()._observe(message, ours)

    def _on_state(self, state: KernelState) -> None:
        if state == "restarting":  # published only by gateways, after a kernel has died
            self._replace(DisconnectReason("died", DIED))
        elif state == "dead":
            self._end(DisconnectReason("died", f"{DIED} It could not be restarted."))
        else:
            super()._on_state(state)


class GatewayKernelService(KernelService):
    """Starts, finds, watches and stops kernels through jupyter_server's gateway client.

    The environment chooses which of this server's variables kernels may have; of those, only the ones
    in ``GatewayClient.allowed_envs`` are sent to the gateway. Stacks and sandboxes are not used.
    """

    backend = "gateway"
    kernel_class = RemoteKernel

    async def _ask(self, request: Any) -> Any:
        try:
            return await super()._ask(request)
        except FAILURES as error:
            raise unavailable(error) from error

    async def _launch(self, name: str, path: str | None) -> str:
        """Have the gateway start a kernel; try once more if it fails (HTTP 5xx)."""
        # Blanks for variables that the gateway client would send and kernels must not have.
        allowed = self._environment()
        withheld = {variable: "" for variable in os.environ if variable not in allowed}
        start = partial(self._manager.start_kernel, kernel_name=name, path=path, env=withheld)
        try:
            try:
                return await start()
            except FAILURES as error:
                if (status_of(error) or 0) < 500:
                    raise
                log.warning("The gateway failed to start a kernel, trying again: %s", error)
            return await start()
        except FAILURES as error:
            if status_of(error) is None:
                raise unavailable(error) from error
            raise KernelStartFailed(
                f"The gateway {gateway_address()} failed to start the kernel `{name}`: "
                f"{' '.join(str(error).split())}",
                hint="See the gateway's log. Try again later, or choose another kernelspec "
                "(list_kernels).",
            ) from error


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


def gateway_address() -> str:
    """Return the gateway's address for people, without passwords and tokens."""
    return masked(GatewayClient.instance().url or "")


def kernels_of(manager: MultiKernelManager, specs: Any, **options: Any) -> KernelService:
    """Return the service for a server's kernels; the options are those of `KernelService`."""
    if isinstance(manager, GatewayMappingKernelManager):
        return GatewayKernelService(manager, specs, **options | {"stack": None})
    return KernelService(manager, specs, **options)
