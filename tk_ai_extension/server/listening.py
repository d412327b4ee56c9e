"""A listening socket that refuses connections at the limit of open files."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from contextlib import ExitStack, suppress
from typing import Any

from tornado.ioloop import IOLoop

from tk_ai_extension.model.errors import LimitReached, is_out_of_files

GRACE_PERIOD = 0.5
"""Maximum wait for the request of a connection that is refused, in seconds."""
MAX_REQUEST = 1 << 16
"""Maximum size of what is read of it, in bytes."""


class RefusingListener(socket.socket):
    """A listening socket that answers 503 where no more files can be opened.

    Otherwise such a connection would wait, and Tornado would try to accept it again without a pause. One
    file descriptor is kept in reserve for it. While a refused client has not sent its request, or no
    file can be reserved, no connection is accepted, for `GRACE_PERIOD` at most.

    Args:
        listener: The socket, which this one replaces.
    """

    def __init__(self, listener: socket.socket) -> None:
        super().__init__(fileno=listener.detach())
        self._reserve: int | None = None
        self._pausing = ExitStack()
        self._set_reserve()

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection.

        Raises:
            BlockingIOError: There is none, or it was refused.
            OSError: It cannot be accepted.
        """
        try:
            return super().accept()
        except OSError as error:
            if not is_out_of_files(error):
                raise
        self._close_reserve()
        waiting = None
        with suppress(OSError):  # Another thread may have taken the file.
            waiting = _refuse(super().accept()[0])
        if waiting is None:
            self._set_reserve()
        if self._reserve is None:
            self._pause(waiting)
        raise BlockingIOError

    def close(self) -> None:
        """Close the socket and the reserve."""
        self._pausing.close()
        super().close()
        self._close_reserve()

    def _pause(self, waiting: socket.socket | None) -> None:
        """Accept no connection until the request of a refused client arrives, or the grace period ends."""
        loop = asyncio.get_running_loop()
        if waiting is not None:
            loop.add_reader(waiting, self._resume)
            self._pausing.callback(waiting.close)
            self._pausing.callback(_has_read, waiting)
            self._pausing.callback(loop.remove_reader, waiting)
        self._pausing.callback(loop.call_later(GRACE_PERIOD, self._resume).cancel)
        IOLoop.current().update_handler(self, 0)

    def _resume(self) -> None:
        self._pausing.close()
        self._set_reserve()
        IOLoop.current().update_handler(self, IOLoop.READ)

    def _set_reserve(self) -> None:
        with suppress(OSError):
            self._reserve = os.open(os.devnull, os.O_RDONLY)

    def _close_reserve(self) -> None:
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None


def _refuse(connection: socket.socket) -> socket.socket | None:
    """Answer a connection and close it; return it if its request has not arrived yet.

    What is closed before it was read is reset: the client may not receive the answer.
    """
    connection.setblocking(False)
    with suppress(OSError):
        connection.sendall(_refusal())
        connection.shutdown(socket.SHUT_WR)
    if not _has_read(connection):
        return connection
    connection.close()
    return None


def _has_read(connection: socket.socket) -> bool:
    """Read what has arrived of a request; return whether anything has, or the client has gone."""
    try:
        connection.recv(MAX_REQUEST)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _refusal() -> bytes:
    error = LimitReached(
        "The server has reached its limit of open files.",
        hint="Shut down unused kernels, or restart the server with a higher `ulimit -n`.",
    )
    body = json.dumps({"error": error.as_dict()}).encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("latin-1") + body
