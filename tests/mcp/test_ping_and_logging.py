"""Ping and log messages, where the protocol has them."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from tests.mcp.conftest import LEGACY, Connect
from tests.mcp.probes.tools import Probe


class Log:
    """The log messages that the client received."""

    def __init__(self) -> None:
        self.messages: list[types.LoggingMessageNotificationParams] = []

    async def __call__(self, params: types.LoggingMessageNotificationParams) -> None:
        self.messages.append(params)


@pytest.mark.proves("mcp:http")
@pytest.mark.parametrize("era", [LEGACY], indirect=True)
async def test_a_session_can_be_pinged(connect: Connect, probe: Probe) -> None:
    async with connect() as client:
        answer = await client.session.send_request(types.PingRequest(), types.EmptyResult)
    assert isinstance(answer, types.EmptyResult)


async def _set_level(client: Any, era: str, level: types.LoggingLevel) -> None:
    if era == LEGACY:
        await client.session.send_request(
            types.SetLevelRequest(params=types.SetLevelRequestParams(level=level)),
            types.EmptyResult,
        )


@pytest.mark.proves("mcp:http")
async def test_a_client_that_sets_a_log_level_gets_messages_of_that_level_and_above(
    connect: Connect, probe: Probe, era: str
) -> None:
    log = Log()
    async with connect(logging_callback=log, log_level="debug") as client:
        await _set_level(client, era, "debug")
        await client.call_tool("probe_say", {})
        await client.call_tool("probe_fail", {})
    assert [(message.level, message.data["tool"]) for message in log.messages] == [
        ("debug", "probe_say"),
        ("warning", "probe_fail"),
    ]

    log = Log()
    async with connect(logging_callback=log, log_level="warning") as client:
        await _set_level(client, era, "warning")
        await client.call_tool("probe_say", {})
        await client.call_tool("probe_fail", {})
    assert [message.data["tool"] for message in log.messages] == ["probe_fail"]


@pytest.mark.proves("mcp:http")
async def test_a_client_that_sets_no_log_level_gets_no_messages(
    connect: Connect, probe: Probe
) -> None:
    log = Log()
    async with connect(logging_callback=log) as client:
        await client.call_tool("probe_fail", {})
    assert log.messages == []
