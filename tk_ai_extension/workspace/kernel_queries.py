"""This package's own queries of kernels, such as the list of variables."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tk_ai_extension.model.errors import KernelBusy

WAIT = 5.0
"""Seconds for which a query waits for others."""


class KernelQueries:
    """Runs queries of each kernel one after the other: one looks like running code to another."""

    def __init__(self) -> None:
        self._locks = defaultdict[str, asyncio.Lock](asyncio.Lock)

    @asynccontextmanager
    async def turn(self, kernel_id: str) -> AsyncGenerator[None]:
        """Wait until no query of a kernel is in progress; none begins within the ``async with`` block.

        Raises:
            KernelBusy: Other queries did not end in time.
        """
        lock = self._locks[kernel_id]
        try:
            async with asyncio.timeout(WAIT):
                await lock.acquire()
        except TimeoutError:
            raise KernelBusy("The kernel is answering other queries.", hint="Call again.") from None
        try:
            yield
        finally:
            lock.release()
