"""Kernels behind a gateway that are restarted or end there, whether they say so or not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.kernels.conftest import Server
from tests.kernels.gateways import Gateway
from tests.kernels.networks import backend, gateway, network, proxy, server, service
from tests.support import faults
from tests.support.executor_bench import (
    ExecutorBench,
    happens,
    kernel_events,
    run,
    submit,
)
from tests.support.proxy import Proxy, Refusal
from tk_ai_extension.kernels.gateway.connection import GatewayConnection
from tk_ai_extension.model.errors import GatewayUnavailable, KernelNotFound

__all__ = ["backend", "gateway", "network", "proxy", "server", "service"]

pytestmark = pytest.mark.asyncio(loop_scope="module")

Start = Callable[[], Awaitable[str]]

SILENT = "async def silent(): pass\nget_ipython().kernel._at_shutdown = silent\n"
"""A cell whose kernel says nothing of its end, as some kernels do."""


@pytest.mark.proves("fault:connection-lost", "kernel:shared-live")
async def test_a_kernel_restarted_while_the_connection_was_down_is_reported_as_restarted(
    bench: ExecutorBench, proxy: Proxy, gateway: Gateway, harmed: Start
) -> None:
    kernel_id = await harmed()
    await run(bench, "kept = 1", kernel_id)
    async with kernel_events(bench) as events:
        await proxy.close()
        await happens(events, "state", kernel_id=kernel_id, state="unknown")
        await gateway.request("POST", f"api/kernels/{kernel_id}/restart")
        await proxy.open()
        await happens(events, "restarted", kernel_id=kernel_id)
    outcome = await run(bench, "kept", kernel_id)
    assert outcome.status == "error", "its variables are gone"


@pytest.mark.proves("exec:statuses", "kernel:tools")
async def test_a_kernel_that_the_gateway_ends_is_gone_here_too(
    bench: ExecutorBench, gateway: Gateway, proxy: Proxy, harmed: Start
) -> None:
    kernel_id = await harmed()
    async with kernel_events(bench) as events:
        running = submit(bench, faults.RUN_FOREVER, kernel_id)
        await running.printed()
        await gateway.request("DELETE", f"api/kernels/{kernel_id}")
        assert (await running.outcome()).status == "kernel_died"
        await happens(events, "shutdown", kernel_id=kernel_id)
    with pytest.raises(KernelNotFound):
        await run(bench, "1", kernel_id)
    assert kernel_id not in bench.kernels.ids()


@pytest.mark.proves("exec:statuses", "kernel:shared-live")
@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_a_kernel_that_says_nothing_of_its_restart_is_known_to_be_restarted(
    server: Server, gateway: Gateway, bench: ExecutorBench, harmed: Start, where: str
) -> None:
    kernel_id = await harmed()
    running = submit(bench, SILENT + faults.ignore_interrupts(60), kernel_id)
    await running.printed()
    somebody = server if where == "here" else gateway
    await somebody.request("POST", f"api/kernels/{kernel_id}/restart")
    assert (await running.outcome()).status == "kernel_restarted"
    assert (await run(bench, "1", kernel_id)).execution.execution_count == 1
    assert (await bench.kernels.info(kernel_id)).restarts == 1


@pytest.mark.proves("exec:statuses", "kernel:shared-live")
async def test_a_kernel_whose_first_status_is_lost_is_known_to_be_restarted(
    gateway: Gateway, bench: ExecutorBench, harmed: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = GatewayConnection._receive_iopub

    def receive_the_first(self: GatewayConnection, message: Any, parent: Any) -> None:
        if not self.kernel_session or message["header"]["session"] == self.kernel_session:
            receive(self, message, parent)

    kernel_id = await harmed()
    running = submit(bench, SILENT + faults.ignore_interrupts(60), kernel_id)
    await running.printed()
    monkeypatch.setattr(GatewayConnection, "_receive_iopub", receive_the_first)
    await gateway.request("POST", f"api/kernels/{kernel_id}/restart")
    assert (await running.outcome()).status == "kernel_restarted"
    assert (await run(bench, "1", kernel_id)).execution.execution_count == 1


@pytest.mark.proves("exec:statuses", "fault:connection-lost")
@pytest.mark.parametrize("says", [True, False])
async def test_a_restart_of_which_no_answer_comes_ends_what_ran(
    bench: ExecutorBench, proxy: Proxy, harmed: Start, says: bool
) -> None:
    kernel_id = await harmed()
    running = submit(bench, ("" if says else SILENT) + faults.ignore_interrupts(60), kernel_id)
    await running.printed()
    path = f"POST /api/kernels/{kernel_id}/restart"
    proxy.refusals.append(Refusal(path, "504 Gateway Timeout", too_late=True))
    with pytest.raises(GatewayUnavailable) as failure:
        await bench.kernels.restart(kernel_id)
    assert "anyway" in failure.value.hint
    # A kernel that does not announce its end may announce its start before the gateway fails, or not.
    either = {"kernel_restarted"} if says else {"kernel_restarted", "connection_lost"}
    assert (await running.outcome()).status in either
    assert (await run(bench, "1", kernel_id)).execution.execution_count == 1
    assert (await bench.kernels.info(kernel_id)).restarts == 1


@pytest.mark.proves("exec:statuses", "fault:connection-lost")
async def test_a_shutdown_of_which_no_answer_comes_ends_what_ran(
    bench: ExecutorBench, proxy: Proxy, harmed: Start
) -> None:
    kernel_id = await harmed()
    running = submit(bench, faults.ignore_interrupts(60), kernel_id)
    await running.printed()
    path = f"DELETE /api/kernels/{kernel_id}"
    proxy.refusals.append(Refusal(path, "504 Gateway Timeout", too_late=True))
    async with kernel_events(bench) as events:
        with pytest.raises(GatewayUnavailable):
            await bench.kernels.shutdown(kernel_id)
        assert (await running.outcome()).status == "kernel_died"
        await happens(events, "shutdown", kernel_id=kernel_id)
    assert kernel_id not in bench.kernels.ids()


@pytest.mark.proves("fault:connection-lost", "exec:statuses")
async def test_a_kernel_that_went_while_the_connection_was_down_has_died(
    bench: ExecutorBench, gateway: Gateway, proxy: Proxy, harmed: Start
) -> None:
    kernel_id = await harmed()
    async with kernel_events(bench) as events:
        await proxy.close()
        await happens(events, "state", kernel_id=kernel_id, state="unknown")
        await gateway.request("DELETE", f"api/kernels/{kernel_id}")
        await proxy.open()
        with pytest.raises(KernelNotFound):
            await run(bench, "1", kernel_id)
        await happens(events, "shutdown", kernel_id=kernel_id)
