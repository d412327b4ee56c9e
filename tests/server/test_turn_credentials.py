"""A call of an agent belongs to its turn by the turn's credential, whichever way it comes in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import nbformat
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tornado.httpclient import HTTPResponse
from traitlets.config import Config

from tests.server.conftest import Ask, with_model
from tests.server.test_users import TOKENS, TwoUsers
from tests.support.chat_requests import parse_request
from tests.support.echo_agent import EchoBackend
from tk_ai_extension.agent.chat import ChatServices, ChatSettings
from tk_ai_extension.agent.chats import Chats, StartedTurn
from tk_ai_extension.agent.events import Event
from tk_ai_extension.agent.store import ChatStore
from tk_ai_extension.mcp import TURN
from tk_ai_extension.model.agent_errors import InvalidTurnCredential

INSERT = 'call insert_cell {"source": "b = 1"}'
MCP = "api/tk-ai/mcp"
ADA, BOB = (
    next(token for token, name in TOKENS.items() if name == user) for user in ("ada", "bob")
)


@pytest.fixture
def jp_server_config(jp_server_config: Config, tmp_path: Path) -> Config:
    jp_server_config.ServerApp.identity_provider_class = TwoUsers
    return with_model(jp_server_config, tmp_path / "state")


class Agents:
    """The chats of a server with an agent whose calls come in one way or the other."""

    def __init__(self, chats: Chats, backend: EchoBackend) -> None:
        self.chats = chats
        self.backend = backend

    async def send(self, message: str, **fields: Any) -> StartedTurn:
        return await self.chats.send("ada", parse_request({"message": message, **fields}))


@pytest.fixture
def address(extension: Any, jp_base_url: str, jp_http_port: int) -> str:
    return f"http://127.0.0.1:{jp_http_port}{jp_base_url}{MCP}"


async def call_over_http(
    address: str, headers: Mapping[str, str], tool: str, arguments: Mapping[str, Any], mode: str
) -> types.CallToolResult:
    async with httpx2.AsyncClient(headers=dict(headers), timeout=30) as http:
        transport = streamable_http_client(address, http_client=http)
        async with Client(transport, mode=mode) as client:
            return await client.call_tool(tool, dict(arguments))


@pytest.fixture(params=["in-process", "http legacy", "http auto"])
async def agents(
    request: pytest.FixtureRequest, extension: Any, address: str, tmp_path: Path
) -> AsyncIterator[Agents]:
    async def over_http(
        token: str, _call: str, tool: str, arguments: Mapping[str, Any]
    ) -> types.CallToolResult:
        headers = {"Authorization": f"token {ADA}", TURN: token}
        return await call_over_http(address, headers, tool, arguments, request.param.split()[1])

    backend = EchoBackend(call=None if request.param == "in-process" else over_http)
    services = ChatServices(
        workspace=extension.workspace,
        registry=await extension.services.tools(),
        store=ChatStore(tmp_path / "chats.sqlite"),
        backend=backend,
        settings=ChatSettings(),
    )
    agents = Agents(Chats(services), backend)
    yield agents
    await agents.chats.close()


async def rest(started: StartedTurn) -> list[Event]:
    async with asyncio.timeout(40):
        return [event async for event in started.events]


def sources(root: Path, notebook: str) -> list[str]:
    return [cell.source for cell in nbformat.read(root / notebook, as_version=4).cells]


async def test_a_turn_is_undone_whichever_way_its_calls_come_in(
    agents: Agents, notebook: str, jp_root_dir: Path
) -> None:
    before = sources(jp_root_dir, notebook)
    started = await agents.send(INSERT, notebook=notebook, mode="auto")
    events = await rest(started)
    (called,) = [event for event in events if event.kind == "tool_call"]
    (result,) = [event for event in events if event.kind == "tool_result"]
    (change,) = [event for event in events if event.kind == "cell_change"]
    assert result.data["ok"]
    assert called.data["call"] == result.data["call"] == change.data["call"]
    assert sources(jp_root_dir, notebook) == [*before, "b = 1"]
    await agents.chats.undo_turn("ada", started.chat, turn=started.turn)
    assert sources(jp_root_dir, notebook) == before


async def test_the_person_approves_in_the_chat_whichever_way_the_call_comes_in(
    agents: Agents, extension: Any, notebook: str, jp_root_dir: Path
) -> None:
    started = await agents.send(INSERT, notebook=notebook, mode="ask")
    asked = 0
    async with asyncio.timeout(40):
        async for event in started.events:
            if event.kind == "permission":
                asked += 1
                assert "b = 1" not in sources(jp_root_dir, notebook)
                extension.workspace.policy.answer("ada", event.data["id"], "once")
    assert asked == 1
    assert sources(jp_root_dir, notebook)[-1] == "b = 1"


@pytest.mark.proves("perm:modes", "mcp:permission-required")
async def test_an_agent_answers_neither_a_request_nor_a_plan(
    agents: Agents, ask: Ask, notebook: str, jp_root_dir: Path
) -> None:
    started = await agents.send(INSERT, notebook=notebook, mode="ask")
    login = {"Authorization": f"token {ADA}"}
    answers = {"answer": "once"}, {"plan": started.turn, "answer": "approve", "mode": "auto"}
    asked = 0
    async with asyncio.timeout(40):
        async for event in started.events:
            if event.kind != "permission":
                continue
            asked += 1
            paths = (
                f"api/tk-ai/permissions/{event.data['id']}",
                f"api/tk-ai/chats/{started.chat}/plan",
            )
            turn = {"turn": started.turn}
            refusals = (
                *zip(paths, answers, strict=True),
                ("api/tk-ai/mcp/chat", {"message": "Hi.", "mode": "auto", "notebook": notebook}),
                (f"api/tk-ai/chats/{started.chat}/restore", turn),
            )
            for token in (agents.backend.credentials[-1].token, "made-up"):
                for path, answer in refusals:
                    refused = await ask("POST", path, answer, **login, **{TURN: token})
                    assert (refused.code, code_of(refused)) == (403, "forbidden")
            assert "b = 1" not in sources(jp_root_dir, notebook)
            assert (await ask("POST", paths[0], answers[0], **login)).code == 200
    assert asked == 1
    assert sources(jp_root_dir, notebook)[-1] == "b = 1"


def code_of(response: HTTPResponse) -> str:
    return json.loads(response.body)["error"]["code"]


async def test_calls_of_a_stopped_turn_are_stopped_on_every_interface(
    agents: Agents, notebook: str, jp_root_dir: Path
) -> None:
    before = sources(jp_root_dir, notebook)
    started = await agents.send(INSERT, notebook=notebook, mode="ask")
    async with asyncio.timeout(40):
        async for event in started.events:
            if event.kind == "permission":
                await agents.chats.stop("ada", started.chat)
    assert event.data["end"] == "stopped"
    assert sources(jp_root_dir, notebook) == before


async def test_after_its_turn_a_credential_is_refused(
    agents: Agents, extension: Any, ask: Ask, notebook: str, jp_root_dir: Path
) -> None:
    started = await agents.send("wait", notebook=notebook, mode="auto")
    async with asyncio.timeout(40):
        async for event in started.events:
            if event.kind == "text":
                break
    (credential,) = agents.backend.credentials
    turns = extension.workspace.turns
    assert turns.turn_of(credential.token, "ada").caller.turn == started.turn
    with pytest.raises(InvalidTurnCredential):
        turns.turn_of(credential.token, "bob")
    assert await refusal(ask, BOB, credential.token) == (401, "invalid_turn_credential")

    await agents.chats.stop("ada", started.chat)
    await rest(started)
    for token in (credential.token, "made-up", ""):
        assert await refusal(ask, ADA, token) == (401, "invalid_turn_credential")
        response = await ask(
            "POST",
            "api/tk-ai/tools/insert_cell",
            {"notebook": notebook, "source": "b = 1"},
            Authorization=f"token {ADA}",
            **{TURN: token},
        )
        error = json.loads(response.body)["error"]
        assert (response.code, error["code"]) == (401, "invalid_turn_credential")
    assert "b = 1" not in sources(jp_root_dir, notebook)
    assert credential.token not in repr(credential)


async def refusal(ask: Ask, user: str, token: str) -> tuple[int, str]:
    """The status and the code with which a call over MCP is refused."""
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "insert_cell",
            "arguments": {"notebook": "plan.ipynb", "source": "b = 1"},
        },
    }
    response = await ask(
        "POST",
        MCP,
        call,
        Authorization=f"token {user}",
        Accept="application/json, text/event-stream",
        **{TURN: token},
    )
    return response.code, json.loads(response.body)["error"]["data"]["error"]["code"]
