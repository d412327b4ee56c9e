"""Kernels behind a gateway, with a network between that fails (what all executors do: conformance)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from tests.kernels.gateways import Gateway
from tests.kernels.networks import at, backend, gateway, network, proxy, server, service
from tests.support import faults
from tests.support.executor_bench import (
    DEADLINE,
    ExecutorBench,
    kernel_events,
    run,
    submit,
)
from tests.support.proxy import Proxy, Refusal
from tk_ai_extension.kernels.environment_variables import inherited_environment
from tk_ai_extension.kernels.gateway import GatewayKernelService
from tk_ai_extension.model.errors import GatewayUnavailable, InvalidArguments, KernelStartFailed

__all__ = ["backend", "gateway", "network", "proxy", "server", "service"]

pytestmark = pytest.mark.asyncio(loop_scope="module")

Start = Callable[[], Awaitable[str]]


# -- the connection


@pytest.mark.proves("fault:connection-lost", "exec:statuses", "exec:fallback")
async def test_a_connection_that_is_cut_says_that_the_outcome_is_unknown_and_runs_nothing_twice(
    bench: ExecutorBench, proxy: Proxy, tmp_path: Path
) -> None:
    go, ran = tmp_path / "go", tmp_path / "ran"
    code = f"open({str(ran)!r}, 'a').write('once ')\n" + faults.run_until(go, "went_on = True")
    async with kernel_events(bench) as events:
        running = submit(bench, code)
        await running.printed()
        queued = submit(bench, f"open({str(ran)!r}, 'a').write('queued ')")
        await asyncio.sleep(0)  # it has been sent by now
        await proxy.cut()
        outcome, behind = await running.outcome(), await queued.outcome()
        assert outcome.status == behind.status == "connection_lost"
        assert "whether the code ran to its end is unknown" in outcome.execution.message
        assert outcome.text() == "waiting\n"
        go.touch()
        after = await run(bench, "went_on")
        assert (after.status, after.outputs[0]["data"]["text/plain"]) == ("ok", "True")
        kinds = {events.get_nowait().kind for _ in range(events.qsize())}
    assert ran.read_text().split() in (["once"], ["once", "queued"])
    assert not kinds & {"died", "restarted", "shutdown"}, "nothing became of its variables"


@pytest.mark.proves("fault:connection-lost")
async def test_a_connection_on_which_nothing_comes_any_more_is_lost(
    *,
    bench: ExecutorBench,
    proxy: Proxy,
    service: Callable[..., GatewayKernelService],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("tk_ai_extension.kernels.gateway.PING_INTERVAL", 0.3)
    here = at(bench, service())
    go = tmp_path / "go"
    running = submit(here, faults.run_until(go))
    await running.printed()
    proxy.swallow()
    try:
        assert (await running.outcome()).status == "connection_lost"
    finally:
        await proxy.close()
        await proxy.open()
        go.touch()
    assert (await run(here, "1")).status == "ok"


@pytest.mark.proves("fault:connection-lost")
async def test_a_gateway_that_is_down_is_a_typed_error_at_once_and_no_loss_when_it_is_back(
    bench: ExecutorBench, proxy: Proxy
) -> None:
    await run(bench, "kept = 41")
    await proxy.close()
    began = time.monotonic()
    for act in (
        lambda: run(bench, "kept = 0"),
        lambda: bench.kernels.start("python3"),
        bench.kernels.kernelspecs,
        lambda: bench.kernels.interrupt(bench.kernel_id),
        lambda: bench.kernels.restart(bench.kernel_id),
    ):
        with pytest.raises(GatewayUnavailable) as failure:
            await act()
        assert proxy.url.rstrip("/") in failure.value.message
        assert failure.value.retryable
        assert "GatewayClient.url" in failure.value.hint
    assert time.monotonic() - began < 5
    assert (await bench.kernels.info(bench.kernel_id)).state == "unknown"
    await proxy.open()
    outcome = await run(bench, "kept + 1")
    assert outcome.outputs[0]["data"]["text/plain"] == "42"


async def test_a_gateway_that_refuses_the_token_says_so(
    bench: ExecutorBench, proxy: Proxy, service: Callable[..., GatewayKernelService]
) -> None:
    proxy.rewrite = lambda head: head.replace(b"Authorization: token ", b"Authorization: token x")
    with pytest.raises(GatewayUnavailable) as failure:
        await run(at(bench, service()), "1")
    assert "auth_token" in failure.value.hint
    await proxy.restore()


# -- starting


@pytest.mark.proves("kernel:start-retry")
@pytest.mark.parametrize("status", ["503 Service Unavailable", "504 Gateway Timeout"])
async def test_a_start_that_fails_at_the_gateway_is_tried_once_more(
    *,
    bench: ExecutorBench,
    proxy: Proxy,
    gateway: Gateway,
    harmed: Start,
    status: str,
) -> None:
    before, is_late = set(await gateway.kernels()), status.startswith("504")
    proxy.refusals.append(Refusal("POST /api/kernels", status, times=1, too_late=is_late))
    kernel_id = await harmed()
    assert proxy.seen("POST /api/kernels") == 2
    left = set(await gateway.kernels()) - before - {kernel_id}
    assert len(left) == is_late
    for each in left:
        await gateway.request("DELETE", f"api/kernels/{each}")
    assert (await run(bench, "1", kernel_id)).status == "ok"


@pytest.mark.proves("kernel:start-retry")
@pytest.mark.parametrize(("status", "asked"), [("502 Bad Gateway", 2), ("403 Forbidden", 1)])
async def test_a_start_that_fails_again_or_is_refused_says_what_to_do(
    bench: ExecutorBench, proxy: Proxy, gateway: Gateway, status: str, asked: int
) -> None:
    before = set(await gateway.kernels())
    proxy.refusals.append(Refusal("POST /api/kernels", status))
    with pytest.raises(KernelStartFailed) as failure:
        await bench.kernels.start("python3")
    assert proxy.seen("POST /api/kernels") == asked
    assert f"HTTP {status.partition(' ')[0]}" in failure.value.message
    assert "See the gateway's log" in failure.value.hint
    assert set(await gateway.kernels()) == before


async def test_a_kernelspec_that_the_gateway_does_not_have_is_named(bench: ExecutorBench) -> None:
    first, *others = await bench.kernels.kernelspecs()
    assert (first.name, first.language, first.default) == ("python3", "python", True)
    assert "bash" in [each.name for each in others]
    with pytest.raises(InvalidArguments, match=r"`nope`.*python3"):
        await bench.kernels.start("nope")


@pytest.mark.proves("fault:never-ready")
async def test_a_kernel_that_is_never_ready_is_not_left_at_the_gateway(
    gateway: Gateway, proxy: Proxy, service: Callable[..., GatewayKernelService]
) -> None:
    faults.write_broken_kernelspec(gateway.folder / "data" / "kernels", "sleeps", faults.SLEEPS)
    before = set(await gateway.kernels())
    with pytest.raises(KernelStartFailed, match="did not answer within 1 s"):
        await service(ready_timeout=1).start("sleeps")
    assert set(await gateway.kernels()) == before


@pytest.mark.proves("fault:never-ready")
async def test_a_start_that_is_cancelled_leaves_nothing_at_the_gateway(
    gateway: Gateway, proxy: Proxy, service: Callable[..., GatewayKernelService]
) -> None:
    before = set(await gateway.kernels())
    kernels = service()
    starting = asyncio.create_task(kernels.start("python3"))
    async with asyncio.timeout(DEADLINE):
        await proxy.asked("POST /api/kernels")
    starting.cancel()
    await asyncio.wait({starting})
    await kernels.close()  # waits for what it has still to clear away
    assert set(await gateway.kernels()) == before


@pytest.mark.proves("threat:secrets", "kernel:env")
async def test_the_gateway_gets_only_its_own_variables(
    proxy: Proxy, service: Callable[..., GatewayKernelService], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "KERNEL_SECRET"):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("KERNEL_HARMLESS", "here")
    kernels = service(environment=partial(inherited_environment, ["KERNEL_SECRET"]))
    kernel_id = await kernels.start("python3", path="notebook.ipynb")
    await kernels.shutdown(kernel_id)
    (asked,) = (each for each in proxy.requests if each.line.startswith("POST /api/kernels "))
    environment = json.loads(asked.sent)["env"]
    assert environment["KERNEL_HARMLESS"] == "here"
    assert set(environment) >= {"KERNEL_WORKING_DIR"}
    assert "canary" not in environment.values()


# -- people, and the gateway's own doings


# -- floods


@pytest.mark.proves("fault:flood")
async def test_a_large_output_comes_through_and_no_more_is_kept_than_is_bounded(
    bench: ExecutorBench, service: Callable[..., GatewayKernelService], proxy: Proxy
) -> None:
    show = (
        "from IPython.display import display\ndisplay({'text/plain': 'x' * 30_000_000}, raw=True)"
    )
    outcome = await run(bench, show)
    assert len(outcome.outputs[0]["data"]["text/plain"]) == 30_000_000
    bounded = await run(at(bench, service(max_output_bytes=1_000_000)), f"{show}\nprint('end')")
    assert bounded.status == "ok"
    assert bounded.execution.dropped > 0
    assert len(str(bounded.outputs)) < 2_000_000
