"""The form of an answer: JSON where the answer is all there is to say, else a stream."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import mcp_types as types
import pytest

from tests.mcp.conftest import LEGACY, Connect
from tests.mcp.probes.tools import Probe
from tk_ai_extension.mcp.single_response import SingleResponse

DEADLINE = 10
JSON, STREAM = "application/json", "text/event-stream"


class Answers:
    """The answers to a client's requests, as they arrive over HTTP."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.lines: set[Any] = set()

    async def __call__(self, response: httpx2.Response) -> None:
        if response.request.method == "POST" and response.status_code == 200:
            self.kinds.append(response.headers["Content-Type"].partition(";")[0])
            self.lines.add(response.extensions["network_stream"].get_extra_info("client_addr"))

    @property
    def options(self) -> dict[str, Any]:
        """What has a client's answers noted here."""
        return {"event_hooks": {"response": [self]}}


@pytest.mark.proves("mcp:http")
async def test_calls_that_only_answer_are_answered_in_json_over_kept_connections(
    connect: Connect, probe: Probe
) -> None:
    answers = Answers()
    async with asyncio.timeout(DEADLINE), connect(http=answers.options) as client:
        for greeting in ("one", "two\u2028lines\nand more", "three", "four"):
            result = await client.call_tool("probe_say", {"greeting": greeting})
            assert result.structured_content is not None
            assert result.structured_content["greeting"] == greeting
        assert (await client.call_tool("probe_fail", {})).is_error
    assert set(answers.kinds) == {JSON}
    # Connecting may have opened two, for a request and a notification at once.
    assert len(answers.lines) <= 2 < len(answers.kinds)


@pytest.mark.proves("mcp:progress")
async def test_a_call_that_reports_progress_is_answered_by_a_stream(
    connect: Connect, probe: Probe
) -> None:
    received: list[str | None] = []

    async def receive(
        progress: float,
        total: float | None,
        message: str | None,
    ) -> None:
        received.append(message)

    probe.release.set()
    answers = Answers()
    async with asyncio.timeout(DEADLINE), connect(http=answers.options) as client:
        await client.call_tool("probe_say", {}, progress_callback=receive)
        await client.call_tool("probe_wait", {"reports": 3}, progress_callback=receive)
    assert answers.kinds[-2:] == [JSON, STREAM]
    assert received == ["report 0", "report 1", "report 2"]


@pytest.mark.proves("mcp:logging-ping")
@pytest.mark.parametrize("era", [LEGACY], indirect=True)
async def test_a_call_with_a_log_message_is_answered_by_a_stream(
    connect: Connect, probe: Probe
) -> None:
    async def receive(params: types.LoggingMessageNotificationParams) -> None:
        received.append(params.data)

    received: list[Any] = []
    level = types.SetLevelRequest(params=types.SetLevelRequestParams(level="warning"))
    answers = Answers()
    async with (
        asyncio.timeout(DEADLINE),
        connect(http=answers.options, logging_callback=receive) as client,
    ):
        await client.session.send_request(level, types.EmptyResult)
        await client.call_tool("probe_say", {})
        await client.call_tool("probe_fail", {})
    assert answers.kinds[-2:] == [JSON, STREAM]
    assert [data["tool"] for data in received] == ["probe_fail"]


# -- piece by piece


HEAD = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream"), (b"mcp-session-id", b"s")],
}
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}'


def event(data: bytes) -> bytes:
    return b"event: message\r\ndata: " + data + b"\r\n\r\n"


async def sent(*pieces: bytes) -> tuple[dict[bytes, bytes], list[bytes]]:
    """The headers and pieces that go out when an application sends these in a stream."""
    out: list[Any] = []

    async def send(message: Any) -> None:
        out.append(message)

    answer = SingleResponse(send)
    await answer(HEAD | {"headers": list(HEAD["headers"])})
    for piece in pieces:
        await answer({"type": "http.response.body", "body": piece, "more_body": True})
    await answer({"type": "http.response.body", "body": b"", "more_body": False})
    assert [message["more_body"] for message in out[1:]] == [True] * (len(out) - 2) + [False]
    return dict(out[0]["headers"]), [message["body"] for message in out[1:]]


async def test_an_answer_alone_is_json_with_its_length_and_its_session() -> None:
    headers, pieces = await sent(event(ANSWER))
    assert pieces == [ANSWER]
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"content-length"] == str(len(ANSWER)).encode()
    assert headers[b"mcp-session-id"] == b"s"


@pytest.mark.parametrize(
    "first",
    [
        event(PROGRESS),
        b": ping - 2026-01-01\r\n\r\n",
        b"id: 1\r\n" + event(ANSWER),
        event(b"[]\r\ndata: []"),
        b"",
    ],
    ids=["notification", "comment", "to be resumed", "two lines", "nothing"],
)
async def test_a_response_with_more_than_the_answer_stays_a_stream(first: bytes) -> None:
    headers, pieces = await sent(first, event(ANSWER))
    assert headers == dict(HEAD["headers"])
    assert pieces == [first, event(ANSWER), b""]


async def test_a_stream_that_ends_without_a_word_ends() -> None:
    headers, pieces = await sent()
    assert headers[b"content-type"] == b"text/event-stream"
    assert pieces == [b""]
