"""What a kernel's process writes to stderr: passed on, and its end kept for the error message."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import select
from collections.abc import Collection
from typing import Any

from tornado.ioloop import IOLoop

KEPT = 4000
"""Bytes of the end that are kept."""

BACKLOG = 1_000_000
"""Bytes that wait until our own stderr takes them; then the oldest go."""

RETRY_INTERVAL = 0.1
"""Seconds between attempts to write what our own stderr did not take."""

_PIPE_BUF = 512  # POSIX: so many bytes are written without blocking where a pipe is writable at all

_TAKEN = re.compile(rb"Address already in use(?: \(addr='[^']*?(\d+)'\))?")
"""What ZeroMQ says where somebody else listens at an address, with the port."""


class StderrTail:
    """A pipe to start a process with: what comes through it goes on to our own stderr.

    A pipe, not a file: a kernel writes to it for as long as it lives, and a file would grow.
    """

    def __init__(self) -> None:
        self._read_end, self.descriptor = os.pipe()
        os.set_blocking(self._read_end, False)
        self.port_taken = asyncio.Event()
        """Set where the process says that somebody else listens at one of its own ports."""
        self._ports: frozenset[bytes] = frozenset()
        self._tail = b""
        self._backlog = bytearray()
        self._retry: object | None = None
        self._open = self._is_ours = True
        self._loop: Any = IOLoop.current()
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

    def expect(self, ports: Collection[int]) -> None:
        """Says at which ports the kernel is to listen: code in it may find others taken."""
        self._ports = frozenset(str(port).encode() for port in ports)
        self._look_for_taken()

    @property
    def perhaps_taken(self) -> bool:
        """Whether it says that an address was taken which may be one of its own."""
        return any(port in {b"", *self._ports} for port in _TAKEN.findall(self._tail))

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
            if self._retry is not None:
                self._loop.remove_timeout(self._retry)
            self._loop.remove_handler(self._read_end)
            os.close(self._read_end)

    def _pass_on(self, *_: object) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._open:
                data = os.read(self._read_end, 65536)
                if not data:
                    self.close()
                self._tail = (self._tail + data)[-KEPT:]
                self._look_for_taken()
                self._backlog += data
                del self._backlog[:-BACKLOG]
                self._write_on()

    def _look_for_taken(self) -> None:
        if self._ports.intersection(_TAKEN.findall(self._tail)):
            self.port_taken.set()

    def _write_on(self) -> None:
        """Passes on what our own stderr takes now: whoever reads it must not hold the loop."""
        try:
            while self._backlog and select.select([], [2], [], 0)[1]:
                del self._backlog[: os.write(2, self._backlog[:_PIPE_BUF])]
        except OSError:
            self._backlog.clear()  # there is none
        if self._backlog and self._retry is None and self._open:
            self._retry = self._loop.call_later(RETRY_INTERVAL, self._write_again)

    def _write_again(self) -> None:
        self._retry = None
        self._write_on()
