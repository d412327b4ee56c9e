"""The ways in which a call can end before its tool does: only a cancellation ends the tool."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import anyio
import httpx2
import nbformat
import pytest
from mcp import Client

from tests.mcp.conftest import LEGACY, MODERN, Connect
from tests.mcp.probes.tools import Probe

DEADLINE = 10


async def _held(client: Client, probe: Probe) -> asyncio.Task[object]:
    """A call that has begun and waits."""
    call = asyncio.create_task(client.call_tool("probe_wait", {}))
    await probe.started.wait()
    return call


@pytest.mark.proves("mcp:disconnect")
@pytest.mark.parametrize("era", [LEGACY], indirect=True)
async def test_an_explicit_cancellation_ends_the_tool(connect: Connect, probe: Probe) -> None:
    async with asyncio.timeout(DEADLINE), connect() as client:
        call = await _held(client, probe)
        call.cancel()  # the client says notifications/cancelled
        await probe.cancelled.wait()
        assert not probe.finished.is_set()
        assert not probe.contexts[0].gone.is_set()
        assert not (await client.call_tool("probe_say", {})).is_error


@pytest.mark.proves("mcp:disconnect")
@pytest.mark.parametrize("era", [MODERN], indirect=True)
async def test_without_sessions_a_stream_that_closes_leaves_the_tool_alone(
    connect: Connect, probe: Probe
) -> None:
    """There a client cancels by closing the stream, which a lost connection does too."""
    async with asyncio.timeout(DEADLINE), connect() as client:
        call = await _held(client, probe)
        call.cancel()
        await probe.contexts[0].gone.wait()
        probe.release.set()
        await probe.finished.wait()
        assert not probe.cancelled.is_set()
        assert not (await client.call_tool("probe_say", {})).is_error


@pytest.mark.proves("mcp:disconnect")
async def test_a_client_that_vanishes_leaves_the_tool_alone(
    address: str, jp_auth_header: dict[str, str], connect: Connect, era: str, probe: Probe
) -> None:
    """The connection breaks, in the middle of the call and without a word."""
    with suppress(BaseExceptionGroup, httpx2.HTTPError):
        async with asyncio.timeout(DEADLINE), connect() as client:
            await _held(client, probe)
            raise httpx2.ReadError("connection lost")
    async with asyncio.timeout(DEADLINE):
        await probe.contexts[0].gone.wait()
        probe.release.set()
        await probe.finished.wait()
    assert not probe.cancelled.is_set()


@pytest.mark.proves("mcp:disconnect")
@pytest.mark.parametrize("era", [MODERN], indirect=True)
async def test_a_client_that_comes_back_picks_up_the_cell(
    connect: Connect, jp_root_dir: Path
) -> None:
    code = """\
        import os, time
        print("began", flush=True)
        while not os.path.exists("go"): time.sleep(0.01)
        print("ended")"""
    cell = nbformat.v4.new_code_cell(dedent(code))
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), jp_root_dir / "plan.ipynb")
    began = asyncio.Event()

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        began.set()

    async with connect("?caller=me") as client:
        call = {"notebook": "plan.ipynb", "cell": 0, "wait": 1}
        running = (await client.call_tool("execute_cell", call)).structured_content
    assert running["status"] == "running"
    wait = {"execution_id": running["execution_id"]}
    with suppress(BaseExceptionGroup, httpx2.HTTPError):
        async with asyncio.timeout(DEADLINE), connect("?caller=me") as client:
            lost = client.call_tool("wait_execution", wait, progress_callback=listen)
            asyncio.create_task(lost).add_done_callback(asyncio.Task.exception)
            await began.wait()
            raise httpx2.ReadError("connection lost")
    (jp_root_dir / "go").touch()
    async with asyncio.timeout(DEADLINE), connect("?caller=me") as client:
        ended = (await client.call_tool("wait_execution", wait)).structured_content
    assert (ended["status"], ended["runs"][0]["output"]) == ("ok", "began\nended")


@pytest.mark.proves("mcp:sessions", "mcp:disconnect")
@pytest.mark.parametrize("era", [LEGACY], indirect=True)
async def test_the_end_of_a_session_leaves_its_tools_alone(
    address: str, jp_auth_header: dict[str, str], connect: Connect, probe: Probe
) -> None:
    async with asyncio.timeout(DEADLINE):
        async with connect() as client:
            call = await _held(client, probe)
            key = probe.contexts[0].caller.key
            async with httpx2.AsyncClient(headers=jp_auth_header) as http:
                ended = await http.delete(address, headers={"Mcp-Session-Id": key or ""})
                assert ended.status_code == 200
                gone = await http.post(
                    address,
                    headers={
                        "Mcp-Session-Id": key or "",
                        "Accept": "application/json, text/event-stream",
                    },
                    json={"jsonrpc": "2.0", "id": 9, "method": "ping"},
                )
                assert gone.status_code == 404
            probe.release.set()
            await probe.finished.wait()
            assert not probe.cancelled.is_set()
            with suppress(BaseException):
                await call


async def test_a_client_that_does_not_read_its_progress_holds_nothing_up(
    connect: Connect, probe: Probe
) -> None:
    read = anyio.Event()

    async def stuck(progress: float, total: float | None, message: str | None) -> None:
        await read.wait()

    async with asyncio.timeout(DEADLINE), connect() as client:
        call = asyncio.create_task(
            client.call_tool("probe_wait", {"reports": 5_000}, progress_callback=stuck)
        )
        await probe.started.wait()
        probe.release.set()
        await probe.finished.wait()
        read.set()
        await call
