"""The messages of a server to a command, and Ctrl-C meanwhile."""

from __future__ import annotations

import json
import select
import signal
import socket
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType
    from typing import Any, Self


class StoppedWaiting(KeyboardInterrupt):
    """Ctrl-C twice, while the first could not be handled: the command waits for its own output."""


class Messages:
    """Reads the server's messages. Ctrl-C is raised only between two of them.

    Anywhere else it could be raised after bytes were read and before they were stored: these would be
    lost, and with them the end of the command.

    Args:
        connection: The connection to the server.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._unread = bytearray()
        self._searched = 0
        self._is_interrupted = False
        self._woken, self._wakes = socket.socketpair()
        self._woken.setblocking(False)
        self._wakes.setblocking(False)
        self._wakeup_fd = -1
        self._is_handled = False

    def __enter__(self) -> Self:
        # Not if Ctrl-C is ignored, nor outside the main thread, which alone gets signals.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            with suppress(ValueError):
                signal.signal(signal.SIGINT, self._on_interrupt)
                self._is_handled = True
                number = self._wakes.fileno()
                self._wakeup_fd = signal.set_wakeup_fd(number, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_handled:
            signal.set_wakeup_fd(self._wakeup_fd)
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._woken.close()
        self._wakes.close()

    def receive(self) -> dict[str, Any] | None:
        """Wait for the next message; None at the end, or after an invalid message.

        Raises:
            KeyboardInterrupt: on Ctrl-C; no message is lost.
        """
        while True:
            if self._is_interrupted:
                self._is_interrupted = False
                raise KeyboardInterrupt
            end = self._unread.find(b"\n", self._searched)
            if end >= 0:
                break
            self._searched = len(self._unread)
            ready, _, _ = select.select([self._connection, self._woken], [], [])
            self._drain()
            if self._connection not in ready:
                continue
            try:
                received = self._connection.recv(1 << 16)
            except ConnectionError:
                return None
            if not received:
                return None
            self._unread += received
        line = self._unread[:end]
        del self._unread[: end + 1]
        self._searched = 0
        try:
            message = json.loads(line)
        except ValueError:
            return None
        return message if isinstance(message, dict) else None

    @contextmanager
    def interruptible(self) -> Generator[None]:
        """Raise `KeyboardInterrupt` anywhere inside the block, as usual."""
        if not self._is_handled:
            yield
            return
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, self._on_interrupt)
            self._drain()

    def _on_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_interrupted:
            raise StoppedWaiting
        self._is_interrupted = True

    def _drain(self) -> None:
        """Read the bytes that woke the wait."""
        with suppress(BlockingIOError):
            while self._woken.recv(1 << 10):
                pass
