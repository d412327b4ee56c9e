"""What a kernel's process writes to stderr: passed on, and its end kept for the error message."""

from __future__ import annotations

import asyncio
import contextlib
import os

from tornado.ioloop import IOLoop

KEPT = 4000
"""Bytes of the end that are kept."""

_TAKEN = b"Address already in use"


class StderrTail:
    """A pipe to start a process with: what comes through it goes on to our own stderr.

    A pipe, not a file: a kernel writes to it for as long as it lives, and a file would grow.
    """

    def __init__(self) -> None:
        self._read_end, self.descriptor = os.pipe()
        os.set_blocking(self._read_end, False)
        self.port_taken = asyncio.Event()
        """Set where the process says that somebody else listens at its address."""
        self._tail = b""
        self._open = self._is_ours = True
        self._loop = IOLoop.current()
        self._loop.add_handler(self._read_end, self._pass_on, IOLoop.READ)

    @staticmethod
    def is_possible() -> bool:
        """Whether this system can wait for a pipe."""
        return os.name == "posix"

    @property
    def text(self) -> str:
        """The end of what was written so far, as whole lines."""
        self._pass_on()
        text = self._tail.decode("utf-8", "replace").strip()
        return text if len(self._tail) < KEPT else text.partition("\n")[2]

    def hand_over(self) -> None:
        """Closes our own copy of the end that the process writes to: the pipe ends with it."""
        if self._is_ours:
            self._is_ours = False
            os.close(self.descriptor)

    def close(self) -> None:
        """Closes both ends. A process that still writes to it gets an error."""
        self.hand_over()
        if self._open:
            self._open = False
            self._loop.remove_handler(self._read_end)
            os.close(self._read_end)

    def _pass_on(self, *_: object) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._open:
                data = os.read(self._read_end, 65536)
                if not data:
                    self.close()
                self._tail = (self._tail + data)[-KEPT:]
                if _TAKEN in self._tail:
                    self.port_taken.set()
                with contextlib.suppress(OSError):
                    os.write(2, data)
