"""A connection to a kernel, independent of its transport, and the reasons for which it ends."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tk_ai_extension.kernels.base import KernelState, Message
from tk_ai_extension.kernels.collector import integer
from tk_ai_extension.kernels.output_widgets import OutputWidgets
from tk_ai_extension.model.executions import ExecutionRequest

if TYPE_CHECKING:
    from jupyter_client.session import Session

log = logging.getLogger(__name__)

MAX_DIGITS = 18
"""Maximum digits of the number in a message's id."""


class SequenceGapDetector:
    """Detects iopub messages that a kernel sent and that did not arrive.

    A kernel's PUB socket silently drops messages when more than 1,000 are queued. But jupyter_client's
    sessions, including ipykernel's, number all messages in their ids:
    ``<session>_<process>_<number>``. A gap in the numbers is a reply on another channel, one for each
    request, or a message that was dropped.
    """

    def __init__(self) -> None:
        self._maker = ""
        self._received = 0
        self._requests = 0

    def count(self, msg_id: str, *, begins_request: bool) -> int | None:
        """Count a message received on iopub.

        Args:
            msg_id: Its id.
            begins_request: Whether it is the busy status with which the kernel begins a request.

        Returns:
            How many messages the kernel has sent so far that were neither received nor replies. The
            origin is arbitrary: only differences count. None if ids have no numbers.
        """
        maker, _, digits = msg_id.rpartition("_")
        if not maker or not digits.isdecimal() or len(digits) > MAX_DIGITS:
            return None
        if begins_request:
            self._requests += 1
            self._maker = self._maker or maker
        if maker != self._maker:  # a subprocess of the kernel numbers its own messages
            return None
        self._received += 1
        return int(digits) - self._received - self._requests


HANDSHAKE_INTERVAL = 0.2
"""Seconds after which a handshake is repeated if its status was not received on iopub."""

CAPTURED = "captured"
"""Stands for the type of a message whose output an Output widget has captured."""

REPLY_IDLE_GAP = 5.0
"""Seconds to wait, while no message arrives, for idle after the reply or the reply after idle."""

REPLY_IDLE_LIMIT = 60.0
"""Seconds to wait for it at most: a thread of the code may print forever."""

Channel = Literal["shell", "control", "stdin", "iopub"]
"""A channel of the Jupyter protocol."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a connection to a kernel has ended.

    Attributes:
        kind: ``lost`` if nothing is known about the kernel; ``closed`` by this server.
        message: A sentence for people.
    """

    kind: Literal["died", "restarted", "shutdown", "lost", "closed"]
    message: str


class ReplyIdleWait:
    """The wait of a request for idle after the reply, or for the reply after idle.

    The reply may arrive long before a flood of outputs has been read, so the wait goes on while messages
    arrive; but not without end, because either may be lost.

    Args:
        give_up: Called once, unless the wait is stopped.
        gap: Seconds to wait while no message arrives.
        limit: Seconds to wait in any case.
    """

    def __init__(self, give_up: Callable[[], None], gap: float, limit: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._give_up = give_up
        self._gap = gap
        self._limit = limit
        self._received_at = -inf
        self._end = inf
        self._timer: asyncio.TimerHandle | None = None

    def on_message(self) -> None:
        """Note that a message has arrived."""
        self._received_at = self._loop.time()

    def start(self, timeout_at: float = inf) -> None:
        """Start to wait, once.

        Args:
            timeout_at: The loop time of the request's own timeout, which shortens the limit down to the gap.
        """
        if self._timer is None:
            now = self._loop.time()
            self._end = min(now + self._limit, max(now + self._gap, timeout_at))
            self._timer = self._loop.call_at(min(now + self._gap, self._end), self._check)

    def stop(self) -> None:
        """Stop to wait."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def cut_short(self) -> bool:
        """Whether messages still arrived when the wait ended."""
        return self._loop.time() < self._received_at + self._gap

    def _check(self) -> None:
        due = min(self._received_at + self._gap, self._end)
        if self._loop.time() < due:
            self._timer = self._loop.call_at(due, self._check)
        else:
            self._give_up()


class ConnectionClosed(Exception):
    """The connection has ended; its argument is the `Ending`."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.message)
        self.ending = ending


class Listener(Protocol):
    """Receives everything that concerns one request. Called on the event loop; must not block."""

    def on_iopub(self, kind: str, content: Mapping[str, Any], missing: int | None) -> None:
        """Handle an iopub message of the request; ``missing`` as in `SequenceGapDetector.count`."""
        ...

    def on_reply(self, content: Mapping[str, Any]) -> None:
        """Handle the reply on the shell channel."""
        ...

    def on_input(self, content: Mapping[str, Any], answer: Callable[[str], None]) -> None:
        """Handle an input_request (``prompt``, ``password``); the code waits for ``answer``."""
        ...

    def running_since(self, request: ExecutionRequest) -> float | None:
        """Return when the kernel began to run this request; None if it does not run it now."""
        ...

    def on_interrupt(self) -> None:
        """Handle an interrupt of the kernel that this server is about to send."""
        ...

    def on_end(self, ending: Ending) -> None:
        """Handle the end of the connection; no further calls follow."""
        ...


class Observer(Protocol):
    """Receives what happens in the kernel, whichever client caused it."""

    def on_state(self, state: KernelState) -> None:
        """Handle a change of the kernel's execution state."""
        ...

    def on_run(self, code: str, execution_count: int | None, parent: Mapping[str, Any]) -> None:
        """Handle code that begins to run; ``parent`` is the header of its request."""
        ...

    def on_display_update(self, content: Mapping[str, Any]) -> None:
        """Handle a display update by another client; the display may be in an executor's cell."""
        ...

    def on_stopping(self, restart: bool) -> None:
        """Handle the kernel's announcement that it shuts down on request."""
        ...

    def on_disconnect(self, connection: BaseKernelConnection) -> None:
        """Handle a disconnect by the other end: its process has ended, or the network is down."""
        ...


class BaseKernelConnection(ABC):
    """A connection to one incarnation of a kernel; it ends with the kernel's process.

    Args:
        session: Makes the messages. Not shared: a kernel replies to the last client of an identity.
        observer: Notified of everything that is not for one listener.
    """

    def __init__(self, session: Session, observer: Observer) -> None:
        self.session: Any = session  # its methods are annotated only in part
        self.kernel_session = ""
        """The session id of the kernel's kernel_info reply; each incarnation has its own."""
        self.ended = asyncio.Event()
        self._observer = observer
        self._listeners: dict[str, Listener] = {}
        self._ours: set[str] = set()
        self._gaps = SequenceGapDetector()
        self._widgets = OutputWidgets(self.is_ours)
        self._receiving = asyncio.Event()
        self._ending: Ending | None = None

    @property
    def ending(self) -> Ending | None:
        """Why it ended; None while it is open."""
        return self._ending

    async def handshake(self, *, on_shell: bool) -> Mapping[str, Any]:
        """Send kernel_info requests until the kernel replies and iopub is subscribed.

        PUB/SUB has slow joiners: the kernel drops what it publishes before the subscription has
        reached it. Submit code only after this.

        Args:
            on_shell: Whether the reply must come on the shell channel, which a running cell blocks;
                otherwise a reply on control is enough.

        Returns:
            The content of the kernel_info reply.

        Raises:
            ConnectionClosed.
        """
        probe = _Probe()
        channels: tuple[Channel, ...] = ("shell",) if on_shell else ("shell", "control")
        asked: list[str] = []
        try:
            while True:
                self._check_open()
                asked += [self._send(to, "kernel_info_request", {}, probe) for to in channels]
                content = await probe.answer
                try:
                    async with asyncio.timeout(HANDSHAKE_INTERVAL):
                        await self._receiving.wait()
                except TimeoutError:
                    continue
                return content
        finally:
            probe.answer.cancel()
            for msg_id in asked:
                self.forget(msg_id)

    def submit(self, content: Mapping[str, Any], listener: Listener, *, ours: bool = True) -> str:
        """Send an execute_request and return its id.

        Args:
            content: The request's content.
            listener: Receives its messages.
            ours: Whether an executor submits it, rather than a person through this connection.

        Raises:
            ConnectionClosed: nothing was sent.
        """
        self._check_open()
        msg_id = self._send("shell", "execute_request", content, listener)
        if ours:
            self._ours.add(msg_id)
        return msg_id

    def request_interrupt(self) -> None:
        """Send an interrupt_request on the control channel."""
        if self._ending is None:
            self._transmit("control", self.session.msg("interrupt_request", {}))

    def forget(self, msg_id: str) -> None:
        """Remove a request's listener."""
        self._listeners.pop(msg_id, None)
        self._ours.discard(msg_id)
        self._widgets.forget(msg_id)

    def is_ours(self, msg_id: str) -> bool:
        """Return whether an executor waits for this request."""
        return msg_id in self._ours

    def running_since(self, request: ExecutionRequest) -> float | None:
        """Return the loop time when the kernel began to run a request; None if it does not run it now."""
        since = [listener.running_since(request) for listener in self._listeners.values()]
        return next((began for began in since if began is not None), None)

    def interrupted(self) -> None:
        """Notify the listeners that the kernel is being interrupted."""
        for listener in list(self._listeners.values()):
            listener.on_interrupt()

    @property
    def has_listeners(self) -> bool:
        """Whether any request has a listener."""
        return bool(self._listeners)

    def close(self, ending: Ending) -> None:
        """End the connection: notify the listeners and drop what was not sent yet."""
        if self._ending is not None:
            return
        self._ending = ending
        self.ended.set()
        listeners, self._listeners = list(self._listeners.values()), {}
        for listener in listeners:
            listener.on_end(ending)
        self._close_transport()

    # -- transport

    @abstractmethod
    def _transmit(self, channel: Channel, message: Message) -> None:
        """Send a message."""

    @abstractmethod
    def _close_transport(self) -> None:
        """Close the transport."""

    def _receive(self, channel: str, message: Message) -> None:
        """Dispatch a received message. Both transports end here: what is malformed goes no further."""
        if self._ending is not None:
            return
        if not _is_well_formed(message):
            log.warning("Dropped a malformed message from a kernel: %.200r", message["msg_type"])
            return
        parent = message["parent_header"]
        if channel == "iopub":
            self._receive_iopub(message, parent)
            return
        if message["msg_type"] == "kernel_info_reply":
            self.kernel_session = str(message["header"].get("session", ""))
        listener = self._listeners.get(parent.get("msg_id", ""))
        if listener is None:
            return
        if channel != "stdin":
            listener.on_reply(message["content"])
        elif message["msg_type"] == "input_request":
            listener.on_input(message["content"], self._answer_input)

    def _on_disconnect(self) -> None:
        if self._ending is None:
            self._observer.on_disconnect(self)

    # -- sending and receiving

    def _check_open(self) -> None:
        if self._ending is not None:
            raise ConnectionClosed(self._ending)

    def _send(
        self, channel: Channel, kind: str, content: Mapping[str, Any], listener: Listener
    ) -> str:
        message = self.session.msg(kind, dict(content))
        msg_id = str(message["header"]["msg_id"])
        self._listeners[msg_id] = listener
        try:
            self._transmit(channel, message)
        except BaseException:
            self.forget(msg_id)
            raise
        return msg_id

    def _answer_input(self, value: str) -> None:
        if self._ending is None:
            self._transmit("stdin", self.session.msg("input_reply", {"value": value}))

    def _receive_iopub(self, message: Message, parent: Mapping[str, Any]) -> None:
        self._receiving.set()
        kind, content = message["msg_type"], message["content"]
        state: Any = content.get("execution_state", "unknown") if kind == "status" else None
        missing = self._gaps.count(message["msg_id"], begins_request=state == "busy")
        if kind == "execute_input":
            count = integer(content.get("execution_count"))
            self._observer.on_run(str(content.get("code", "")), count, parent)
        elif kind == "status":
            if parent.get("msg_type") in {"execute_request", None} or state not in {"busy", "idle"}:
                self._observer.on_state(state)
        elif kind == "shutdown_reply":
            self._observer.on_stopping(bool(content.get("restart")))
        elif kind == "update_display_data" and parent.get("msg_id") not in self._ours:
            self._observer.on_display_update(content)
        self._pass_to_listener(parent.get("msg_id", ""), message, missing)

    def _pass_to_listener(self, request: str, message: Message, missing: int | None) -> None:
        kind, content = message["msg_type"], message["content"]
        listener = self._listeners.get(request)
        if listener is None:
            return
        if request in self._ours:
            # Code that a person runs over this connection has a front end for its widgets.
            if self._widgets.captures(request, kind, content):
                kind = CAPTURED
            elif kind == "status" and content.get("execution_state") == "idle":
                updates, note = self._widgets.ended(request)
                for update in updates:
                    self._transmit("shell", self.session.msg("comm_msg", update))
                if note:
                    listener.on_iopub("stream", {"name": "stderr", "text": note}, missing)
        listener.on_iopub(kind, content, missing)


def _is_well_formed(message: Message) -> bool:
    """Return whether the fields of a message by which it is dispatched have the protocol's types."""
    header, parent, content = (message[name] for name in ("header", "parent_header", "content"))
    if not all(isinstance(each, dict) for each in (header, parent, content)):
        return False
    texts = (message["msg_id"], message["msg_type"], content.get("execution_state", ""))
    origin = (parent.get("msg_id"), parent.get("msg_type"))  # None in messages without a request
    return all(isinstance(each, str) for each in texts) and all(
        each is None or isinstance(each, str) for each in origin
    )


class _Probe:
    """Waits for the reply to a handshake."""

    def __init__(self) -> None:
        self.answer = asyncio.get_running_loop().create_future()

    def on_iopub(self, kind: str, content: Mapping[str, Any], missing: int | None) -> None:
        """Nothing: the connection itself notes that iopub is subscribed."""

    def on_reply(self, content: Mapping[str, Any]) -> None:
        """Resolve the handshake."""
        if not self.answer.done():
            self.answer.set_result(content)

    def on_input(self, content: Mapping[str, Any], answer: Callable[[str], None]) -> None:
        """Nothing: a handshake requests no input."""

    def running_since(self, request: ExecutionRequest) -> None:
        """Return None: a handshake runs no code."""

    def on_interrupt(self) -> None:
        """Nothing: a handshake is not interrupted."""

    def on_end(self, ending: Ending) -> None:
        """Fail the handshake."""
        if not self.answer.done():
            self.answer.set_exception(ConnectionClosed(ending))
