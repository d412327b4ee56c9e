"""All executors keep the executor's promises, on a real server with real kernels."""

from __future__ import annotations

import pytest

from tests.support.executors import ExecutorConformance

pytestmark = pytest.mark.asyncio(loop_scope="module")


class TestExecutor(ExecutorConformance):
    pass
