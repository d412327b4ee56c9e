"""Deprecated names of the executors' bench."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tk_ai_extension.testing.executor_bench import ExecutorBench


def test_the_old_name_of_an_argument_still_works_and_warns() -> None:
    anything = cast("Any", None)
    with pytest.warns(DeprecationWarning, match="reports_exit"):
        bench = ExecutorBench(
            anything, anything, "direct", "a kernel", anything, anything, tells_exit=False
        )
    assert not bench.reports_exit
