"""A silent request that a kernel drops, because another client's cell failed, is submitted again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.session import Session

from tests.kernels.conftest import Server
from tests.support.executor_bench import DEADLINE, ExecutorBench, submit

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def backend() -> str:
    return "direct"


@pytest.mark.proves("exec:concurrent", "kernel:shared-live")
async def test_a_query_behind_a_persons_failing_cell_is_answered(
    server: Server,
    bench: ExecutorBench,
    harmed: Callable[[], Awaitable[str]],
    tmp_path: Path,
) -> None:
    kernel_id, gate = await harmed(), tmp_path / "gate"
    manager: Any = server.manager.get_kernel(kernel_id)
    person = manager.client(session=Session(key=manager.session.key))
    person.start_channels()
    try:
        async with asyncio.timeout(DEADLINE):
            await person.wait_for_ready()
            person.execute(f"import os\nwhile not os.path.exists({str(gate)!r}): pass\n1 / 0")
            while (await person.get_iopub_msg())["msg_type"] != "execute_input":
                pass
            query = submit(bench, "", kernel_id, silent=True, user_expressions={"a": "6 * 7"})
            for _ in range(100):  # until the query is in the kernel's queue
                await asyncio.sleep(0)
            gate.touch()
            outcome = await query.outcome()
    finally:
        person.stop_channels()
    assert outcome.status == "ok"
    assert outcome.execution.user_expressions["a"]["data"]["text/plain"] == "42"
