"""What clients do wrong, or do without a word: one server answers all of it as the protocol says."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest
from traitlets.config import Config

from tests.mcp.probes.tools import Probe
from tests.mcp.test_callers import ACCEPT, INITIALIZE

REFUSED = -32600
BOUND = 4


@pytest.fixture
def jp_server_config(jp_server_config: Config) -> Config:
    jp_server_config.TkAIExtensionApp.max_sessions = BOUND
    return jp_server_config


@pytest.fixture
async def http(address: str, jp_auth_header: dict[str, str]) -> Any:
    headers = {**jp_auth_header, **ACCEPT}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as client:
        yield _Address(client, address)


class _Address:
    """Requests to one address, which must not gain a slash."""

    def __init__(self, client: httpx2.AsyncClient, address: str) -> None:
        self._client = client
        self._address = address

    async def post(self, **options: Any) -> httpx2.Response:
        return await self._client.post(self._address, **options)

    def stream(self, **options: Any) -> Any:
        return self._client.stream("GET", self._address, **options)


async def _open(http: Any) -> dict[str, str]:
    """Opens a session; the header that names it."""
    answer = await http.post(json=INITIALIZE)
    assert answer.status_code == 200, answer.text
    return {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}


def _request(method: str, request_id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


async def _is_there(http: Any, session: dict[str, str]) -> bool:
    return (await http.post(json=_request("ping"), headers=session)).status_code == 200


@pytest.mark.proves("mcp:abandoned-sessions", "threat:exhaustion")
async def test_an_abandoned_session_gives_way_and_one_in_use_does_not(
    http: Any, probe: Probe
) -> None:
    working, streaming, idle, used = [await _open(http) for _ in range(BOUND)]
    call = asyncio.create_task(
        http.post(json=_request("tools/call", name="probe_wait"), headers=working)
    )
    await asyncio.wait_for(probe.started.wait(), 30)
    async with http.stream(headers=streaming) as stream:
        assert stream.status_code == 200
        assert await _is_there(http, used)
        # Many clients that come and never say goodbye.
        for _ in range(3 * BOUND):
            last = await _open(http)
        assert not await _is_there(http, idle)
        assert not await _is_there(http, used)
        assert await _is_there(http, streaming)
        assert await _is_there(http, last)  # pyrefly: ignore[unbound-name]
        # Where every one is in use, the error says what helps.
        async with http.stream(headers=last), asyncio.TaskGroup() as group:
            newest = await _open(http)
            probe.started.clear()
            busy = group.create_task(
                http.post(json=_request("tools/call", name="probe_wait"), headers=newest)
            )
            await asyncio.wait_for(probe.started.wait(), 30)
            refused = await http.post(json=INITIALIZE)
            assert refused.status_code == 429
            assert "max_sessions" in refused.json()["error"]["data"]["error"]["hint"]
            probe.release.set()
        assert busy.result().status_code == 200
    assert (await call).status_code == 200


@pytest.mark.proves("mcp:requests-refused", "mcp:errors")
async def test_malformed_requests_are_invalid_requests(http: Any, probe: Probe) -> None:
    session = await _open(http)
    for body in (
        *({"jsonrpc": "2.0", "id": wrong, "method": "ping"} for wrong in (None, 1.5, True, [], {})),
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": 7},
        {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]},
        [_request("ping")],
        7,
    ):
        for headers in ({}, session, {"MCP-Protocol-Version": "2026-07-28"}):
            answer = await http.post(json=body, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, REFUSED), body
    kind = {**session, "Content-Type": "APPLICATION/JSON"}
    answer = await http.post(content=json.dumps(_request("ping")), headers=kind)
    assert answer.status_code == 200

    uri, prompt = "foo://x", {"type": "ref/prompt", "name": "no such"}
    argument = {"name": "notebook", "value": ""}
    for method, params in (
        *((f"{kind}/list", {"cursor": "bogus"}) for kind in ("tools", "prompts", "resources")),
        ("resources/templates/list", {"cursor": "1"}),
        ("resources/subscribe", {"uri": uri}),
        ("completion/complete", {"ref": prompt, "argument": argument}),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": uri}, "argument": argument},
        ),
    ):
        answer = (await http.post(json=_request(method, **params), headers=session)).json()
        assert answer["error"]["code"] in (-32602, -32002), (method, answer)

    huge = _request(
        "tools/call", name="undo", arguments={"checkpoint": 2**63, "notebook": "n.ipynb"}
    )
    result = (await http.post(json=huge, headers=session)).json()["result"]
    assert result["structuredContent"]["error"]["code"] == "invalid_arguments"


@pytest.mark.proves("mcp:requests-refused")
async def test_a_second_request_of_one_id_is_refused_and_the_first_is_answered(
    http: Any, probe: Probe
) -> None:
    session = await _open(http)
    waiting = _request("tools/call", 5, name="probe_wait")
    first = asyncio.create_task(http.post(json=waiting, headers=session))
    await asyncio.wait_for(probe.started.wait(), 30)
    for request_id in (5, "5"):
        second = await http.post(json=_request("ping", request_id), headers=session)
        assert (second.status_code, second.json()["error"]["code"]) == (400, REFUSED)
    assert not first.done()
    probe.release.set()
    assert (await first).json()["id"] == 5
    assert (await http.post(json=_request("ping", 5), headers=session)).status_code == 200


@pytest.mark.proves("mcp:sessions")
async def test_a_client_that_reconnects_gets_its_stream(http: Any, probe: Probe) -> None:
    session = await _open(http)
    async with http.stream(headers=session) as old:
        assert old.status_code == 200
        async with http.stream(headers=session) as new:
            assert new.status_code == 200
            async with asyncio.timeout(30):
                assert not [chunk async for chunk in old.aiter_raw() if b"data" in chunk]
            assert await _is_there(http, session)


async def test_a_notebook_that_was_never_used_is_not_released(http: Any, probe: Probe) -> None:
    session = await _open(http)
    for name in ("never.ipynb", ""):
        call = _request("tools/call", name="unuse_notebook", arguments={"notebook": name})
        result = (await http.post(json=call, headers=session)).json()["result"]
        assert result["isError"], result
