"""WebSockets (RFC 6455) that carry a stream of bytes, in both directions, through proxies.

Proxies such as JupyterHub's forward no other upgrade than to a WebSocket. Each binary message is a
piece of the stream; an empty one says that its sender sends no more and still receives. The standard
library has no WebSockets, and a command has no time to import a package with them.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
from collections.abc import Iterator
from threading import Thread

CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
"""The opcodes of frames."""
PIECE = 1 << 16
"""Maximum bytes of the stream in one frame, and of one read."""
MAX_WAITING = 1 << 20
"""Bytes that wait to be sent, beyond which nothing further is accepted."""
MAX_FRAME = 1 << 24
"""Maximum bytes of one frame; no sender of ours comes near it."""
FINAL, MASKED = 0x80, 0x80


class FrameTooLong(OSError):
    """A frame is longer than `MAX_FRAME`; the connection cannot be read further."""


def frame(opcode: int, payload: bytes, *, masked: bool) -> bytes:
    """Return a frame.

    >>> frame(BINARY, b"Hello", masked=False).hex()
    '820548656c6c6f'

    Args:
        opcode: What it is.
        payload: Its content.
        masked: Whether a client sends it, whose frames have to be masked.
    """
    size, bit = len(payload), MASKED if masked else 0
    if size < 126:
        head = struct.pack(">BB", FINAL | opcode, bit | size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", FINAL | opcode, bit | 126, size)
    else:
        head = struct.pack(">BBQ", FINAL | opcode, bit | 127, size)
    if not masked:
        return head + payload
    key = os.urandom(4)
    return head + key + _mask(payload, key)


def pieces(data: bytes, *, masked: bool) -> bytes:
    """Return the frames that carry a part of a stream; none for an empty part."""
    return b"".join(
        frame(BINARY, data[start : start + PIECE], masked=masked)
        for start in range(0, len(data), PIECE)
    )


def _mask(payload: bytes, key: bytes) -> bytes:
    size = len(payload)
    keys = (key * (size // 4 + 1))[:size]
    masked = int.from_bytes(payload, "little") ^ int.from_bytes(keys, "little")
    return masked.to_bytes(size, "little")


class Frames:
    """Frames in a stream of bytes.

    >>> frames = Frames()
    >>> list(frames.read(frame(BINARY, b"Hello", masked=True)[:-1]))
    []
    """

    def __init__(self) -> None:
        self._data = bytearray()

    def read(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield opcode and content of the frames that are complete with further bytes.

        Raises:
            FrameTooLong.
        """
        self._data += data
        while True:
            found = self._next()
            if found is None:
                return
            yield found

    def _next(self) -> tuple[int, bytes] | None:
        data = self._data
        if len(data) < 2:
            return None
        size, place = data[1] & 0x7F, 2
        if size >= 126:
            form = ">H" if size == 126 else ">Q"
            place += struct.calcsize(form)
            if len(data) < place:
                return None
            (size,) = struct.unpack_from(form, data, 2)
        key = b""
        if data[1] & MASKED:
            if len(data) < place + 4:
                return None
            key = bytes(data[place : place + 4])
            place += 4
        if size > MAX_FRAME:
            raise FrameTooLong(f"A frame of {size:,} bytes.")
        if len(data) < place + size:
            return None
        opcode, payload = data[0] & 0x0F, bytes(data[place : place + size])
        del data[: place + size]
        return opcode, _mask(payload, key) if key else payload


def stream_of(connection: socket.socket, received: bytes) -> socket.socket:
    """Return a socket that carries the stream of a client's WebSocket.

    A thread relays it until both sides have ended.

    Args:
        connection: Where the WebSocket was opened.
        received: What was received after the response's head.
    """
    inner, outer = socket.socketpair()
    relay = _Relay(connection, inner, received)
    Thread(target=relay.run, name="nb WebSocket", daemon=True).start()
    return outer


class _Relay:
    """Relays between a WebSocket and the socket of its stream.

    Neither side waits for the other: a command may send a long line while its output arrives.
    """

    def __init__(self, outside: socket.socket, inside: socket.socket, received: bytes) -> None:
        self._outside = outside
        self._inside = inside
        self._frames = Frames()
        self._to_server, self._to_command = bytearray(), bytearray()
        # Whether the command sends no more, and whether the server does not.
        self._sent = self._ended = False
        self._take(received)

    def run(self) -> None:
        """Relay until the server has ended and the command has what it sent."""
        for each in (self._outside, self._inside):
            each.setblocking(False)
        with selectors.DefaultSelector() as selector:
            try:
                while not (self._ended and not self._to_command):
                    self._relay(selector)
            except OSError:
                pass  # one side is gone: the other receives the end
            finally:
                self._inside.close()
                self._outside.close()

    def _relay(self, selector: selectors.BaseSelector) -> None:
        """Wait for one event, and relay what there is."""
        sends, receives = not self._sent and len(self._to_server) <= MAX_WAITING, not self._ended
        _watch(selector, self._outside, reads=receives, writes=bool(self._to_server))
        _watch(selector, self._inside, reads=sends, writes=bool(self._to_command))
        for key, events in selector.select():
            is_outside = key.fileobj is self._outside
            if events & selectors.EVENT_READ:
                self._receive() if is_outside else self._read_command()
            if events & selectors.EVENT_WRITE and is_outside:
                _flush(self._outside, self._to_server)
            elif events & selectors.EVENT_WRITE:
                _flush(self._inside, self._to_command)

    def _receive(self) -> None:
        """Take what the server sent, also what TLS has received and the selector does not see."""
        while (data := _without_waiting(self._outside)) is not None:
            self._take(data)
            if not data:
                self._ended = True
            if not getattr(self._outside, "pending", int)():
                return

    def _take(self, data: bytes) -> None:
        for opcode, payload in self._frames.read(data):
            if opcode == PING:
                self._to_server += frame(PONG, payload, masked=True)
            elif opcode in (CONTINUED, TEXT, BINARY) and payload:
                self._to_command += payload
            elif opcode != PONG:
                self._ended = True

    def _read_command(self) -> None:
        data = _without_waiting(self._inside)
        if data is None:
            return
        self._sent = not data
        self._to_server += pieces(data, masked=True) or frame(BINARY, b"", masked=True)


def _watch(
    selector: selectors.BaseSelector, side: socket.socket, *, reads: bool, writes: bool
) -> None:
    """Select the events of one side, or none of them."""
    events = reads * selectors.EVENT_READ | writes * selectors.EVENT_WRITE
    known = side in selector.get_map()
    if events and known:
        selector.modify(side, events)
    elif events:
        selector.register(side, events)
    elif known:
        selector.unregister(side)


def _flush(side: socket.socket, waiting: bytearray) -> None:
    """Send what a side takes now."""
    try:
        del waiting[: side.send(bytes(waiting[:PIECE]))]
    except OSError as error:
        if not _would_wait(error):
            raise


def _without_waiting(side: socket.socket) -> bytes | None:
    """Receive what is there; None for nothing yet, empty at the end."""
    try:
        return side.recv(PIECE)
    except ConnectionError:
        return b""
    except OSError as error:
        if _would_wait(error):
            return None
        raise


def _would_wait(error: OSError) -> bool:
    """Whether a socket that does not block has nothing to do, also one with TLS."""
    # `ssl` is slow to import, and its errors occur only where it was.
    return isinstance(error, BlockingIOError) or type(error).__name__ in (
        "SSLWantReadError",
        "SSLWantWriteError",
    )
