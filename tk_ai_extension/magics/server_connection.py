"""A kernel's end of the line to its server: a question, and what comes of it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from typing import Any, Self

LINE = "TK_AI_LINE"
PASS = "TK_AI_PASS"  # noqa: S105 - the name of a variable
"""What the server puts into its kernels' environments."""

SHORTEST = 0.001
"""Seconds of the shortest wait."""

NO_LINE = "This kernel has no line to a Jupyter Server with tk-ai-extension."
NO_LINE_HINT = """\
Ask from a notebook of such a server; in a terminal `nb chat` does the same. A kernel that was running \
before the extension was installed has a line after a restart."""


class TkError(Exception):
    """Claude could not be asked, or could not answer; shown as it is, without a traceback.

    Attributes:
        code: As every face of the tools has it.
        hint: What to do next.
    """

    def __init__(self, message: str, hint: str = "", code: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code

    @classmethod
    def of(cls, error: Mapping[str, Any]) -> TkError:
        """The error that the server answered with."""
        return cls(str(error["message"]), str(error["hint"]), str(error["code"]))

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of it."""
        name = f"tk [{self.code}]" if self.code else "tk"
        return [f"{name}: {self}", *([self.hint] if self.hint else [])]


class Stopped(KeyboardInterrupt):
    """A person interrupted the cell: the turn is stopped, and cells after it do not run."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of it."""
        return ["tk: stopped."]


class Line:
    """One question, for as long as it is answered; leaving it early stops the turn.

    Raises:
        TkError: there is no line, or nobody at its other end.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get(LINE)
        if not address:
            raise TkError(NO_LINE, NO_LINE_HINT, code="no_line")
        self._pass = environment.get(PASS, "")
        self._socket = socket.socket(socket.AF_UNIX)
        self._received = b""
        try:
            self._socket.connect(address)
        except OSError as error:
            self._socket.close()
            raise TkError(
                f"The server that started this kernel does not answer: {error.strerror}.",
                "Restart the kernel: a server that runs gives it a new line.",
                "no_line",
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, **question: Any) -> None:
        """Asks; said once."""
        self.say({**question, "pass": self._pass})

    def say(self, message: Mapping[str, Any]) -> None:
        """Sends a line.

        Raises:
            TkError: nobody listens any more.
        """
        self._socket.settimeout(None)
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            raise _cut() from None

    def hear(self, seconds: float | None = None) -> dict[str, Any] | None:
        """The next event; None where there was none for so many seconds.

        Raises:
            TkError: an error is the answer, or the line was cut.
        """
        while b"\n" not in self._received:
            # Zero would mean something else.
            self._socket.settimeout(None if seconds is None else max(seconds, SHORTEST))
            try:
                received = self._socket.recv(1 << 16)
            except TimeoutError:
                return None
            except OSError:
                received = b""
            if not received:
                raise _cut()
            self._received += received
        first, _, self._received = self._received.partition(b"\n")
        event: dict[str, Any] = json.loads(first)
        if "kind" not in event:
            raise TkError.of(event["error"])
        return event


def _cut() -> TkError:
    return TkError(
        "The server has cut the line.", "It may be stopping; what was done stays.", "line_cut"
    )
