"""Prints, below a test run, where its time went: the minutes of each folder, and the slowest tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import PurePath

import pytest

SLOWEST = 10
"""So many tests are listed."""


def write_times(reporter: pytest.TerminalReporter) -> None:
    """Sums up set-up, call and clean-up of all tests that ran.

    With several workers they ran side by side: the sum is more than the time that has passed.
    """
    tests, folders = defaultdict[str, float](float), defaultdict[str, float](float)
    for reports in reporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                tests[report.nodeid] += report.duration
                folders[PurePath(report.location[0]).parent.as_posix()] += report.duration
    if sum(tests.values()) < 1:
        return
    reporter.section("minutes of each folder, all workers together")
    for folder, seconds in longest(folders):
        reporter.line(f"{seconds / 60:6.1f}  {folder}")
    reporter.section(f"the {SLOWEST} slowest tests, in seconds")
    for test, seconds in longest(tests)[:SLOWEST]:
        reporter.line(f"{seconds:6.1f}  {test}")


def longest(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    """Names and seconds, the longest first."""
    return sorted(seconds.items(), key=lambda each: each[1], reverse=True)
