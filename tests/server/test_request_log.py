"""A token in a request's address is in no line of the server's log."""

from __future__ import annotations

import pytest
from tornado.httpclient import AsyncHTTPClient, HTTPRequest

from tests.servers import StartServer, start_server

__all__ = ["start_server"]

REQUESTS = [
    # The status, the method, the path and a header with its value.
    (200, "GET", "api/tk-ai/health", {}),
    (403, "GET", "api/tk-ai/health", {"Origin": "https://elsewhere.example"}),
    (404, "GET", "api/contents/nowhere.ipynb", {}),
    (404, "GET", "nowhere", {}),
    (404, "GET", "api/kernels/00000000-0000-4000-8000-000000000000", {}),
    (400, "POST", "api/kernels", {}),
    (415, "POST", "api/tk-ai/tools/list_kernels", {"Content-Type": "text/plain"}),
    (405, "DELETE", "api/tk-ai/health", {}),
]


@pytest.mark.proves("threat:secrets")
async def test_no_failed_request_writes_its_token_down(start_server: StartServer) -> None:
    server = await start_server("--ServerApp.log_level=DEBUG")
    client = AsyncHTTPClient()
    before = len(server.log.lines)
    for status, method, path, headers in REQUESTS:
        address = f"{server.url}{path}?token={server.token}"
        request = HTTPRequest(
            address,
            method,
            {"Authorization": f"token {server.token}", "Referer": address, **headers},
            body="x" if method == "POST" else None,
        )
        response = await client.fetch(request, raise_error=False)
        assert response.code == status, (response.code, method, path, response.body)
    await server.log.line("405 DELETE")
    written = [line for line in server.log.lines[before:] if server.token in line]
    assert written == []
