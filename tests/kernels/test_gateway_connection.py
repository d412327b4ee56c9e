"""Kernels behind a gateway, with a network between that fails (what all executors do: conformance)."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from unittest.mock import Mock

import pytest
from jupyter_client.session import Session
from jupyter_server.gateway.gateway_client import GatewayClient
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from tests.kernels.conftest import Server
from tests.kernels.gateways import Gateway
from tests.kernels.networks import at, backend, gateway, network, proxy, server, service
from tests.support import faults
from tests.support.executor_bench import (
    DEADLINE,
    ExecutorBench,
    happens,
    kernel_events,
    run,
    submit,
)
from tests.support.proxy import Proxy, Refusal
from tk_ai_extension.kernels.environment import InheritedEnvironment
from tk_ai_extension.kernels.gateway.connection import GatewayConnection, JsonFraming
from tk_ai_extension.kernels.gateway.requests import InvalidResponse, parsing_response
from tk_ai_extension.kernels.gateway.service import GatewayKernels
from tk_ai_extension.kernels.sessions import JupyterSessions
from tk_ai_extension.model.errors import GatewayUnavailable, KernelspecNotFound, KernelStartFailed

__all__ = ["backend", "gateway", "network", "proxy", "server", "service"]

pytestmark = pytest.mark.asyncio(loop_scope="module")

Start = Callable[[], Awaitable[str]]

PAGE = "<html>Welcome to the proxy</html>"


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
    bench: ExecutorBench, proxy: Proxy, service: Callable[..., GatewayKernels], tmp_path: Path
) -> None:
    here = at(bench, service(ping_interval=0.3))
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


@pytest.mark.proves("fault:connection-lost")
@pytest.mark.parametrize("answers", ["nobody", "proxy"])
async def test_a_gateway_that_is_not_found_has_its_kernels_still(
    *,
    server: Server,
    bench: ExecutorBench,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    answers: str,
) -> None:
    go, kernel_id = tmp_path / "go", bench.kernel_id
    running = submit(bench, faults.run_until(go, "went_on = True"))
    await running.printed()
    with monkeypatch.context() as patch:
        if answers == "nobody":  # as when a VPN is gone: its name means nothing
            lost = "://gateway.invalid/"
            for place in (server.manager.get_kernel(kernel_id), GatewayClient.instance()):
                for name in {"kernel_url", "ws_url"} & set(dir(place)):
                    url = getattr(place, name)
                    patch.setattr(place, name, re.sub("://[^/]+/?", lost, url))
        for line in ("GET ", "DELETE ", "POST /interrupt", "POST /restart"):
            method, _, action = line.partition(" ")
            path = f"{method} /api/kernels/{kernel_id}{action}"
            proxy.refusals.append(Refusal(path, "404 Not Found", body=PAGE))
        await proxy.cut()
        assert (await running.outcome()).status == "connection_lost"
        for act in (bench.kernels.interrupt, bench.kernels.restart, bench.kernels.shutdown):
            with pytest.raises(GatewayUnavailable, match="failed"):
                await act(kernel_id)
    go.touch()
    proxy.refusals.clear()
    outcome = await run(bench, "went_on")
    assert outcome.outputs[0]["data"]["text/plain"] == "True"


async def test_a_page_in_the_place_of_an_answer_is_no_answer(
    bench: ExecutorBench, proxy: Proxy, gateway: Gateway, service: Callable[..., GatewayKernels]
) -> None:
    proxy.refusals.append(Refusal("GET /api/kernelspecs", "200 OK", times=1, body=PAGE))
    with pytest.raises(GatewayUnavailable, match="not follow the Jupyter API"):
        await bench.kernels.kernelspecs()
    proxy.refusals.append(Refusal("POST /api/kernels", "200 OK", body=PAGE))
    with pytest.raises(GatewayUnavailable) as failure:
        await bench.kernels.start("python3")
    assert "left there" in failure.value.hint
    # There are gateways that do not know when a kernel was last used.
    model = {**(await gateway.kernels())[bench.kernel_id], "last_activity": None}
    path = f"GET /api/kernels/{bench.kernel_id}"
    proxy.refusals.append(Refusal(path, "200 OK", body=json.dumps(model)))
    assert (await service().info(bench.kernel_id)).remote


class Defective(InheritedEnvironment):
    """An environment with a defect of ours."""

    def environment(self, kernel_name: str, path: str | None) -> Mapping[str, str]:
        raise KeyError(super().environment(kernel_name, path))


@pytest.mark.proves("exec:statuses")
async def test_a_defect_of_ours_is_not_taken_for_an_outage_of_the_gateway(
    bench: ExecutorBench,
    service: Callable[..., GatewayKernels],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(KeyError):
        await service(environment=Defective()).start("python3")
    for defect in (TypeError, ValueError, AttributeError):
        for name in ("handshake", "open"):
            with monkeypatch.context() as patch:
                patch.setattr(GatewayConnection, name, Mock(side_effect=defect))
                with pytest.raises(defect):
                    await run(at(bench, service()), "1")
    # What is not understood in an answer is the gateway's doing, with the reason in the message.
    with pytest.raises(InvalidResponse, match="AttributeError"), parsing_response():
        raise AttributeError
    with pytest.raises(ssl.SSLCertVerificationError), parsing_response():
        raise ssl.SSLCertVerificationError("refused")  # a ValueError too
    assert (await run(bench, "1")).status == "ok"


@pytest.mark.proves("exec:statuses")
async def test_only_a_garbled_message_is_not_understood(
    bench: ExecutorBench,
    service: Callable[..., GatewayKernels],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    line = await service().connection(bench.kernel_id)
    assert isinstance(line, GatewayConnection)
    parts = {"channel": "iopub", "header": {"msg_id": "1", "msg_type": "status"}, "metadata": {}}
    with monkeypatch.context() as patch:
        patch.setattr(line, "_framing", JsonFraming())
        for garbled in ("3", "{", json.dumps({**parts, "parent_header": {}, "content": 3})):
            line._deliver(garbled)
            assert "malformed" in caplog.text
            caplog.clear()
    defect = Mock(side_effect=KeyError("a defect of ours"))
    monkeypatch.setattr(GatewayConnection, "_receive", defect)
    line._transmit("control", line.session.msg("kernel_info_request", {}))
    async with asyncio.timeout(DEADLINE):
        while "Internal error" not in caplog.text:  # noqa: ASYNC110 - a turn of the loop each
            await asyncio.sleep(0)
    assert "Traceback" in caplog.text
    assert "malformed" not in caplog.text


async def test_a_service_that_is_closed_while_it_connects_keeps_no_connection(
    bench: ExecutorBench, proxy: Proxy, service: Callable[..., GatewayKernels]
) -> None:
    kernels = service()
    proxy.swallow()
    connecting = asyncio.create_task(kernels.connection(bench.kernel_id))
    async with asyncio.timeout(DEADLINE):
        await proxy.next_request()
    await kernels.close()
    await proxy.restore()
    with pytest.raises(GatewayUnavailable, match="stopping"):
        await connecting
    with pytest.raises(GatewayUnavailable, match="stopping"):
        await kernels.connection(bench.kernel_id)


async def test_a_gateway_that_refuses_the_token_says_so(
    bench: ExecutorBench, proxy: Proxy, service: Callable[..., GatewayKernels]
) -> None:
    proxy.rewrite = lambda head: head.replace(b"Authorization: token ", b"Authorization: token x")
    with pytest.raises(GatewayUnavailable) as failure:
        await run(at(bench, service()), "1")
    assert "auth_token" in failure.value.hint


async def test_a_gateway_of_the_old_framing_is_understood(
    bench: ExecutorBench, proxy: Proxy, service: Callable[..., GatewayKernels]
) -> None:
    proxy.rewrite = lambda head: head.replace(b"Sec-Websocket-Protocol", b"X-Nothing")
    kernels = service()
    here = at(bench, kernels)
    shown = "from IPython.display import display\nprint(input('? '))\ndisplay({'text/plain': 'é'}, raw=True)"
    outcome = await run(here, shown, allow_stdin=True)
    assert (outcome.status, outcome.execution.prompt) == ("ok", "? ")
    assert outcome.outputs[-1]["data"]["text/plain"] == "é"
    # A message with buffers is a binary one there.
    send = "get_ipython().kernel.session.send"
    comm = (
        f"{send}(get_ipython().kernel.iopub_socket, 'comm_msg', {{'data': {{}}}}, buffers=[b'1'])"
    )
    assert (await run(here, f"{comm}\nprint('after')")).text() == "after\n"
    line = await kernels.connection(bench.kernel_id)
    assert isinstance(line, GatewayConnection)
    assert isinstance(line._framing, JsonFraming)


# -- starting


@pytest.mark.proves("kernel:start-retry")
@pytest.mark.parametrize("status", ["503 Service Unavailable", "504 Gateway Timeout"])
async def test_a_start_that_fails_at_the_gateway_is_tried_once_more(
    *,
    bench: ExecutorBench,
    proxy: Proxy,
    gateway: Gateway,
    harmed: Start,
    caplog: pytest.LogCaptureFixture,
    status: str,
) -> None:
    before, is_late = set(await gateway.kernels()), status.startswith("504")
    proxy.refusals.append(Refusal("POST /api/kernels", status, times=1, too_late=is_late))
    kernel_id = await harmed()
    assert proxy.seen("POST /api/kernels") == 2
    left = set(await gateway.kernels()) - before - {kernel_id}
    assert (len(left), "which is left there" in caplog.text) == (is_late, is_late)
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
    assert ("failed twice" in failure.value.message) == (asked == 2)
    assert "See the gateway's log" in failure.value.hint
    assert ("left there" in failure.value.hint) == (asked == 2)
    assert set(await gateway.kernels()) == before


async def test_a_kernelspec_that_the_gateway_does_not_have_is_named(bench: ExecutorBench) -> None:
    first, *others = await bench.kernels.kernelspecs()
    assert (first.name, first.language, first.default) == ("python3", "python", True)
    assert "bash" in [each.name for each in others]
    with pytest.raises(KernelspecNotFound, match=r"`nope`.*python3"):
        await bench.kernels.start("nope")


@pytest.mark.proves("fault:never-ready")
async def test_a_kernel_that_is_never_ready_is_not_left_at_the_gateway(
    gateway: Gateway, proxy: Proxy, service: Callable[..., GatewayKernels]
) -> None:
    faults.write_broken_kernelspec(gateway.folder / "data" / "kernels", "sleeps", faults.SLEEPS)
    before = set(await gateway.kernels())
    with pytest.raises(KernelStartFailed, match="did not answer within 1 s"):
        await service(ready_timeout=1).start("sleeps")
    assert set(await gateway.kernels()) == before


@pytest.mark.proves("fault:never-ready")
async def test_a_start_that_is_cancelled_leaves_nothing_at_the_gateway(
    gateway: Gateway, proxy: Proxy, service: Callable[..., GatewayKernels]
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
    proxy: Proxy, service: Callable[..., GatewayKernels], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "KERNEL_SECRET"):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("KERNEL_HARMLESS", "here")
    kernels = service(environment=InheritedEnvironment(["KERNEL_SECRET"]))
    kernel_id = await kernels.start("python3", path="notebook.ipynb")
    await kernels.shutdown(kernel_id)
    (asked,) = (each for each in proxy.requests if each.line.startswith("POST /api/kernels "))
    environment = json.loads(asked.sent)["env"]
    assert environment["KERNEL_HARMLESS"] == "here"
    assert set(environment) >= {"KERNEL_WORKING_DIR"}
    assert "canary" not in environment.values()


# -- people, and the gateway's own doings


@pytest.mark.proves("kernel:session", "kernel:shared-live")
async def test_a_person_in_jupyterlab_and_an_agent_are_in_one_kernel(
    server: Server, bench: ExecutorBench, proxy: Proxy
) -> None:
    body = {"path": "shared.ipynb", "name": "", "type": "notebook", "kernel": {"name": "python3"}}
    await server.request("POST", "api/sessions", body)
    kernel_id = await JupyterSessions(
        server.app.session_manager, lambda _: asyncio.Lock()
    ).kernel_of("shared.ipynb")
    assert kernel_id is not None
    assert kernel_id in bench.kernels.ids()
    await bench.kernels.wait_ready(kernel_id)
    request = HTTPRequest(
        f"ws://127.0.0.1:{server.port}/api/kernels/{kernel_id}/channels?session_id=browser",
        headers={"Authorization": "token secret"},
    )
    browser = await websocket_connect(request)
    async with kernel_events(bench) as events:
        message = Session(session="browser").msg("execute_request", {"code": "theirs = 41"})
        await browser.write_message(JsonFraming().pack("shell", message))
        theirs = await happens(events, "ran", kernel_id=kernel_id)
        assert (theirs.code, theirs.ours) == ("theirs = 41", False)
    outcome = await run(bench, "print(theirs + 1)", kernel_id)
    assert outcome.text() == "42\n"
    async with asyncio.timeout(DEADLINE):
        while "42" not in str(shown := await browser.read_message()):
            assert shown is not None
    browser.close()
    await bench.kernels.shutdown(kernel_id)


async def test_a_gateway_that_lists_no_kernels_is_no_hindrance(
    bench: ExecutorBench, proxy: Proxy, harmed: Start
) -> None:
    proxy.refusals.append(Refusal("GET /api/kernels", "403 Forbidden"))
    kernel_id = await harmed()
    assert kernel_id in bench.kernels.ids()
    assert (await bench.kernels.info(kernel_id)).remote
    assert (await run(bench, "1", kernel_id)).status == "ok"
    await bench.kernels.restart(kernel_id)
    await bench.kernels.interrupt(kernel_id)
    assert (await run(bench, "1", kernel_id)).execution.execution_count == 1
    await bench.kernels.shutdown(kernel_id)
    assert kernel_id not in bench.kernels.ids()


# -- floods


@pytest.mark.proves("fault:flood")
async def test_the_number_of_messages_that_the_gateway_holds_back_is_reported(
    bench: ExecutorBench,
) -> None:
    outcome = await run(bench, faults.print_lines(3_000, flush=True))
    assert outcome.status == "ok"
    assert outcome.text().count("\n") < 3_000
    stderr = outcome.text("stderr")
    assert "IOPub message rate exceeded" in stderr, "the gateway's own note"
    assert "than it or its gateway could send them" in stderr


@pytest.mark.proves("fault:flood")
async def test_few_large_messages_that_the_gateway_holds_back_are_counted(
    bench: ExecutorBench,
) -> None:
    made = 40
    # In one piece: what `print` writes may be sent in two messages, its line and the end of the line.
    code = (
        "import sys\n"
        f"for i in range({made}):\n    sys.stdout.write(f'{{i:<199999}}\\n')\n    sys.stdout.flush()"
    )
    outcome = await run(bench, code)
    assert outcome.status == "ok"
    stderr = outcome.text("stderr")
    assert "IOPub data rate exceeded" in stderr, "the gateway's own note"
    found = re.search(r"\[(\d+) messages with output were lost", stderr)
    assert found is not None, stderr
    assert outcome.text().count("\n") + int(found[1]) == made


@pytest.mark.proves("fault:flood")
async def test_a_large_output_comes_through_and_no_more_is_kept_than_is_bounded(
    bench: ExecutorBench, service: Callable[..., GatewayKernels], proxy: Proxy
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
