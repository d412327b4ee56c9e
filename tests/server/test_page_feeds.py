"""The channels of pages at their end, and what a page may name in a subscription."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.server.test_event_channel import OpenPage, open_page
from tk_ai_extension.model.errors import ToolError

__all__ = ["open_page"]


@pytest.mark.proves("rest:call")
async def test_whatever_a_page_names_is_no_failure_of_the_server(
    open_page: OpenPage, caplog: pytest.LogCaptureFixture, notebook: str
) -> None:
    page = await open_page("page")
    number = await page.subscribe(permissions=True)
    assert (await page.next(number))["reset"] is True
    assert (await page.next(number))["event"]["kind"] == "waiting"
    for after in (10**4000, -1, True, 1.5, [], {}, "", "-", "\ud800-1"):
        for topic in ({"permissions": True}, {"changes": notebook}, {"chat": "missing"}):
            message = await page.next(await page.subscribe(after=after, **topic))
            if "chat" in topic:
                assert message["error"]["code"] == "chat_not_found", after
            else:
                assert message.get("reset") is True, after
    for text in ("\ud800", "a\udfff.ipynb", "a\x00.ipynb", "x" * 100_000, "../a.ipynb", ""):
        for topic in ({"changes": text}, {"chat": text}):
            message = await page.next(await page.subscribe(**topic))
            error = message.get("error", {"code": "none", "retryable": False})
            assert (error["code"] == ToolError.code, error["retryable"]) == (False, False), topic
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_failure_of_the_server_may_be_tried_again(
    open_page: OpenPage, extension: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def follow(_user: str) -> AsyncIterator[Any]:
        raise RuntimeError("It broke.")
        yield

    monkeypatch.setattr(extension.services.workspace.policy, "follow", follow)
    page = await open_page("page")
    number = await page.subscribe(permissions=True)
    assert (await page.next(number))["reset"] is True
    message = await page.next(number)
    error = message["error"]
    assert (error["retryable"], "details" in error, "broke" in str(error)) == (True, False, False)
    assert message["status"] == 500
