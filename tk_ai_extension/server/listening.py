"""A listening socket that refuses connections at the limit of open files."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from typing import Any

from tk_ai_extension.model.error_info import error_info
from tk_ai_extension.model.errors import TooManyOpenFiles, is_out_of_files

GRACE_PERIOD = 0.5
"""Maximum wait for the request of a connection that is refused, in seconds."""
MAX_REQUEST = 1 << 16
"""Maximum size of its head, in bytes."""


class RefusingListener(socket.socket):
    """A listening socket that answers 503 where no more files can be opened.

    Otherwise such a connection would wait, and Tornado would try to accept it again without a pause. One
    file descriptor is kept in reserve for it.

    Args:
        listener: The socket, which this one replaces.
    """

    def __init__(self, listener: socket.socket) -> None:
        super().__init__(fileno=listener.detach())
        self._reserve: int | None = _reserve()

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection.

        Raises:
            BlockingIOError: There is none, or it was refused.
            OSError: It cannot be accepted.
        """
        try:
            return super().accept()
        except OSError as error:
            if self._reserve is None or not is_out_of_files(error):
                raise
        os.close(self._reserve)
        self._reserve = None
        try:
            connection, _ = super().accept()
            with connection, suppress(OSError):
                connection.settimeout(GRACE_PERIOD)
                # What is closed before it was read is reset: the client would not see the answer.
                connection.recv(MAX_REQUEST)
                connection.sendall(_refusal())
        finally:
            with suppress(OSError):
                self._reserve = _reserve()
        raise BlockingIOError

    def close(self) -> None:
        """Close the socket and the reserve."""
        super().close()
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None


def _reserve() -> int:
    return os.open(os.devnull, os.O_RDONLY)


def _refusal() -> bytes:
    error = TooManyOpenFiles("The server has reached its limit of open files.")
    body = json.dumps({"error": error_info(error)}).encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("latin-1") + body
