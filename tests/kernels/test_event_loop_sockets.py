"""Sockets on the event loop: no reading without end, and a bound on what waits."""

from __future__ import annotations

import asyncio

import pytest
import zmq

from tk_ai_extension.kernels import sockets
from tk_ai_extension.kernels.sockets import SocketReader, client_context

DEADLINE = 30


@pytest.mark.proves("threat:exhaustion")
async def test_a_socket_that_only_sends_is_not_read() -> None:
    context = client_context()
    try:
        for kind in (zmq.PUB, zmq.PUSH):
            with (
                context.socket(kind) as socket,
                pytest.raises(ValueError, match="cannot receive"),
            ):
                SocketReader(socket, print)
    finally:
        context.destroy(linger=0)


@pytest.mark.proves("threat:exhaustion")
async def test_a_socket_that_fails_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    context = client_context()
    try:
        # A REQ socket receives after it has sent: before that each attempt fails.
        reader = SocketReader(context.socket(zmq.REQ), print)
        async with asyncio.timeout(DEADLINE):
            while not reader.socket.closed:  # noqa: ASYNC110 - in the loop's next turn
                await asyncio.sleep(0)
        assert [record.getMessage() for record in caplog.records] == [
            "A socket can no longer be read and was closed: Operation cannot be accomplished in current state"
        ]
    finally:
        context.destroy(linger=0)


@pytest.mark.proves("exec:no-block")
async def test_reading_what_has_queued_lets_others_run_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sockets, "READ_TIME", -1)  # is over after each message
    context = client_context()
    try:
        receiver, sender = context.socket(zmq.PULL), context.socket(zmq.PUSH)
        receiver.bind("inproc://queued")
        sender.connect("inproc://queued")
        for number in range(20):
            sender.send_string(str(number))
        received: list[list[bytes]] = []
        reader = SocketReader(receiver, received.append)
        in_a_turn: list[int] = []
        async with asyncio.timeout(DEADLINE):
            while len(received) < 20:
                before = len(received)
                await asyncio.sleep(0)
                in_a_turn.append(len(received) - before)
        assert max(in_a_turn) <= 2, "one for the event, and one of those that were left"
        assert received == [[b"%d" % number] for number in range(20)]
        reader.close()
    finally:
        context.destroy(linger=0)


@pytest.mark.proves("threat:exhaustion")
def test_the_receive_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "MAX_RECEIVED", 1000)
    context = sockets.client_context()
    try:
        with context.socket(zmq.PULL) as receiver, context.socket(zmq.PUSH) as sender:
            sender.setsockopt(zmq.SNDHWM, 1)
            port = receiver.bind_to_random_port("tcp://127.0.0.1")
            sender.connect(f"tcp://127.0.0.1:{port}")
            sent, message = 0, b"x" * 50_000  # the system's own buffers hold few of these
            while sender.poll(500, zmq.POLLOUT) and sent < 3000:
                sender.send(message, zmq.NOBLOCK)
                sent += 1
            assert 1000 <= sent < 2000
    finally:
        context.destroy(linger=0)
