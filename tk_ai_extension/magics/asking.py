"""Ask the user for input that may become needless: somebody answers elsewhere, or the turn ends."""

from __future__ import annotations

import signal
import socket
import threading
import time

from tk_ai_extension.magics.server_connection import ServerConnection

LATE = 1.0
"""Seconds for a signal to arrive that was sent while the input ended."""


class _Watcher:
    """A thread that interrupts the main thread when a permission request is settled."""

    def __init__(self, connection: ServerConnection, permission: str) -> None:
        self.has_interrupted = False
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
        typed = input(prompt)
        watcher.close()
        if not watcher.has_interrupted:
            return typed
        # The signal may come only now.
        time.sleep(LATE)
    except KeyboardInterrupt:
        if not watcher.has_interrupted:
            raise
    finally:
        watcher.close()
    return None
