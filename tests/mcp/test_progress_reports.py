"""Reports of a tool's progress to a client that does not take them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tk_ai_extension.mcp import calls
from tk_ai_extension.mcp.calls import MAX_WAITING, ProgressReporter


class Session:
    """A client's session.

    Attributes:
        reports: The reports that arrived, by number.
    """

    def __init__(self, fails_at: int | None = None) -> None:
        self._fails_at = fails_at
        self.reports: dict[float, str] = {}

    async def report_progress(self, progress: float, *, message: str) -> None:
        await asyncio.sleep(0)
        if progress == self._fails_at:
            raise ConnectionError("connection lost")
        self.reports[progress] = message


@pytest.mark.proves("exec:progress")
@pytest.mark.parametrize("fails_at", [1, 2, 3])
async def test_a_report_that_fails_does_not_delay_the_result(
    fails_at: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "DRAIN", 3600.0)
    session: Any = Session(fails_at)
    progress = ProgressReporter(session)
    with caplog.at_level(logging.WARNING):
        for number in range(1, 4):
            await progress(f"report {number}")
            await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await progress.close()
    assert list(session.reports) == list(range(1, fails_at))
    assert "connection lost" in caplog.text


@pytest.mark.proves("exec:progress")
async def test_the_newest_reports_arrive_in_order_before_the_result() -> None:
    session: Any = Session()
    progress = ProgressReporter(session)
    for number in range(3 * MAX_WAITING):
        await progress(f"report {number}")
    await progress.close()
    await progress("too late")
    newest = range(2 * MAX_WAITING, 3 * MAX_WAITING)
    assert list(session.reports.values()) == [f"report {number}" for number in newest]
