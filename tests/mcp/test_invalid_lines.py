"""Nonsense in a line: whatever asks for a response gets one, and the connection goes on."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import httpx2
import nbformat
import pytest

from tests.cases import Cases
from tests.mcp.lines import Lines, open_lines
from tests.mcp.test_callers import INITIALIZE
from tests.mcp.test_invalid_requests import BODIES

DEADLINE = 30
PING = {"jsonrpc": "2.0", "method": "ping"}
HALF = "\ud83d"
"""Half an emoji, which JSON can hold."""


def nested(depth: int) -> Any:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 7, 1.5, 10**30, "", "x", HALF, f"a{HALF}b", [], [1], {}, {"id": 1}),
    *("2.0", "ping", "tools/list", "tools/call", "notifications/cancelled", "no such method"),
    *({"name": "list_files", "arguments": {}}, {"name": HALF}, {"requestId": "7"}),
    *(nested(190), nested(250), nested(700), {"a": nested(300)}, {HALF: 1}),
)
NAMES = ("jsonrpc", "id", "method", "params", "result", "error", HALF)


def message(rng: random.Random, number: int) -> Any:
    """A message of which some members are nonsense, missing or too many."""
    found: dict[str, Any] = {**PING, "id": number, "params": {}}
    for _ in range(rng.randrange(1, 3)):
        name = rng.choice(NAMES)
        if rng.random() < 0.2:
            found.pop(name, None)
        else:
            found[name] = rng.choice(VALUES)
    return found if rng.random() < 0.95 else [found]


def asks(found: Any) -> bool:
    """Whether it has to be answered under its id."""
    given = found.get("id") if isinstance(found, dict) else None
    is_id = isinstance(given, str | int | float) and not isinstance(given, bool)
    return is_id and "method" in found


async def answered(lines: Lines, request_id: Any) -> Any:
    """The answer to a request; there may be others before."""
    async with asyncio.timeout(DEADLINE):
        while True:
            answer = await lines.answer()
            if "method" not in answer and answer["id"] == request_id:
                return answer


async def initialized(address: str, headers: dict[str, str]) -> Lines:
    lines = await open_lines(address, headers)
    await lines.send(json.dumps(INITIALIZE).encode())
    await answered(lines, 1)
    await lines.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    return lines


@pytest.mark.proves("mcp:stdio", "mcp:errors")
async def test_what_asks_is_answered_and_the_connection_goes_on(
    address: str, jp_auth_header: dict[str, str]
) -> None:
    lines = await initialized(address, jp_auth_header)
    rng = random.Random(6)
    with Cases() as cases:
        for number in range(1_000, 1_400):
            found = message(rng, number)
            with cases.case(found):
                await lines.send(json.dumps(found).encode())
                if asks(found):
                    # An id with half a character in it comes back with a replacement.
                    wanted = json.loads(json.dumps(found["id"]).replace("\\ud83d", "\\ufffd"))
                    answer = await answered(lines, wanted)
                    assert ("result" in answer) != ("error" in answer)
                await lines.send(json.dumps({**PING, "id": f"ping {number}"}).encode())
                assert (await answered(lines, f"ping {number}"))["result"] == {}
    lines.cut()


@pytest.mark.proves("mcp:stdio", "mcp:errors")
@pytest.mark.parametrize("begun", [False, True], ids=["first", "later"])
async def test_what_http_refuses_is_refused_in_a_line(
    address: str, jp_auth_header: dict[str, str], begun: bool
) -> None:
    with Cases() as cases:
        for body in (*BODIES, b"\r", b" "):
            with cases.case(body):
                opened = initialized if begun else open_lines
                lines = await opened(address, jp_auth_header)
                await lines.send(body)
                if body.strip():
                    async with asyncio.timeout(DEADLINE):
                        assert "error" in await lines.answer()
                # A connection that begins with nonsense is one that can begin.
                await lines.send(json.dumps({**INITIALIZE, "id": "after"}).encode())
                await answered(lines, "after")
                lines.cut()


@pytest.mark.proves("mcp:stdio", "mcp:http")
async def test_half_a_character_is_replaced_by_every_transport(
    address: str, jp_auth_header: dict[str, str], jp_root_dir: Any
) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", id="cell0000")])
    lines = await initialized(address, jp_auth_header)
    headers = {**jp_auth_header, "Accept": "application/json, text/event-stream"}
    written: dict[str, str] = {}
    async with asyncio.timeout(DEADLINE), httpx2.AsyncClient(headers=headers) as http:
        opened = await http.post(address, json=INITIALIZE)
        session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
        for transport in ("lines", "session", "no session", "REST"):
            path = f"{transport}.ipynb"
            nbformat.write(notebook, jp_root_dir / path)
            arguments = {"notebook": path, "index": 0, "source": f"x = 'a{HALF}b'"}
            params: dict[str, Any] = {"name": "insert_cell", "arguments": arguments}
            call = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}
            kind = {"Content-Type": "application/json"}
            match transport:
                case "lines":
                    await lines.send(json.dumps(call).encode())
                    answer = await answered(lines, 9)
                case "session":
                    answer = (
                        await http.post(address, content=json.dumps(call), headers=session | kind)
                    ).json()
                case "no session":
                    version = "2026-07-28"
                    params["_meta"] = {
                        "io.modelcontextprotocol/protocolVersion": version,
                        "io.modelcontextprotocol/clientCapabilities": {},
                    }
                    named = {
                        "MCP-Protocol-Version": version,
                        "Mcp-Method": "tools/call",
                        "Mcp-Name": "insert_cell",
                    }
                    answer = (
                        await http.post(address, content=json.dumps(call), headers=named | kind)
                    ).json()
                case _:
                    url = f"{address.removesuffix('mcp')}tools/insert_cell"
                    answer = (
                        await http.post(url, content=json.dumps(arguments), headers=kind)
                    ).json()
            assert "error" not in answer, (transport, answer)
            cells = nbformat.read(jp_root_dir / path, as_version=4).cells
            written[transport] = cells[0].source
    lines.cut()
    assert set(written.values()) == {"x = 'a\ufffdb'"}
