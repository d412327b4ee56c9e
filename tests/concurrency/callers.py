"""Callers of a server that listens: over MCP in both eras of its protocol, and over REST."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tk_ai_extension.testing.concurrency.agents import Session
from tk_ai_extension.testing.concurrency.history import Answer

TIMEOUT = 120.0
"""Seconds in which a call is answered."""


class McpSession:
    """A session of the official MCP client.

    Args:
        name: What the journal calls it.
        client: The client.
    """

    lanes = 1  # The journal has no id of a call: rows of concurrent ones would be ambiguous.

    def __init__(self, name: str, client: Client) -> None:
        self.name = name
        self._client = client

    async def call(self, tool: str, arguments: Mapping[str, Any], turn: str) -> Answer:  # noqa: ARG002
        """See `Session.call`."""
        result = await self._client.call_tool(tool, dict(arguments))
        return answer_of(result.structured_content or {})


class RestSession:
    """A program that calls tools over REST with a key.

    Args:
        key: Its ``?caller=``.
        http: A client that has the server's address and what authenticates.
    """

    lanes = 1

    def __init__(self, key: str, http: httpx2.AsyncClient) -> None:
        self.name = f"rest:{key}"
        self._key = key
        self._http = http

    async def call(self, tool: str, arguments: Mapping[str, Any], turn: str) -> Answer:  # noqa: ARG002
        """See `Session.call`."""
        response = await self._http.post(
            f"api/tk-ai/tools/{tool}", params={"caller": self._key}, json=dict(arguments)
        )
        return answer_of(response.json())


def answer_of(data: dict[str, Any]) -> Answer:
    """A structured answer, or the error in it."""
    error = data.get("error")
    if not isinstance(error, dict):
        return Answer(data)
    return Answer({}, error["code"], error.get("details") or {}, error["message"])


@asynccontextmanager
async def sessions_at(address: str, token: str) -> AsyncGenerator[list[Session]]:
    """Two sessions over MCP and two over REST, at a server's address."""
    headers = {"Authorization": f"token {token}"}
    async with (
        httpx2.AsyncClient(base_url=address, headers=headers, timeout=TIMEOUT) as http,
        _connected(address, headers, "legacy") as (legacy, its_id),
        _connected(address, {**headers, "X-TK-Caller": "modern"}, "auto") as (modern, _),
    ):
        yield [
            McpSession(f"mcp:{its_id()}", legacy),
            McpSession("mcp:modern", modern),
            RestSession("one", http),
            RestSession("two", http),
        ]


@asynccontextmanager
async def _connected(
    address: str, headers: Mapping[str, str], mode: Any
) -> AsyncGenerator[tuple[Client, Any]]:
    """A client, and what gives its session's id."""
    found: list[str] = []

    async def note(response: httpx2.Response) -> None:
        found.extend(response.headers.get_list("mcp-session-id"))

    async with httpx2.AsyncClient(
        headers=headers, timeout=TIMEOUT, event_hooks={"response": [note]}
    ) as http:
        transport = streamable_http_client(f"{address}api/tk-ai/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client, lambda: found[0]
