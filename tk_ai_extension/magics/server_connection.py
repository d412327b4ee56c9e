"""The connection from a kernel to its server: it sends a question and receives events."""

from __future__ import annotations

import json
import os
import select
import socket
from collections import deque
from collections.abc import Mapping
from typing import Any, Self

ADDRESS_VARIABLES = ("TK_AI_SOCKET", "TK_AI_LINE")
CREDENTIAL_VARIABLES = ("TK_AI_CREDENTIAL", "TK_AI_PASS")
"""Variables that the server sets in its kernels' environments; the second ones are deprecated."""

MIN_TIMEOUT = 0.001
"""Seconds. A socket timeout of 0 would make the socket non-blocking."""

NO_CONNECTION = "This kernel has no connection to a Jupyter Server with tk-ai-extension."
NO_CONNECTION_HINT = """\
Use a notebook of such a server, or `nb chat` in a terminal. If this kernel was running before the \
extension was installed, restart it."""


class TkError(Exception):
    """Claude could not be asked or could not answer. IPython shows it without a traceback.

    Attributes:
        code: The error code, the same as in every interface of the tools.
        hint: What to do next.
    """

    def __init__(self, message: str, hint: str = "", code: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code

    @classmethod
    def of(cls, error: Mapping[str, Any]) -> TkError:
        """Return the error that the server sent."""
        return cls(str(error["message"]), str(error["hint"]), str(error["code"]))

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows."""
        name = f"tk [{self.code}]" if self.code else "tk"
        return [f"{name}: {self}", *([self.hint] if self.hint else [])]


class Stopped(KeyboardInterrupt):
    """The user interrupted the cell: the turn is stopped, and later cells do not run."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows."""
        return ["tk: stopped."]


class ServerConnection:
    """Connection for one question. The server stops the turn if it is closed early.

    Args:
        environment: Environment variables that hold the server's address and the credential.

    Raises:
        TkError: The kernel has no server address, or the server does not answer.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = next(filter(None, map(environment.get, ADDRESS_VARIABLES)), None)
        if not address:
            raise TkError(NO_CONNECTION, NO_CONNECTION_HINT, code="no_connection")
        self._credential = next(filter(None, map(environment.get, CREDENTIAL_VARIABLES)), "")
        self._socket = socket.socket(socket.AF_UNIX)
        self._received = b""
        self._events: deque[dict[str, Any]] = deque()
        try:
            self._socket.connect(address)
        except OSError as error:
            self._socket.close()
            raise TkError(
                f"The server that started this kernel does not answer: {error.strerror}.",
                "Restart the kernel to connect it to the running server.",
                "no_connection",
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, **question: Any) -> None:
        """Send the question. Call it once."""
        # A server of the previous release reads `pass`.
        self.send({**question, "credential": self._credential, "pass": self._credential})

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message as a line of JSON.

        Raises:
            TkError: The connection is lost.
        """
        self._socket.settimeout(None)
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            raise _connection_lost() from None

    def receive(self, timeout: float | None = None) -> dict[str, Any] | None:
        """Return the next event, or None if none arrives within ``timeout`` seconds.

        Raises:
            TkError: The server sent an error, or the connection is lost.
        """
        while not self._events:
            self._socket.settimeout(None if timeout is None else max(timeout, MIN_TIMEOUT))
            try:
                self._read()
            except TimeoutError:
                return None
        event = self._events.popleft()
        if "kind" not in event:
            raise TkError.of(event["error"])
        return event

    def is_settled(self, permission: str, until: socket.socket | None = None) -> bool:
        """Return whether a permission request needs no answer any more. Events are kept for `receive`.

        Args:
            permission: The request's id.
            until: Wait until it is settled, or until this socket can be read; None to look only at what
                has arrived.
        """
        looked = 0
        while True:
            for event in list(self._events)[looked:]:
                looked += 1
                if _settles(event, permission):
                    return True
            # Not select.select, which refuses descriptors from 1024 on.
            poll = select.poll()
            for each in filter(None, (self._socket, until)):
                poll.register(each, select.POLLIN)
            ready = {descriptor for descriptor, _ in poll.poll(None if until else 0)}
            if not ready or (until is not None and until.fileno() in ready):
                return False
            try:
                self._read()
            except TkError:
                return True

    def _read(self) -> None:
        """Read from the socket once.

        Raises:
            TkError: The connection is lost.
            TimeoutError: Nothing arrives within the socket's timeout.
        """
        try:
            received = self._socket.recv(1 << 16)
        except TimeoutError:
            raise
        except OSError:
            received = b""
        if not received:
            raise _connection_lost()
        *lines, self._received = (self._received + received).split(b"\n")
        self._events.extend(map(json.loads, lines))


def _settles(event: Mapping[str, Any], permission: str) -> bool:
    kind = event.get("kind")
    return kind in (None, "done") or (kind == "permission_settled" and event["id"] == permission)


def _connection_lost() -> TkError:
    return TkError(
        "Connection to the server lost.",
        "The server may be stopping. Changes made so far are kept.",
        "connection_lost",
    )
