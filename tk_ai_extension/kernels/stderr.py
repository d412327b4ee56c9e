"""What a kernel's process writes to stderr: passed on, and its end kept for the error message."""

from __future__ import annotations

import contextlib
import os

from tornado.ioloop import IOLoop

KEPT = 4000
"""Bytes of the end that are kept."""


class StderrTail:
    """A pipe to start a kernel with: what comes through it goes on to our own stderr.

    A pipe, not a file: a kernel writes to it for as long as it lives, and a file would grow. Jupyter
    starts a restarted kernel with the same descriptor, so it stays open until `close`.
    """

    def __init__(self) -> None:
        self._read_end, self.descriptor = os.pipe()
        os.set_blocking(self._read_end, False)
        self._tail = b""
        self._loop = IOLoop.current()
        self._loop.add_handler(self._read_end, self._pass_on, IOLoop.READ)

    @staticmethod
    def is_possible() -> bool:
        """Whether this system can wait for a pipe."""
        return os.name == "posix"

    @property
    def text(self) -> str:
        """The end of what was written so far, as whole lines."""
        with contextlib.suppress(BlockingIOError):
            while self._read():
                pass
        text = self._tail.decode("utf-8", "replace").strip()
        return text if len(self._tail) < KEPT else text.partition("\n")[2]

    def close(self) -> None:
        """Closes both ends. Whatever still writes to it gets an error: the kernel must be gone."""
        self._loop.remove_handler(self._read_end)
        os.close(self._read_end)
        os.close(self.descriptor)

    def _pass_on(self, *_: object) -> None:
        with contextlib.suppress(BlockingIOError):
            self._read()

    def _read(self) -> bool:
        data = os.read(self._read_end, 65536)
        self._tail = (self._tail + data)[-KEPT:]
        with contextlib.suppress(OSError):
            os.write(2, data)
        return bool(data)
