"""Our own line to a kernel: sockets, who listens to which message, and how the line ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import zmq
from jupyter_client.client import KernelClient
from jupyter_client.session import Session

from tk_ai_extension.kernels.base import KernelState, Message
from tk_ai_extension.kernels.sockets import Link, SocketReader
from tk_ai_extension.kernels.tally import Tally

log = logging.getLogger(__name__)

HANDSHAKE_INTERVAL = 0.2
"""Seconds after which an answered handshake is repeated whose echo on iopub was not heard."""


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

    def on_iopub(self, kind: str, content: Mapping[str, Any], unheard: int | None) -> None:
        """A message on iopub whose parent is the request; ``unheard`` as in `Tally.hear`."""
        ...

    def on_reply(self, content: Mapping[str, Any]) -> None:
        """The reply on the shell channel."""
        ...

    def on_input(self, prompt: str, answer: Callable[[str], None]) -> None:
        """The code asks for input, and waits until ``answer`` is called."""
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

    def on_stopping(self, restart: bool) -> None:
        """The kernel says that it stops on request."""
        ...

    def on_link_lost(self) -> None:
        """The other end has closed its sockets: the process is gone, or the network is."""
        ...


class KernelConnection:
    """One connection to one incarnation of a kernel: it ends with the kernel's process.

    It has a `Session` of its own: a client that shared the manager's would have the same ZeroMQ
    identity as others, and the kernel would answer only the last of them. The high-water mark of
    what is received is off (a flood loses nothing), set on the context, so before connecting.

    Args:
        info: As `KernelManager.get_connection_info` gives it.
        context: A context whose sockets have ``RCVHWM`` and ``LINGER`` 0 (`sockets.client_context`).
        observer: Told of everything that is not for one listener.
    """

    def __init__(
        self, info: Mapping[str, Any], context: zmq.Context[Any], observer: Observer
    ) -> None:
        # Typed as Any: the stubs of jupyter_client know the types of its sockets in part only.
        self.session: Any = Session(
            key=_bytes(info["key"]), signature_scheme=info["signature_scheme"]
        )
        client: Any = KernelClient(context=context, session=self.session)
        client.load_connection_info(dict(info))
        self._observer = observer
        self._listeners: dict[str, Listener] = {}
        self._tally = Tally()
        self._heard = asyncio.Event()
        self.ended = asyncio.Event()
        self._ending: Ending | None = None
        identity = self.session.bsession
        iopub = client.connect_iopub()
        self._link = Link(iopub, self._link_lost)
        self._iopub = SocketReader(iopub, self._read_iopub)
        self._shell = SocketReader(client.connect_shell(identity), self._read_reply)
        self._control = SocketReader(client.connect_control(identity), self._read_reply)
        # The kernel sends a question to the identity that asked it to run the code.
        self._stdin = SocketReader(client.connect_stdin(identity), self._read_stdin)

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
        channels = [self._shell] if on_shell else [self._shell, self._control]
        asked: list[str] = []
        try:
            while True:
                self._check_open()
                asked += [self._send(to, "kernel_info_request", {}, probe) for to in channels]
                content = await probe.answer
                try:
                    async with asyncio.timeout(HANDSHAKE_INTERVAL):
                        await self._heard.wait()
                except TimeoutError:
                    continue
                return content
        finally:
            probe.answer.cancel()
            for msg_id in asked:
                self.forget(msg_id)

    def submit(self, content: Mapping[str, Any], listener: Listener) -> str:
        """Sends an execute_request; returns its id."""
        self._check_open()
        return self._send(self._shell, "execute_request", content, listener)

    def _answer_input(self, value: str) -> None:
        if self._ending is None:
            self.session.send(self._stdin.socket, "input_reply", {"value": value})
            self._stdin.look()

    def request_interrupt(self) -> None:
        """Asks the kernel by message to interrupt itself."""
        if self._ending is None:
            self.session.send(self._control.socket, "interrupt_request", {})
            self._control.look()

    def forget(self, msg_id: str) -> None:
        """Takes a listener away."""
        self._listeners.pop(msg_id, None)

    def is_ours(self, msg_id: str) -> bool:
        """Whether one of our listeners waits for this request."""
        return msg_id in self._listeners

    def interrupted(self) -> None:
        """Tells the listeners that the kernel is being interrupted."""
        for listener in list(self._listeners.values()):
            listener.on_interrupt()

    async def drained(self, timeout: float) -> None:
        """Waits until all is read that a kernel said before its end, for ``timeout`` s at most."""
        if not self._heard.is_set():
            return
        try:
            async with asyncio.timeout(timeout):
                await self._link.lost.wait()
        except TimeoutError:
            log.debug("The sockets of an ended kernel stay open")
        while self._ending is None and self._iopub.read_turn():  # noqa: ASYNC110 - in turns
            await asyncio.sleep(0)

    def close(self, ending: Ending) -> None:
        """Ends it: listeners are told, sockets closed, what was not yet sent is dropped."""
        if self._ending is not None:
            return
        self._ending = ending
        self.ended.set()
        listeners, self._listeners = list(self._listeners.values()), {}
        for listener in listeners:
            listener.on_end(ending)
        self._link.close()
        for reader in (self._iopub, self._shell, self._control, self._stdin):
            reader.close()

    # -- sending and reading

    def _check_open(self) -> None:
        if self._ending is not None:
            raise ConnectionClosed(self._ending)

    def _send(
        self, reader: SocketReader, kind: str, content: Mapping[str, Any], listener: Listener
    ) -> str:
        message = self.session.msg(kind, dict(content))
        msg_id = str(message["header"]["msg_id"])
        self._listeners[msg_id] = listener
        self.session.send(reader.socket, message)
        # Sending may take the mark away that something has arrived meanwhile.
        reader.look()
        return msg_id

    def _unpack(self, parts: list[bytes]) -> Message | None:
        try:
            _, rest = self.session.feed_identities(parts)
            message = self.session.deserialize(rest)
        except (ValueError, TypeError, KeyError) as error:
            log.warning("A message of a kernel is not understood: %s", error)
            return None
        if isinstance(message["content"], dict) and isinstance(message["parent_header"], dict):
            return message
        log.warning("A message of a kernel is not understood: %s", message["msg_type"])
        return None

    def _read_iopub(self, parts: list[bytes]) -> None:
        message = self._unpack(parts)
        if message is None:
            return
        self._heard.set()
        kind, content, parent = message["msg_type"], message["content"], message["parent_header"]
        state: Any = content.get("execution_state", "unknown") if kind == "status" else None
        unheard = self._tally.hear(message["msg_id"], begins_request=state == "busy")
        if kind == "execute_input":
            self._observer.on_run(
                str(content.get("code", "")), content.get("execution_count"), parent
            )
        elif kind == "status":
            if parent.get("msg_type") in {"execute_request", None} or state not in {"busy", "idle"}:
                self._observer.on_state(state)
        elif kind == "shutdown_reply":
            self._observer.on_stopping(bool(content.get("restart")))
        listener = self._listeners.get(parent.get("msg_id", ""))
        if listener is not None:
            listener.on_iopub(kind, content, unheard)

    def _read_reply(self, parts: list[bytes]) -> None:
        message = self._unpack(parts)
        if message is None:
            return
        listener = self._listeners.get(message["parent_header"].get("msg_id", ""))
        if listener is not None:
            listener.on_reply(message["content"])

    def _read_stdin(self, parts: list[bytes]) -> None:
        message = self._unpack(parts)
        if message is None or message["msg_type"] != "input_request":
            return
        listener = self._listeners.get(message["parent_header"].get("msg_id", ""))
        if listener is not None:
            listener.on_input(str(message["content"].get("prompt", "")), self._answer_input)

    def _link_lost(self) -> None:
        if self._ending is None:
            self._observer.on_link_lost()


class _Probe:
    """Listens for the reply to a handshake."""

    def __init__(self) -> None:
        self.answer = asyncio.get_running_loop().create_future()

    def on_iopub(self, kind: str, content: Mapping[str, Any], unheard: int | None) -> None:
        """Its echo is noticed by the connection."""

    def on_reply(self, content: Mapping[str, Any]) -> None:
        """The kernel answers."""
        if not self.answer.done():
            self.answer.set_result(content)

    def on_input(self, prompt: str, answer: Callable[[str], None]) -> None:
        """A handshake asks nothing."""

    def on_interrupt(self) -> None:
        """A handshake is not interrupted."""

    def on_end(self, ending: Ending) -> None:
        """The kernel will not answer any more."""
        if not self.answer.done():
            self.answer.set_exception(ConnectionClosed(ending))


def _bytes(key: str | bytes) -> bytes:
    return key if isinstance(key, bytes) else key.encode()
