"""A kernel through all its processes: the connection that is kept open, its events, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hmac import compare_digest
from typing import Any, Protocol

import zmq.asyncio
from jupyter_client.session import Session

from tk_ai_extension.kernels.kernel_info import KernelEvent, KernelState, Message
from tk_ai_extension.kernels.kernel_process import (
    ResourceUsageMeter,
    describe_exit,
    local_process,
    process_end,
)
from tk_ai_extension.kernels.kernel_run import STOP_TIMEOUT, DisconnectReason, KernelRun
from tk_ai_extension.kernels.output_collector import OTHER_DISPLAY_MIME, OutputCollector
from tk_ai_extension.model.background_tasks import BackgroundTasks
from tk_ai_extension.model.errors import GatewayUnavailable
from tk_ai_extension.model.executions import ExecutionRequest
from tk_ai_extension.model.json_values import MALFORMED, Json

log = logging.getLogger(__name__)

READ_TIME = 0.01
"""Seconds for which one source of messages may occupy the event loop at a time."""

INFO_INTERVAL = 0.2
"""Seconds after which kernel_info is requested again if nothing was received on iopub."""

ANSWER_TIMEOUT = 10.0
"""Seconds to wait for a kernel's reply before another client is opened."""

RECONNECT_TIMEOUT = 30.0
"""Seconds in which the next process of a kernel must answer to be connected at once."""

DRAIN_GAP = 0.1
"""Seconds without a message after which a kernel that has ended has sent its last one."""

STEP_INTERVAL = 0.05
"""Polling interval in seconds for a process that a manager replaces: jupyter_client has no event for that."""

RESTARTED = DisconnectReason("restarted", "The kernel was restarted.")
SHUT_DOWN = DisconnectReason("shutdown", "The kernel was shut down.")
CLOSED = DisconnectReason("closed", "The connection to the kernel was closed.")


class ConnectionClosed(Exception):
    """The connection has ended; its argument is the `DisconnectReason`."""

    def __init__(self, ending: DisconnectReason) -> None:
        super().__init__(ending.message)
        self.ending = ending


Source = Callable[[], Awaitable[tuple[str, Message]]]
"""Returns the next message that it has, with the channel's name.

Raises `MALFORMED`, and ConnectionError or ZMQError once there are no more.
"""


class KernelClient(Protocol):
    """Sends and receives the messages of one process of a kernel.

    Attributes:
        session: Makes messages. It is not shared: a kernel replies to the last client of an identity.
        sources: Together they return the messages of all channels.
    """

    session: Any
    sources: Sequence[Source]

    def send(self, channel: str, message: Message) -> None:
        """Send a message. Raises ConnectionError."""
        ...

    def close(self) -> None:
        """Close the channels."""
        ...


def unpacked(parts: Sequence[bytes], unpack: Callable[[bytes], Any]) -> Message:
    """Return the message whose header, parent header, metadata and content are these JSON texts."""
    header = unpack(parts[0])
    return {
        "msg_type": header["msg_type"],
        "header": header,
        "parent_header": unpack(parts[1]),
        "content": unpack(parts[3]),
    }


class ZmqClient:
    """jupyter_client's `AsyncKernelClient`, without a poll before each message.

    Dates are not parsed: that would take half of the time of a short message.
    """

    def __init__(self, client: Any) -> None:
        self.session: Any = client.session
        self._client = client
        self._unpack: Any = client.session.unpack
        names = ("shell", "iopub", "stdin", "control")
        self._channels = {name: getattr(client, f"{name}_channel") for name in names}
        self.sources: Sequence[Source] = [partial(self._receive, name) for name in names]

    async def _receive(self, channel: str) -> tuple[str, Message]:
        parts = await self._channels[channel].socket.recv_multipart()
        _, (signature, *parts) = self.session.feed_identities(parts)
        if not compare_digest(signature, self.session.sign(parts[:4])):
            raise ValueError("its signature is invalid")
        return channel, unpacked(parts, self._unpack)

    def send(self, channel: str, message: Message) -> None:
        """Send a message."""
        self._channels[channel].send(message)
        # ZMQ_FD is edge-triggered, and sending consumes the edge of a message that has arrived.
        self._channels[channel].socket.get(zmq.EVENTS)

    def close(self) -> None:
        """Close the channels."""
        self._client.stop_channels()


class KernelConnection:
    """A connection to one process of a kernel, which passes each message to its run.

    Args:
        client: Sends and receives the messages.
        observe: Called with each iopub message, and whether a run of this server caused it.
    """

    def __init__(self, client: KernelClient, observe: Callable[[Message, bool], None]) -> None:
        self.ended = asyncio.Event()
        self.ending: DisconnectReason | None = None
        self.info: Json | None = None
        """Content of the kernel_info_reply; None until `kernel_info` has returned."""
        self._client = client
        self._observe = observe
        self.runs: dict[str, KernelRun] = {}
        """The runs that have not ended, by the id of their request."""
        self._info: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._replies: dict[str, asyncio.Future[Json]] = {}
        self._receives = asyncio.Event()
        self._readers = [asyncio.create_task(self._read(source)) for source in client.sources]

    async def kernel_info(self) -> None:
        """Request kernel_info until the kernel replies and iopub is subscribed.

        A kernel drops what it publishes before the subscription has reached it (slow joiner).
        jupyter_client's ``wait_for_ready`` waits another 0.2 s, and until the running cell has ended:
        on control a kernel replies before that.

        Raises:
            ConnectionClosed.
        """
        while not self._info.done() or not self._receives.is_set():
            for channel in ("shell", "control"):
                self._send(channel, "kernel_info_request", {})
            await asyncio.wait({self._info})
            with suppress(TimeoutError):
                await asyncio.wait_for(self._receives.wait(), INFO_INTERVAL)
            if self.ending is not None:
                raise ConnectionClosed(self.ending)
        self.info = self._info.result()

    def probe(self) -> None:
        """Request kernel_info; a listener for the messages learns which process publishes them."""
        with suppress(ConnectionClosed):
            self._send("control", "kernel_info_request", {})

    async def debug(self, command: str) -> Json:
        """Send a request of the Debug Adapter Protocol without arguments; return the body of the response.

        A kernel answers on control, also while code runs.

        Raises:
            ConnectionClosed.
        """
        request = {"type": "request", "seq": 1, "command": command, "arguments": {}}
        msg_id = self._send("control", "debug_request", request)
        reply = self._replies[msg_id] = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait({reply})
        finally:
            del self._replies[msg_id]
        if self.ending is not None:
            raise ConnectionClosed(self.ending)
        return reply.result().get("body") or {}

    def submit(self, run: KernelRun) -> None:
        """Send a run's request. Raises ConnectionClosed; then nothing was sent."""
        self.follow(self._send("shell", "execute_request", run.content), run)

    def follow(self, msg_id: str, run: KernelRun) -> None:
        """Give a run the messages of the request with this id, which is sent now."""
        self.runs[msg_id] = run
        run.on_done = lambda: self.runs.pop(msg_id, None)

    def interrupting(self, only: ExecutionRequest | None = None) -> bool:
        """Mark the running run as interrupted; return False if ``only`` does not run now."""
        running = [run for run in self.runs.values() if run.is_running]
        if only is not None and not any(run.request is only for run in running):
            return False
        for run in running:
            run.interrupted = True
        return True

    def close(self, ending: DisconnectReason) -> None:
        """End the connection, and with it the runs that have not ended."""
        if self.ending is not None:
            return
        self.ending = ending
        self.ended.set()
        for run in list(self.runs.values()):
            run.on_end(ending)
        self._info.cancel()
        for reply in self._replies.values():
            reply.cancel()
        for reader in self._readers:
            reader.cancel()
        self._client.close()

    async def drain(self) -> None:
        """Wait until the last message of a kernel that has ended is handled."""
        with suppress(TimeoutError):
            while True:
                self._receives.clear()
                await asyncio.wait_for(self._receives.wait(), DRAIN_GAP)

    def _send(self, channel: str, kind: str, content: Mapping[str, Any]) -> str:
        """Send a message and return its id. Raises ConnectionClosed."""
        if self.ending is None:
            message: Message = self._client.session.msg(kind, content)
            try:
                self._client.send(channel, message)
            except ConnectionError as error:
                self.close(DisconnectReason("lost", str(error)))
            else:
                return message["header"]["msg_id"]
        assert self.ending is not None
        raise ConnectionClosed(self.ending)

    async def _read(self, source: Source) -> None:
        turn = time.monotonic() + READ_TIME
        while True:
            try:
                channel, message = await source()
            except (ConnectionError, zmq.ZMQError) as error:
                self.close(DisconnectReason("lost", str(error)))
                return
            except MALFORMED as error:
                log.warning("Dropped a malformed message from a kernel: %s", error)
                continue
            try:
                self._handle(channel, message)
            except Exception:
                log.exception("A message from a kernel could not be handled")
            if time.monotonic() > turn:
                await asyncio.sleep(0)  # awaiting a message that has arrived does not yield
                turn = time.monotonic() + READ_TIME

    def _handle(self, channel: str, message: Message) -> None:
        kind, content = message["msg_type"], message["content"]
        msg_id = message["parent_header"].get("msg_id") or ""
        run = self.runs.get(msg_id)
        if channel == "iopub":
            self._receives.set()
            self._observe(message, run is not None and run.is_ours)
            if run is not None:
                run.on_iopub(kind, content)
        elif channel == "stdin":
            answer = run.on_input(content) if run is not None and kind == "input_request" else None
            if answer is not None:
                self._send("stdin", "input_reply", {"value": answer})
        elif run is not None:
            run.on_reply(content)
        elif kind == "kernel_info_reply" and not self._info.done():
            self._info.set_result(content)
        elif kind == "debug_reply" and msg_id in self._replies:
            self._replies[msg_id].set_result(content)


class Kernel:
    """A kernel through all its processes, with one connection that is kept open to each.

    Its process runs on this machine, so its end and exit code are known. Kernels elsewhere have a subclass.

    Args:
        kernel_id: Its id.
        manager: Its kernel manager.
        is_listed: Returns whether the server still has the kernel.
        emit: Called with each `KernelEvent`.
        context: Makes the sockets.
    """

    remote = False
    """Whether it runs behind a gateway."""
    grace = 0.0
    """Seconds to wait after another client's interrupt: a restart may follow, which begins with one."""

    def __init__(
        self,
        kernel_id: str,
        manager: Any,
        *,
        is_listed: Callable[[], bool],
        emit: Callable[[KernelEvent], None],
        context: zmq.asyncio.Context,
    ) -> None:
        self.id = kernel_id
        self.manager = manager
        self.restarts = 0
        self.state: KernelState = "unknown"
        self.ending: DisconnectReason | None = None
        """Why the kernel no longer answers; None while it may."""
        self.lock = asyncio.Lock()
        """Held by this server's restarts and shutdowns."""
        self.watching: asyncio.Task[None] | None = None
        """The task that runs `watch`."""
        self.changed = asyncio.Event()
        """Set by each event; clear it before you wait for it."""
        self._is_listed = is_listed
        self._emit = emit
        self._context = context
        self._language = ""
        self.meter = ResourceUsageMeter()
        self._alive = asyncio.Event()
        self._alive.set()
        self._connecting = asyncio.Lock()
        self._connection: KernelConnection | None = None
        self._tasks = BackgroundTasks(log)

    @property
    def language(self) -> str:
        """Its language in lower case; empty if it is unknown."""
        return self._language or str(getattr(self.manager.kernel_spec, "language", "")).lower()

    @property
    def stopping(self) -> bool:
        """Whether it is being shut down or restarted, if this server knows of it."""
        return bool(getattr(self.manager, "shutting_down", False)) or not self._alive.is_set()

    @property
    def connection(self) -> KernelConnection | None:
        """The connection, if one is open and the kernel has answered on it."""
        connection = self._connection
        if connection is None or connection.ending is not None or connection.info is None:
            return None
        return connection

    async def connect(self, *, first: bool = False) -> KernelConnection:
        """Return the open connection, or open one and wait until the kernel answers.

        Waits for a kernel that is being restarted, without a timeout.

        Args:
            first: Whether the kernel was just started: it is then not retried if it dies.

        Raises:
            ConnectionClosed: the kernel is gone.
            GatewayUnavailable: its gateway cannot be reached.
        """
        async with self._connecting:
            while True:
                await self._alive.wait()
                if self.ending is not None:
                    raise ConnectionClosed(self.ending)
                if self.connection is not None:
                    return self.connection
                client = await self._open()
                if client is None:
                    await asyncio.sleep(STEP_INTERVAL)
                    continue
                connection = self._connection = KernelConnection(client, self._observe)
                try:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(ANSWER_TIMEOUT):
                            await connection.kernel_info()
                except ConnectionClosed:
                    if first:
                        raise
                finally:
                    if connection.info is None:
                        connection.close(CLOSED)
                if self.connection is connection:
                    self._answered(connection)
                    return connection

    async def settled(self) -> None:
        """Wait until nobody is starting or stopping it: a manager cannot do both at once."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT):
                while not self.manager.ready.done():  # noqa: ASYNC110 - it is replaced
                    await asyncio.sleep(STEP_INTERVAL)

    async def watch(self) -> DisconnectReason:
        """Follow the kernel's processes until it is shut down or stays dead; return how it ended."""
        while True:
            process = local_process(self.manager)
            code = await process_end(self.manager)
            self._alive.clear()
            if not self.manager.shutting_down and local_process(self.manager) is process:
                ending = DisconnectReason("died", f"The kernel {describe_exit(code)}.")
                comes_back = self.manager.autorestart
            else:
                ending = RESTARTED if await self._replaced(process, STOP_TIMEOUT) else SHUT_DOWN
                comes_back = ending is RESTARTED
            log.info("Kernel %s: %s", self.id, ending.message)
            connection = self.connection
            if connection is not None:
                await connection.drain()
            if self._connection is not None:
                self._connection.close(ending)
            self.ending = ending
            self.state = "dead"
            if comes_back:
                self.state = "restarting" if ending.kind == "died" else "starting"
            self._notify(ending.kind)
            if not comes_back or not await self._replaced(process):
                self.state = "dead"
                self._alive.set()  # `connect` must not wait for a process that never comes
                if comes_back:
                    self._notify("died")
                return ending
            self.restarts += 1
            self.ending = None
            self._on_state("starting")
            self._alive.set()
            if connection is not None:
                self._tasks.spawn(self._reconnect(), f"Connecting to kernel {self.id}")

    def stopped(self, ending: DisconnectReason) -> None:
        """Handle a stop by the manager; here `watch` sees it by the process."""

    async def close(self) -> None:
        """Close the connection; the kernel keeps running."""
        if self._connection is not None:
            self._connection.close(CLOSED)
        await self._tasks.close()

    async def _open(self) -> KernelClient | None:
        """Return a client of the present process; None if it cannot be reached yet."""
        session = self.manager.session
        # A new identity: a kernel replies to the last client of an identity.
        own = Session(key=session.key, signature_scheme=session.signature_scheme)
        return ZmqClient(self.manager.client(session=own, context=self._context))

    def _answered(self, connection: KernelConnection) -> None:
        """Store what a kernel_info_reply says."""
        assert connection.info is not None
        about = connection.info.get("language_info") or {}
        self._language = str(about.get("name", "")).lower()
        if self.state in {"starting", "restarting", "unknown"}:
            self._on_state("idle")

    async def _reconnect(self) -> None:
        """Connect at once, so that no activity of other clients is missed; else the next use connects."""
        try:
            async with asyncio.timeout(RECONNECT_TIMEOUT):
                await self.connect()
        except (TimeoutError, ConnectionClosed, GatewayUnavailable) as error:
            log.info("Kernel %s does not answer: %s", self.id, error)

    def _observe(self, message: Message, ours: bool) -> None:
        """Emit the events in an iopub message, whichever client caused it."""
        kind, content, parent = message["msg_type"], message["content"], message["parent_header"]
        if kind == "status":
            state = content.get("execution_state", "unknown")
            if parent.get("msg_type") in {"execute_request", None} or state not in {"busy", "idle"}:
                # "starting" may arrive after the reply on shell or control.
                self._on_state("idle" if state == "starting" and self.connection else state)
        elif kind == "execute_input":
            code, count = str(content.get("code", "")), content.get("execution_count")
            self._notify("ran", code=code, execution_count=count, ours=ours)
        elif (
            not ours
            and kind in {"display_data", "update_display_data"}
            and content.get("transient")
        ):
            collector = OutputCollector()
            collector.add(kind, content)
            for event in collector.drain_events():
                if event.mime == OTHER_DISPLAY_MIME:
                    self._notify("display", display=event.data)

    def _on_state(self, state: KernelState) -> None:
        """Store an execution state."""
        if state == self.state:
            return
        came_back = self.state == "restarting"
        self.state = state
        self._notify("restarted" if came_back else "state")

    def _notify(self, kind: Any, **fields: Any) -> None:
        self.changed.set()
        self._emit(KernelEvent(self.id, kind, self.state, **fields))

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
