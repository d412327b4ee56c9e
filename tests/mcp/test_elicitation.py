"""Where the mode asks: a person at a client that can show a form is asked within the call."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from getpass import getuser
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from traitlets.config import Config

from tests.mcp.conftest import LEGACY, Connect
from tests.mcp.probes.tools import Probe


@pytest.fixture
def jp_server_config(jp_server_config: Config) -> Config:
    jp_server_config.TkAIExtensionApp.mode_cap = "ask"
    return jp_server_config


class Person:
    """Answers forms."""

    def __init__(self, *answers: types.ElicitResult) -> None:
        self._answers = list(answers)
        self.asked: list[types.ElicitRequestFormParams] = []

    async def __call__(self, _context: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params)
        return self._answers.pop(0)


def accept(answer: str) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"answer": answer})


@pytest.mark.proves("mcp:elicitation")
async def test_a_person_who_agrees_lets_the_call_run(connect: Connect, probe: Probe) -> None:
    probe.release.set()
    person = Person(accept("once"))
    async with connect("?caller=me", elicitation_callback=person) as client:
        result = await client.call_tool("probe_wait", {"notebook": "plan.ipynb"})
    assert not result.is_error, result
    (form,) = person.asked
    assert "probe_wait" in form.message
    assert "plan.ipynb" in form.message
    assert form.requested_schema["properties"]["answer"]["enum"] == [
        "once",
        "chat",
        "chat_tool",
        "notebook",
        "notebook_tool",
        "deny",
    ]


@pytest.mark.proves("mcp:elicitation")
async def test_once_is_once_and_a_session_is_for_the_session(
    connect: Connect, probe: Probe
) -> None:
    probe.release.set()
    person = Person(accept("once"), accept("chat"))
    async with connect("?caller=me", elicitation_callback=person) as client:
        for _ in range(4):
            assert not (await client.call_tool("probe_wait", {})).is_error
    assert len(person.asked) == 2


@pytest.mark.proves("mcp:elicitation")
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (accept("deny"), "permission_denied"),
        (accept("whatever you like"), "permission_denied"),
        (types.ElicitResult(action="decline"), "permission_denied"),
        (types.ElicitResult(action="cancel"), "permission_required"),
    ],
)
async def test_a_person_who_does_not_agree_stops_the_call(
    connect: Connect, probe: Probe, answer: types.ElicitResult, code: str
) -> None:
    async with connect("?caller=me", elicitation_callback=Person(answer)) as client:
        result = await client.call_tool("probe_wait", {})
    assert result.structured_content["error"]["code"] == code
    assert not probe.started.is_set()


@pytest.mark.proves("mcp:elicitation")
@pytest.mark.parametrize("era", [LEGACY], indirect=True)
async def test_a_request_stays_pending_when_its_client_disconnects(
    connect: Connect, probe: Probe, workspace: Any
) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()
    calls: list[asyncio.Task[Any]] = []

    async def think(_context: Any, _params: Any) -> types.ElicitResult:
        asked.set()
        await answered.wait()
        return accept("once")

    async with asyncio.timeout(30):
        with suppress(BaseExceptionGroup, asyncio.CancelledError):
            async with connect(elicitation_callback=think) as client:
                calls.append(asyncio.create_task(client.call_tool("probe_wait", {})))
                await asked.wait()
                raise ConnectionError
        (request,) = workspace.policy.pending(_user())
        await asyncio.gather(*calls, return_exceptions=True)
    assert request.tool == "probe_wait"
    assert not probe.started.is_set()


@pytest.mark.proves("mcp:elicitation")
async def test_a_client_that_cannot_ask_after_all_is_one_without_a_person(
    connect: Connect, probe: Probe, era: str
) -> None:
    async def fail(_context: Any, _params: Any) -> types.ErrorData:
        return types.ErrorData(code=types.INTERNAL_ERROR, message="no screen")

    async with connect("?caller=me", elicitation_callback=fail) as client:
        if era == LEGACY:
            result = await client.call_tool("probe_wait", {})
            assert result.structured_content["error"]["code"] == "permission_required"
        else:  # there the client itself gives up
            with pytest.raises(MCPError, match="no screen"):
                await client.call_tool("probe_wait", {})
    assert not probe.started.is_set()


@pytest.mark.proves("mcp:permission-required")
async def test_where_nobody_can_be_asked_the_answer_names_the_request(
    connect: Connect, probe: Probe, workspace: Any
) -> None:
    async with connect("?caller=me") as client:
        arguments = {"notebook": "plan.ipynb"}
        error = (await client.call_tool("probe_wait", arguments)).structured_content["error"]
        assert error["code"] == "permission_required"
        assert not probe.started.is_set()

        (request,) = workspace.policy.pending(_user())
        assert request.id == error["details"]["permission_id"]
        workspace.policy.answer(request.caller.user, request.id, "once")

        probe.release.set()
        other = await client.call_tool("probe_wait", {"notebook": "other.ipynb"})
        assert other.structured_content["error"]["code"] == "permission_required"
        assert not (await client.call_tool("probe_wait", arguments)).is_error
        again = await client.call_tool("probe_wait", arguments)
        assert again.structured_content["error"]["code"] == "permission_required"


def _user() -> str:
    """The one user of a server that does not distinguish users."""
    return getuser()
