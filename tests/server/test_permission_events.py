"""Permission requests on the channel of a page: each request, and how it ended."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from traitlets.config import Config

from tests.server.conftest import Ask, Call
from tests.server.test_event_channel import OpenPage, open_page
from tests.server.test_users import ServesTwoUsers, headers_of

__all__ = ["open_page"]

PATH = "api/tk-ai/permissions"

Events = AsyncIterator[dict[str, Any]]
Follow = Callable[..., Awaitable[Events]]


@pytest.fixture
def jp_server_config(jp_server_config: Config) -> Config:
    jp_server_config.TkAIExtensionApp.mode_cap = "ask"
    return jp_server_config


@pytest.fixture
def follow(open_page: OpenPage, jp_auth_header: dict[str, str]) -> Follow:
    """Follows the requests of a user over a page's connection."""
    pages = itertools.count()

    async def following(headers: dict[str, str] = jp_auth_header) -> Events:
        page = await open_page(f"page{next(pages)}", headers)
        number = await page.subscribe(permissions=True)
        return (each["event"] async for each in page.messages(number) if "event" in each)

    return following


@pytest.mark.proves("mcp:permission-required")
async def test_each_request_and_its_outcome_are_published_to_all_followers(
    ask: Ask, call: Call, follow: Follow, notebook: str, jp_auth_header: dict[str, str]
) -> None:
    cell = {"notebook": notebook, "cell": "prints00"}
    waits = (await call("execute_cell", **cell))[1]["error"]["details"]["permission_id"]
    pages = [await follow(), await follow()]
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
        events = await follow()
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
        adas, bobs = await follow(), await follow(headers_of("bob"))
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
