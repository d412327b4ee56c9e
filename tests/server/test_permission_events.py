"""Permission requests as a stream of events: each request, and how it ended."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any

import httpx2
import jsonschema
import nbformat
import pytest
from traitlets.config import Config

from tests.server.conftest import Ask, Call
from tests.server.test_users import ServesTwoUsers, headers_of
from tests.servers import StartServer

PATH = "api/tk-ai/permissions"
DEADLINE = 30.0

Events = AsyncGenerator[dict[str, Any]]
Follow = Callable[..., AbstractAsyncContextManager[Events]]


@pytest.fixture
def jp_server_config(jp_server_config: Config) -> Config:
    jp_server_config.TkAIExtensionApp.mode_cap = "ask"
    return jp_server_config


@pytest.fixture
async def follow(
    ask: Ask, jp_auth_header: dict[str, str], jp_base_url: str, jp_http_port: int
) -> Follow:
    """Follows the requests of a user; each event is as the description says."""
    described = await ask("GET", "api/tk-ai/openapi.json", **jp_auth_header)
    content = json.loads(described.body)["paths"][f"/{PATH}"]["get"]["responses"]["200"]["content"]
    schema = content["text/event-stream"]["schema"]["properties"]["data"]["contentSchema"]

    @asynccontextmanager
    async def following(headers: dict[str, str] = jp_auth_header) -> AsyncGenerator[Events]:
        address = f"http://127.0.0.1:{jp_http_port}{jp_base_url}{PATH}"
        async with stream(address, headers, schema) as events:
            yield events

    return following


@asynccontextmanager
async def stream(
    address: str, headers: dict[str, str], schema: dict[str, Any]
) -> AsyncGenerator[Events]:
    async def read(response: httpx2.Response) -> Events:
        kind = ""
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                event = json.loads(line.removeprefix("data: "))
                jsonschema.validate(event, schema)
                assert event["kind"] == kind
                yield event

    asking = {**headers, "Accept": "text/event-stream"}
    async with (
        httpx2.AsyncClient(headers=asking, timeout=DEADLINE) as http,
        http.stream("GET", address) as response,
        aclosing(read(response)) as events,
    ):
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        yield events


@pytest.mark.proves("mcp:permission-required")
async def test_each_request_and_its_outcome_are_published_to_all_followers(
    ask: Ask, call: Call, follow: Follow, notebook: str, jp_auth_header: dict[str, str]
) -> None:
    cell = {"notebook": notebook, "cell": "prints00"}
    waits = (await call("execute_cell", **cell))[1]["error"]["details"]["permission_id"]
    async with follow() as one, follow() as other:
        pages = (one, other)
        for events in pages:
            (first,) = (await anext(events))["permissions"]
            assert (first["id"], first["caller"], first["interface"]) == (waits, "me", "rest")
            assert "6 * 7" in first["preview"]
        await call("insert_cell", "nightly", notebook=notebook, source="new = 1")
        for events in pages:
            second = (await anext(events))["permission"]
            assert (second["caller"], second["tool"]) == ("nightly", "insert_cell")
        for permission, answer in ((second["id"], "deny"), (waits, "once")):  # pyrefly: ignore[unbound-name]
            await ask("POST", f"{PATH}/{permission}", {"answer": answer}, **jp_auth_header)
            for events in pages:
                assert await anext(events) == {
                    "kind": "settled",
                    "id": permission,
                    "outcome": answer,
                }
    assert (await call("execute_cell", **cell))[0] == 200


class TestExpiry:
    @pytest.fixture
    def jp_server_config(self, jp_server_config: Config) -> Config:
        jp_server_config.TkAIExtensionApp.permission_keep = 0.5
        return jp_server_config

    @pytest.mark.proves("mcp:permission-required")
    async def test_a_request_that_nobody_answers_expires_and_that_is_published(
        self, call: Call, follow: Follow, notebook: str
    ) -> None:
        async with follow() as events:
            await anext(events)
            await call("insert_cell", notebook=notebook, source="new = 1")
            asked = (await anext(events))["permission"]
            assert await anext(events) == {
                "kind": "settled",
                "id": asked["id"],
                "outcome": "expired",
            }


class TestTwoUsers(ServesTwoUsers):
    @pytest.mark.proves("ext:multi-user", "threat:other-user")
    async def test_each_user_receives_only_their_own_requests(
        self, ask: Ask, call: Call, follow: Follow, notebook: str
    ) -> None:
        insert = {"notebook": notebook, "source": "adas = 1"}
        async with follow() as adas, follow(headers_of("bob")) as bobs:
            assert (await anext(adas))["permissions"] == []
            assert (await anext(bobs))["permissions"] == []
            await call("insert_cell", **insert)
            permission = (await anext(adas))["permission"]["id"]
            body = {"answer": "once"}
            refused = await ask("POST", f"{PATH}/{permission}", body, **headers_of("bob"))
            assert refused.code == 404
            await ask("POST", f"{PATH}/{permission}", body, **headers_of("ada"))
            assert (await anext(adas))["outcome"] == "once"
            # The first request that Bob receives is his own.
            theirs = {**insert, "source": "bobs = 1"}
            await ask("POST", "api/tk-ai/tools/insert_cell", theirs, **headers_of("bob"))
            assert "bobs = 1" in (await anext(bobs))["permission"]["preview"]


@pytest.mark.proves("fault:server-stop")
async def test_a_server_that_stops_ends_its_streams(start_server: StartServer) -> None:
    server = await start_server(config="c.TkAIExtensionApp.mode_cap = 'ask'\n")
    nbformat.write(nbformat.v4.new_notebook(), server.root / "plan.ipynb")
    async with stream(f"{server.url}{PATH}", server.headers, {}) as events:
        assert (await anext(events))["permissions"] == []
        async with httpx2.AsyncClient(headers=server.headers, timeout=DEADLINE) as http:
            insert = {"notebook": "plan.ipynb", "source": "1"}
            await http.post(f"{server.url}api/tk-ai/tools/insert_cell", json=insert)
        assert (await anext(events))["kind"] == "asked"
        assert await server.stop() == 0
        with pytest.raises((StopAsyncIteration, httpx2.RemoteProtocolError)):
            await anext(events)
    assert "tk_ai_extension/" not in server.log.text.partition("Traceback")[2]
