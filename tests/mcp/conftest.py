"""The official client against the extension in a real server, in both eras of the protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from traitlets.config import Config

from tests.mcp.probes.tools import Probe
from tk_ai_extension.tools import registry
from tk_ai_extension.workspace.workspace import Workspace

LEGACY, MODERN = "legacy", "auto"
"""The client's modes: the handshake and sessions of 2025-11-25, or the newest that there is."""

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(params=[LEGACY, MODERN])
def era(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def jp_server_config(jp_server_config: Config, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setitem(registry.TOOLSETS, "probes", "tests.mcp.probes")
    jp_server_config.ServerApp.jpserver_extensions = {
        "jupyter_server_nbmodel": True,
        "tk_ai_extension": True,
    }
    jp_server_config.TkAIExtensionApp.toolsets = ["default", "probes"]
    return jp_server_config


@pytest.fixture
def extension(jp_serverapp: Any, http_server_client: Any) -> Any:
    """The extension of a server that listens."""
    (app,) = jp_serverapp.extension_manager.extension_apps["tk_ai_extension"]
    return app


@pytest.fixture
def workspace(extension: Any) -> Workspace:
    return extension.workspace


@pytest.fixture
def probe(workspace: Any) -> Probe:
    workspace.probe = Probe()
    return workspace.probe


@pytest.fixture
def address(extension: Any, jp_base_url: str, jp_http_port: int) -> str:
    return f"http://127.0.0.1:{jp_http_port}{jp_base_url}api/tk-ai/mcp"


@pytest.fixture
def connect(address: str, jp_auth_header: dict[str, str], era: str, probe: Probe) -> Connect:
    """Connects the official client; keywords are the client's, ``query`` is the address's.

    ``http`` has options for the HTTP client below it.
    """

    @asynccontextmanager
    async def connected(
        query: str = "",
        headers: dict[str, str] | None = None,
        http: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> AsyncGenerator[Client]:
        async with httpx2.AsyncClient(
            headers={**jp_auth_header, **(headers or {})}, timeout=30, **(http or {})
        ) as http_client:
            transport = streamable_http_client(f"{address}{query}", http_client=http_client)
            options.setdefault("mode", era)
            async with Client(transport, **options) as client:
                assert client.protocol_version == ("2025-11-25" if era == LEGACY else "2026-07-28")
                yield client

    return connected
