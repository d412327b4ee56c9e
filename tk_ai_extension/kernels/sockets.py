"""ZeroMQ sockets on the event loop: read in turns, and noticed when the other end goes away."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import zmq
from tornado.ioloop import IOLoop
from zmq.utils.monitor import parse_monitor_message

log = logging.getLogger(__name__)

READ_TIME = 0.01
"""Seconds for which one socket may hold the event loop before others get their turn."""

RECONNECT_INTERVAL = 20
"""Milliseconds between attempts to connect, so that a kernel that starts is met at once."""


MAX_RECEIVED = 100_000
"""Messages that a socket holds which were not read yet.

Beyond it ZeroMQ stops reading from the network, and the kernel's own socket drops what does not fit
into its queue; the message ids tell how many were dropped (`SequenceGapDetector`).
"""

_SEND_ONLY = frozenset((zmq.PUB, zmq.PUSH))


class SocketReader:
    """Reads one socket: as fast as messages come, in turns that never hold the loop for long.

    Args:
        socket: A socket that receives.
        deliver: Called with the parts of each message.

    Raises:
        ValueError: The socket is of a type that only sends.
    """

    def __init__(self, socket: zmq.Socket[bytes], deliver: Callable[[list[bytes]], None]) -> None:
        if socket.type in _SEND_ONLY:
            raise ValueError(f"A {zmq.SocketType(socket.type).name} socket receives nothing.")
        self.socket = socket
        self._deliver = deliver
        self._loop: Any = IOLoop.current()
        self._descriptor = socket.fileno()
        self._due = False
        # The descriptor tells of arrivals once: whoever is told reads until nothing is left.
        self._loop.add_handler(self._descriptor, self._on_readable, IOLoop.READ)
        self.schedule_read()

    def schedule_read(self) -> None:
        """Has the socket read in the loop's next turn."""
        if not self._due:
            self._due = True
            self._loop.add_callback(self._read_batch_later)

    def read_batch(self) -> bool:
        """Read for `READ_TIME` seconds at most; return whether more may be there."""
        until = time.perf_counter() + READ_TIME
        while not self.socket.closed:
            try:
                parts = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return False
            except zmq.ZMQError as problem:
                # Reading again would fail again, at once and without end.
                log.error("A socket cannot be read any more: %s", problem)  # noqa: TRY400
                self.close()
                return False
            self._deliver(parts)
            if time.perf_counter() > until:
                return True
        return False

    def close(self, linger: int = 0) -> None:
        """Close the socket; what is not sent within ``linger`` milliseconds is dropped."""
        if not self.socket.closed:
            self._loop.remove_handler(self._descriptor)
            self.socket.close(linger=linger)

    def _on_readable(self, _descriptor: int, _events: int) -> None:
        # At once: each turn of the loop that a message waits for is felt in a short cell's time.
        if not self._due:
            self._read_batch_later()

    def _read_batch_later(self) -> None:
        self._due = False
        more = True  # also where a listener raises: the rest of the messages is still to be read
        try:
            more = self.read_batch()
        finally:
            if more and not self.socket.closed:
                self.schedule_read()


class DisconnectMonitor:
    """Notices when the other end of a socket goes away."""

    def __init__(self, socket: zmq.Socket[bytes], on_lost: Callable[[], None]) -> None:
        self.lost = asyncio.Event()
        self._socket = socket
        self._on_lost = on_lost
        self._reader = SocketReader(socket.get_monitor_socket(zmq.EVENT_DISCONNECTED), self._read)

    def close(self) -> None:
        """Stop watching; the socket stays."""
        self._socket.disable_monitor()
        self._reader.close()

    def _read(self, parts: list[bytes]) -> None:
        if parse_monitor_message(parts)["event"] == zmq.EVENT_DISCONNECTED:
            self.lost.set()
            self._on_lost()


def client_context() -> zmq.Context[Any]:
    """A context for connections: much is received before any is dropped, nothing holds up closing."""
    context = zmq.Context[Any]()
    context.setsockopt(zmq.RCVHWM, MAX_RECEIVED)
    context.setsockopt(zmq.LINGER, 0)
    context.setsockopt(zmq.RECONNECT_IVL, RECONNECT_INTERVAL)
    return context
