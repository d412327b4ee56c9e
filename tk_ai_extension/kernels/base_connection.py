"""Messages to and from a kernel, whatever transports them, and how that ends."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tk_ai_extension.kernels.base import KernelState, Message
from tk_ai_extension.kernels.output_widgets import OutputWidgets


class SequenceGapDetector:
    """Counts what a kernel says that it has sent against what was heard.

    A kernel's own side of iopub drops messages when more than 1,000 wait to be sent, and nothing
    says so. But jupyter_client's sessions, ipykernel's among them, number all messages that they
    make, in their ids: ``<session>_<process>_<number>``. What is missing in between are replies on
    other channels, one to each request, or messages that were dropped.
    """

    def __init__(self) -> None:
        self._maker = ""
        self._received = 0
        self._requests = 0

    def count(self, msg_id: str, *, begins_request: bool) -> int | None:
        """Counts a message heard on iopub.

        Args:
            msg_id: Its id.
            begins_request: Whether it says that the kernel begins with a request.

        Returns:
            How many messages the kernel had made by then that were neither heard nor are replies,
            counted from no certain beginning: differences say something. None where ids have no
            numbers.
        """
        maker, _, digits = msg_id.rpartition("_")
        if not maker or not digits.isdigit():
            return None
        if begins_request:
            self._requests += 1
            self._maker = self._maker or maker
        if maker != self._maker:  # a subprocess of the kernel's has numbers of its own
            return None
        self._received += 1
        return int(digits) - self._received - self._requests


HANDSHAKE_INTERVAL = 0.2
"""Seconds after which an answered handshake is repeated whose echo on iopub was not heard."""

CAPTURED = "captured"
"""In place of the type of a message whose output a widget has captured."""

Channel = Literal["shell", "control", "stdin", "iopub"]
"""A channel of the Jupyter protocol."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a kernel no longer answers.

    Attributes:
        kind: ``lost`` where nothing is known of the kernel itself; ``closed`` by ourselves.
        message: A sentence for people.
    """

    kind: Literal["died", "restarted", "shutdown", "lost", "closed"]
    message: str


class ConnectionClosed(Exception):
    """The connection has ended; its argument is the `Ending`."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.message)
        self.ending = ending


class Listener(Protocol):
    """Hears everything that concerns one request. Called on the event loop; must not block."""

    def on_iopub(self, kind: str, content: Mapping[str, Any], missing: int | None) -> None:
        """A message on iopub whose parent is the request; ``missing`` as in `SequenceGapDetector.count`."""
        ...

    def on_reply(self, content: Mapping[str, Any]) -> None:
        """The reply on the shell channel."""
        ...

    def on_input(self, content: Mapping[str, Any], answer: Callable[[str], None]) -> None:
        """The code asks for input (``prompt``, ``password``), and waits until ``answer`` is called."""
        ...

    def on_interrupt(self) -> None:
        """Somebody interrupts the kernel through us."""
        ...

    def on_end(self, ending: Ending) -> None:
        """The connection has ended; nothing more comes."""
        ...


class Observer(Protocol):
    """Hears what happens in the kernel by anybody's hand."""

    def on_state(self, state: KernelState) -> None:
        """The kernel became busy or idle, or says that it starts, restarts or is dead."""
        ...

    def on_run(self, code: str, execution_count: int | None, parent: Mapping[str, Any]) -> None:
        """Code begins to run; ``parent`` is the header of its request."""
        ...

    def on_display_update(self, content: Mapping[str, Any]) -> None:
        """Code that is no executor's has updated a display, which may be in an executor's cell."""
        ...

    def on_stopping(self, restart: bool) -> None:
        """The kernel says that it stops on request."""
        ...

    def on_disconnect(self, conversation: BaseKernelConnection) -> None:
        """The other end has closed its sockets: the process is gone, or the network is."""
        ...


class BaseKernelConnection(ABC):
    """What is said to and heard from one incarnation of a kernel: it ends with the kernel's process.

    Args:
        session: Makes the messages; one of its own, since a kernel answers the last of those who
            share an identity.
        observer: Told of everything that is not for one listener.
    """

    def __init__(self, session: Any, observer: Observer) -> None:
        self.session = session
        self.kernel_session = ""
        """The session in which the kernel says what it is: that of another incarnation is another."""
        self.ended = asyncio.Event()
        self._observer = observer
        self._listeners: dict[str, Listener] = {}
        self._ours: set[str] = set()
        self._gaps = SequenceGapDetector()
        self._widgets = OutputWidgets()
        self._receiving = asyncio.Event()
        self._ending: Ending | None = None

    @property
    def ending(self) -> Ending | None:
        """How it ended; None while it is open."""
        return self._ending

    async def handshake(self, *, on_shell: bool) -> Mapping[str, Any]:
        """Asks for kernel_info until the kernel has answered and is heard on iopub.

        Nothing is submitted before: what a kernel says on iopub before a subscription has reached
        it is lost.

        Args:
            on_shell: Whether the answer must come on the shell channel, which a running cell holds up;
                otherwise the one on control will do.

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
        """Sends an execute_request; returns its id.

        Args:
            content: Of the request.
            listener: Hears what comes of it.
            ours: Whether it is an executor's, and not what a person runs over our connection.

        Raises:
            ConnectionClosed: and nothing was sent.
        """
        self._check_open()
        msg_id = self._send("shell", "execute_request", content, listener)
        if ours:
            self._ours.add(msg_id)
        return msg_id

    def request_interrupt(self) -> None:
        """Asks the kernel by message to interrupt itself."""
        if self._ending is None:
            self._transmit("control", self.session.msg("interrupt_request", {}))

    def forget(self, msg_id: str) -> None:
        """Takes a listener away."""
        self._listeners.pop(msg_id, None)
        self._ours.discard(msg_id)

    def is_ours(self, msg_id: str) -> bool:
        """Whether an executor waits for this request."""
        return msg_id in self._ours

    def interrupted(self) -> None:
        """Tells the listeners that the kernel is being interrupted."""
        for listener in list(self._listeners.values()):
            listener.on_interrupt()

    @property
    def has_listeners(self) -> bool:
        """Whether somebody waits for something."""
        return bool(self._listeners)

    def close(self, ending: Ending) -> None:
        """Ends it: listeners are told, what was not yet sent is dropped."""
        if self._ending is not None:
            return
        self._ending = ending
        self.ended.set()
        listeners, self._listeners = list(self._listeners.values()), {}
        for listener in listeners:
            listener.on_end(ending)
        self._close_transport()

    # -- what carries it

    @abstractmethod
    def _transmit(self, channel: Channel, message: Message) -> None:
        """Sends a message."""

    @abstractmethod
    def _close_transport(self) -> None:
        """Closes what carries it."""

    def _receive(self, channel: str, message: Message) -> None:
        """A message has come; what is no message of the protocol is not to get here."""
        if self._ending is not None:
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

    # -- sending and hearing

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
            self._observer.on_run(
                str(content.get("code", "")), content.get("execution_count"), parent
            )
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
            # What a person runs over our connection has a front end that knows its widgets.
            if self._widgets.captures(request, kind, content):
                kind = CAPTURED
            elif kind == "status" and content.get("execution_state") == "idle":
                for update in self._widgets.ended(request):
                    self._transmit("shell", self.session.msg("comm_msg", update))
        listener.on_iopub(kind, content, missing)


class _Probe:
    """Listens for the reply to a handshake."""

    def __init__(self) -> None:
        self.answer = asyncio.get_running_loop().create_future()

    def on_iopub(self, kind: str, content: Mapping[str, Any], missing: int | None) -> None:
        """Its echo is noticed by the connection."""

    def on_reply(self, content: Mapping[str, Any]) -> None:
        """The kernel answers."""
        if not self.answer.done():
            self.answer.set_result(content)

    def on_input(self, content: Mapping[str, Any], answer: Callable[[str], None]) -> None:
        """A handshake asks nothing."""

    def on_interrupt(self) -> None:
        """A handshake is not interrupted."""

    def on_end(self, ending: Ending) -> None:
        """The kernel will not answer any more."""
        if not self.answer.done():
            self.answer.set_exception(ConnectionClosed(ending))
