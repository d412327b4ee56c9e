"""Invalid messages and arguments: refused with a typed error, and nothing changes."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import httpx2
import pytest

from tests.bad_input import BAD_CALLS, contents, prepare
from tests.cases import Cases
from tests.mcp.conftest import Connect

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
VERSIONS = [{}, {"MCP-Protocol-Version": "2026-07-28"}, {"MCP-Protocol-Version": "1999-01-01"}]


BODIES = (
    *(b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 50_000),
    b'{"jsonrpc": "2.0"}',
    b'{"jsonrpc": "2.0", "id": 1}',
    b'{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}',
    b'{"jsonrpc": "1.0", "id": 1, "method": "tools/list"}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "sing"}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 7}}',
    b'[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]',
)


@pytest.mark.proves("rest:call")
async def test_an_invalid_message_is_refused(address: str, jp_auth_header: dict[str, str]) -> None:
    async with httpx2.AsyncClient(headers={**jp_auth_header, **HEADERS}) as http:
        with Cases() as cases:
            for body, version in product(BODIES, VERSIONS):
                with cases.case(body, version):
                    response = await http.post(address, content=body, headers=version)
                    if response.status_code == 200:  # an opened stream says it instead
                        assert '"error"' in response.text
                    else:
                        assert 400 <= response.status_code < 500
                    assert "Traceback" not in response.text


@pytest.mark.proves("rest:call")
async def test_only_the_protocols_methods_are_answered(
    address: str, jp_auth_header: dict[str, str]
) -> None:
    async with httpx2.AsyncClient(headers={**jp_auth_header, **HEADERS}) as http:
        with Cases() as cases:
            # OPTIONS is what a browser asks in advance: without an origin it says the methods.
            for method, status in {"PUT": 405, "PATCH": 405, "OPTIONS": 204, "HEAD": 405}.items():
                with cases.case(method):
                    content = b"{}" if method != "HEAD" else None
                    response = await http.request(method, address, content=content)
                    assert response.status_code == status, response.text


@pytest.mark.proves("rest:call", "threat:path")
async def test_bad_arguments_are_typed_errors_and_change_nothing(
    connect: Connect, jp_root_dir: Path
) -> None:
    prepare(jp_root_dir)
    before = contents(jp_root_dir)
    async with connect("?caller=me") as client:
        with Cases() as cases:
            for tool, arguments, _, code in BAD_CALLS:
                with cases.case(tool, arguments):
                    result = await client.call_tool(tool, arguments)
                    assert result.is_error
                    assert result.structured_content["error"]["code"] == code
                    assert result.structured_content["error"]["hint"]
    assert contents(jp_root_dir) == before
