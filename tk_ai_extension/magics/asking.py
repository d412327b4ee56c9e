"""Ask the user for input that may become needless: somebody answers elsewhere, or the turn ends."""

from __future__ import annotations

import signal
import socket
import threading
import time
from itertools import count
from types import FrameType

from tk_ai_extension.magics.server_connection import ServerConnection

LATE = 1.0
"""Seconds for a signal to arrive that was sent while the input ended."""


_numbers = count(1)
_box_is_left = threading.Event()
"""Whether an input was interrupted: the front end keeps its box, also below cells that have ended.

The kernel takes what is typed in it as the answer to the next input, whatever that asks for.
"""


def number_of_next_request() -> str:
    """Return what an answer to the next request must contain; empty if no earlier box is open."""
    number = next(_numbers)
    return str(number) if _box_is_left.is_set() else ""


class _Watcher:
    """A thread that interrupts the main thread when a permission request is settled."""

    def __init__(self, connection: ServerConnection, permission: str) -> None:
        self.has_interrupted = False
        self._is_received = False
        # Without it, a cell that awaits would be cancelled, and its input would go on.
        self._previous = signal.signal(signal.SIGINT, self._on_interrupt)
        self._lock = threading.Lock()
        self._is_open = True
        self._ours, self._theirs = socket.socketpair()
        self._thread = threading.Thread(
            target=self._watch, args=(connection, permission), daemon=True
        )
        self._thread.start()

    def _watch(self, connection: ServerConnection, permission: str) -> None:
        is_settled = connection.is_settled(permission, self._theirs)
        with self._lock:
            if is_settled and self._is_open:
                self.has_interrupted = True
                # A signal ends also a read from a terminal.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        """End the input; an interrupt of the user goes where it went before."""
        if self.has_interrupted and not self._is_received:
            self._is_received = True
            raise KeyboardInterrupt
        if callable(self._previous):
            self._previous(number, frame)

    def restore_handler(self) -> None:
        """Leave interrupts to the previous handler."""
        # None stands for a handler that is not Python's.
        signal.signal(signal.SIGINT, self._previous or signal.default_int_handler)

    def close(self) -> None:
        """End the thread. It does not interrupt afterwards."""
        if self._ours.fileno() == -1:
            return
        with self._lock:
            self._is_open = False
        self._ours.send(b".")
        self._thread.join()
        self._ours.close()
        self._theirs.close()


def ask_unless_settled(prompt: str, connection: ServerConnection, permission: str) -> str | None:
    """Return what the user types; None once a permission request needs no answer any more.

    Raises:
        KeyboardInterrupt: The user interrupts.
    """
    if connection.is_settled(permission):
        return None
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread can be interrupted.
        return input(prompt)
    watcher = _Watcher(connection, permission)
    try:
        return _watched_input(prompt, watcher)
    finally:
        watcher.restore_handler()


def _watched_input(prompt: str, watcher: _Watcher) -> str | None:
    """Return what the user types; None if the watcher interrupts."""
    try:
        typed = input(prompt)
        watcher.close()
        if not watcher.has_interrupted:
            return typed
        # The signal may come only now.
        time.sleep(LATE)
    except KeyboardInterrupt:
        _box_is_left.set()
        if not watcher.has_interrupted:
            raise
    finally:
        watcher.close()
    return None
