"""What a kernel's code sends to the chat's socket: any line is a question or a typed error."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tk_ai_extension.model.json_values import Json
from tk_ai_extension.server.kernel_chat_server import (
    CREDENTIAL,
    SOCKET,
    JsonLineConnection,
    KernelChatServer,
)

pytestmark = pytest.mark.proves("text:encodable")

DEADLINE = 60
HALF = "\ud83d"

_TEXTS = st.text(st.characters(codec=None) | st.sampled_from("\ud83d\ude00a\0"), max_size=8)
_VALUES = st.none() | st.integers() | _TEXTS | st.lists(_TEXTS) | st.dictionaries(_TEXTS, _TEXTS)


@pytest.fixture
async def served() -> AsyncIterator[tuple[str, str]]:
    """The address of a socket whose server returns each question and answer, and a credential."""

    async def answer(_: str, question: Json, connection: JsonLineConnection) -> None:
        given: Json | None = question
        while given is not None:
            json.dumps(given, ensure_ascii=False).encode()
            await connection.send({"received": given})
            given = await connection.receive()

    async def no_process(_: str) -> None:
        """The process of the kernel is unknown."""

    server = KernelChatServer(answer, no_process)
    environment = await server.issue("k1")
    yield environment[SOCKET], environment[CREDENTIAL]
    await server.close()


async def sent(address: str, *lines: object) -> list[Any]:
    """Send lines and return the responses."""
    reader, writer = await asyncio.open_unix_connection(address)
    writer.writelines(json.dumps(line).encode() + b"\n" for line in lines)
    writer.write_eof()
    async with asyncio.timeout(DEADLINE):
        answers = (await reader.read()).splitlines()
    writer.close()
    await writer.wait_closed()
    return [json.loads(each) for each in answers]


@given(_VALUES, st.dictionaries(_TEXTS, _VALUES, max_size=3))
@example(HALF, {})
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_credential_is_unknown_and_any_text_can_be_encoded(
    served: tuple[str, str], credential: Any, more: dict[str, Any]
) -> None:
    address, known = served
    (answer,) = await sent(address, {**more, "credential": credential})
    assert answer["error"]["code"] == "permission_denied"
    question, reply = await sent(address, {**more, "credential": known}, more)
    assert "received" in question
    assert "received" in reply


async def test_half_a_pair_is_no_bug_and_is_replaced(
    served: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    address, known = served
    with caplog.at_level(logging.ERROR):
        (answer,) = await sent(address, {"credential": HALF, "message": "x"})
        (asked,) = await sent(address, {"credential": known, "message": HALF, "error": HALF})
    assert answer["error"]["code"] == "permission_denied"
    assert asked == {"received": dict.fromkeys(("message", "error"), "\N{REPLACEMENT CHARACTER}")}
    assert caplog.records == []
