"""A limit for the whole of a test that waits: its error shows the line at which it waited."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest
import pytest_asyncio

BEFORE = 20
"""Seconds before its timeout at which a test is cancelled.

The timeout itself interrupts the event loop, which tests share: the error does not show where the test was.
"""


def limit(item: pytest.Item) -> None:
    """Cancel an async test that does not end."""
    if not isinstance(item, pytest.Function) or not pytest_asyncio.is_async_test(item):
        return
    test = item.obj
    marker = item.get_closest_marker("timeout")
    seconds = float(marker.args[0] if marker else item.config.getini("timeout") or 0)
    if seconds <= BEFORE or hasattr(test, "hypothesis"):
        return

    @functools.wraps(test)
    async def limited(*arguments: Any, **fixtures: Any) -> None:
        async with asyncio.timeout(seconds - BEFORE):
            await test(*arguments, **fixtures)

    item.obj = limited
