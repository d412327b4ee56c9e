"""A cell of 320 s, through the official client, without a compressed clock (`make soak`)."""

from __future__ import annotations

import time
from typing import Any

import httpx2
import nbformat
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.servers import StartServer, start_server

__all__ = ["start_server"]

SECONDS = 320


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.proves("exec:no-block", "exec:progress")
async def test_a_cell_of_320_seconds_reports_progress_and_completes(
    start_server: StartServer,
) -> None:
    server = await start_server()
    source = f"import time\nfor _ in range({SECONDS // 20}):\n    time.sleep(20)\nprint('done')"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbformat.write(notebook, server.root / "long.ipynb")
    reports: list[str] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append(message or "")

    headers = {"Authorization": f"Bearer {server.token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=None) as http:
        transport = streamable_http_client(f"{server.url}api/tk-ai/mcp", http_client=http)
        async with Client(transport, mode="legacy") as client:
            began = time.monotonic()
            result: Any = await client.call_tool(
                "execute_cell",
                {"notebook": "long.ipynb", "cell": 0, "wait": SECONDS + 60},
                progress_callback=report,
            )
            assert time.monotonic() - began >= SECONDS
    assert not result.is_error
    assert "done" in result.content[0].text
    assert len(reports) >= SECONDS / 10 - 2
    assert "running" in reports[-1]
