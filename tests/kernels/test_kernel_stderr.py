"""What kernels say on their standard error is read without waiting for our own."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress

import pytest

from tk_ai_extension.kernels.starter import TAIL_BYTES, StderrTail


@pytest.mark.proves("exec:no-block")
async def test_a_stderr_that_nobody_reads_does_not_hold_the_loop() -> None:
    read_end, full = os.pipe()
    ours = os.dup(2)
    os.set_blocking(full, False)
    with suppress(BlockingIOError):
        while True:
            os.write(full, b"x" * 512)
    os.set_blocking(full, True)
    tail = StderrTail()
    try:
        os.dup2(full, 2)
        os.write(tail.descriptor, (b"y" * 59 + b"\n") * 1000)
        async with asyncio.timeout(10):
            while len(tail.text) < 3000:  # noqa: ASYNC110 - its own read
                await asyncio.sleep(0)
    finally:
        os.dup2(ours, 2)
        tail.close()
        for descriptor in (read_end, full, ours):
            os.close(descriptor)


@pytest.mark.proves("exec:no-block", "fault:flood")
async def test_a_process_that_writes_as_fast_as_it_is_read_does_not_hold_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    tail = StderrTail()
    end, read, ticks = time.monotonic() + 1, os.read, 0

    def read_and_write_more(descriptor: int, size: int) -> bytes:
        data = read(descriptor, size)
        if time.monotonic() < end:
            os.write(tail.descriptor, data)
        return data

    monkeypatch.setattr("tk_ai_extension.kernels.starter.os.read", read_and_write_more)
    try:
        os.dup2(null, 2)
        os.write(tail.descriptor, b"x" * 512)
        while time.monotonic() < end:
            await asyncio.sleep(0)
            assert len(tail.text) <= TAIL_BYTES
            ticks += 1
    finally:
        os.dup2(ours, 2)
        tail.close()
        for descriptor in (ours, null):
            os.close(descriptor)
    assert ticks > 10
