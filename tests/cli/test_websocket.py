"""The WebSocket of a command: a stream of bytes both ways, whatever their size and order."""

from __future__ import annotations

import asyncio
import socket

import pytest
from tornado.iostream import IOStream

from tk_ai_extension.cli.websocket import (
    BINARY,
    CLOSE,
    MAX_FRAME,
    PING,
    PONG,
    Frames,
    FrameTooLong,
    frame,
    stream_of,
)
from tk_ai_extension.server.handlers.upgrades import LineStream, WebSocketStream

LONG = 3_000_000
"""Bytes that no socket takes at once."""


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536])
@pytest.mark.parametrize("masked", [True, False])
def test_a_frame_is_read_as_it_was_written_in_pieces_of_any_size(size: int, masked: bool) -> None:
    payload = bytes(number % 251 for number in range(size))
    sent = frame(BINARY, payload, masked=masked) + frame(PING, b"here?", masked=masked)
    for step in (1, 7, len(sent)) if size < 1_000 else (len(sent) - 1, len(sent)):
        frames = Frames()
        found = [
            each
            for start in range(0, len(sent), step)
            for each in frames.read(sent[start : start + step])
        ]
        assert found == [(BINARY, payload), (PING, b"here?")]


def test_a_frame_without_bound_is_refused_before_it_is_received() -> None:
    head = frame(BINARY, b"x" * 70_000, masked=False)[:10]
    too_long = head[:2] + (MAX_FRAME + 1).to_bytes(8, "big")
    with pytest.raises(FrameTooLong):
        list(Frames().read(too_long))


@pytest.mark.proves("hub:nb")
async def test_long_lines_pass_each_other_and_the_end_is_seen() -> None:
    here, there = socket.socketpair()
    lines = LineStream(WebSocketStream(IOStream(there)))
    command = stream_of(here, frame(BINARY, b"first\n", masked=False))

    def work() -> bytes:
        with command:
            # Nothing is read meanwhile.
            command.sendall(b"a" * LONG + b"\n" + b"last")
            command.shutdown(socket.SHUT_WR)
            data = bytearray()
            while piece := command.recv(1 << 16):
                data += piece
            return bytes(data)

    working = asyncio.create_task(asyncio.to_thread(work))
    lines.write(b"b" * LONG + b"\n")
    assert await lines.read_line() == b"a" * LONG + b"\n"
    # The command sends no more, and still receives.
    assert await lines.read_line() == b"last"
    assert await lines.read_line() == b""
    lines.write(b"done\n")
    await lines.drain()
    lines.close()
    assert await working == b"first\n" + b"b" * LONG + b"\ndone\n"


@pytest.mark.proves("hub:nb")
async def test_pings_are_answered_while_a_command_waits() -> None:
    here, there = socket.socketpair()
    stream = IOStream(there)
    with stream_of(here, b"") as command:
        stream.write(frame(PING, b"here?", masked=False))
        answer = await stream.read_bytes(11)
        assert list(Frames().read(answer)) == [(PONG, b"here?")]
        stream.write(frame(CLOSE, b"", masked=False))
        assert await asyncio.to_thread(command.recv, 1) == b""
    stream.close()


async def test_a_client_that_sends_a_frame_without_bound_is_taken_for_gone() -> None:
    here, there = socket.socketpair()
    lines = LineStream(WebSocketStream(IOStream(there)))
    too_long = (MAX_FRAME + 1).to_bytes(8, "big")
    here.sendall(frame(BINARY, b"line\n", masked=True) + b"\x82\x7f" + too_long)
    assert await lines.read_line() == b"line\n"
    assert await lines.read_line() == b""
    lines.close()
    here.close()
