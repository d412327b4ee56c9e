"""Two agents and a person in one notebook, by random schedules: nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.document_bench import DocumentBench
from tests.support.document_machine import machine

FEW = settings(
    max_examples=10,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
MANY = settings(FEW, max_examples=100, stateful_step_count=40)


async def run(bench: DocumentBench, how: settings) -> None:
    """Hypothesis is not asynchronous: it works in a thread, and what it asks for is done here."""
    loop = asyncio.get_running_loop()

    def do(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    await asyncio.to_thread(run_state_machine_as_test, machine(bench, do), settings=how)


@pytest.mark.proves("fault:concurrent-edit", "text:merge")
@pytest.mark.asyncio(loop_scope="module")
async def test_no_update_is_lost(bench: DocumentBench) -> None:
    await run(bench, FEW)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.asyncio(loop_scope="module")
async def test_no_update_is_lost_in_many_schedules(bench: DocumentBench) -> None:
    await run(bench, MANY)
