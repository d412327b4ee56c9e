"""ZeroMQ sockets on the event loop, read in batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import zmq
from tornado.ioloop import IOLoop

log = logging.getLogger(__name__)

READ_TIME = 0.01
"""Seconds for which one socket may occupy the event loop at a time."""

RECONNECT_INTERVAL = 20
"""Milliseconds between attempts to connect; short, so that a starting kernel is connected at once."""


MAX_RECEIVED = 100_000
"""RCVHWM: messages that a socket queues before they are read.

Beyond it ZeroMQ stops reading from the network, and the kernel's PUB socket drops what exceeds its own
queue.
"""

_SEND_ONLY = frozenset((zmq.PUB, zmq.PUSH))


class SocketReader:
    """Reads a socket as fast as messages arrive, in batches that do not block the event loop for long.

    Args:
        socket: A socket that receives.
        deliver: Called with the parts of each message.

    Raises:
        ValueError: The socket's type only sends.
    """

    def __init__(self, socket: zmq.Socket[bytes], deliver: Callable[[list[bytes]], None]) -> None:
        if socket.type in _SEND_ONLY:
            raise ValueError(f"A {zmq.SocketType(socket.type).name} socket cannot receive.")
        self.socket = socket
        self._deliver = deliver
        self._loop: Any = IOLoop.current()
        self._descriptor = socket.fileno()
        self._due = False
        # ZMQ_FD is edge-triggered: drain the socket on each event.
        self._loop.add_handler(self._descriptor, self._on_readable, IOLoop.READ)
        self.schedule_read()

    def schedule_read(self) -> None:
        """Read the socket in the event loop's next iteration."""
        if not self._due:
            self._due = True
            self._loop.add_callback(self._read_scheduled)

    def read_batch(self) -> bool:
        """Read for `READ_TIME` seconds at most; return whether messages may be left."""
        until = time.perf_counter() + READ_TIME
        while not self.socket.closed:
            try:
                parts = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return False
            except zmq.ZMQError as problem:
                # Reading again would fail at once, in an endless loop.
                log.error("A socket can no longer be read and was closed: %s", problem)  # noqa: TRY400
                self.close()
                return False
            self._deliver(parts)
            if time.perf_counter() > until:
                return True
        return False

    def close(self, linger: int = 0) -> None:
        """Close the socket; drop what is not sent within ``linger`` milliseconds."""
        if not self.socket.closed:
            self._loop.remove_handler(self._descriptor)
            self.socket.close(linger=linger)

    def _on_readable(self, _descriptor: int, _events: int) -> None:
        # Read at once: waiting for the next iteration would slow short cells down.
        if not self._due:
            self._read_scheduled()

    def _read_scheduled(self) -> None:
        self._due = False
        more = True  # if a listener raises, the remaining messages must still be read
        try:
            more = self.read_batch()
        finally:
            if more and not self.socket.closed:
                self.schedule_read()


def client_context() -> zmq.Context[Any]:
    """Return a context for client sockets: a high RCVHWM, no linger, fast reconnects."""
    context = zmq.Context[Any]()
    context.setsockopt(zmq.RCVHWM, MAX_RECEIVED)
    context.setsockopt(zmq.LINGER, 0)
    context.setsockopt(zmq.RECONNECT_IVL, RECONNECT_INTERVAL)
    return context
