"""A client may leave at any time of its request, and a refused request has changed nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from traitlets.config import Config

from tests.server.conftest import with_model
from tests.support.scripted_model import Answer, Hang, ScriptedModel
from tk_ai_extension.model.errors import NotebookNotFound
from tk_ai_extension.server.asgi import AsgiExchange
from tk_ai_extension.server.handlers import streaming
from tk_ai_extension.server.handlers.handler import TkAIHandler
from tk_ai_extension.tools.registry import Registry

DEADLINE = 30
CHAT = "api/tk-ai/mcp/chat"
EVENTS = {"Accept": "text/event-stream"}
STOP = {"message": "Count.", "on_disconnect": "stop"}


@pytest.fixture
def jp_server_config(jp_server_config: Config, tmp_path: Path) -> Config:
    return with_model(jp_server_config, tmp_path / "state")


class Gate:
    """Holds the calls of a method.

    Attributes:
        reached: Counts the calls that are held or were.
        go_on: Releases them.
    """

    def __init__(self, patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.reached = asyncio.Semaphore(0)
        self.go_on = asyncio.Event()
        self.calls = 0
        method = getattr(owner, name)

        async def held(*args: Any, **fields: Any) -> Any:
            self.calls += 1
            self.reached.release()
            await self.go_on.wait()
            return await method(*args, **fields)

        patch.setattr(owner, name, held)


Leave = Callable[..., Awaitable[None]]


@pytest.fixture
def leave(
    extension: Any, jp_auth_header: dict[str, str], jp_base_url: str, jp_http_port: int
) -> Leave:
    """Sends a request, and disconnects while a method is held; returns when the server is done."""

    async def send(
        path: str, body: Any, owner: Any, name: str, headers: dict[str, str] | None = None
    ) -> None:
        noticed, finished = asyncio.Event(), asyncio.Event()
        content = json.dumps(body).encode()
        sent = {
            "Host": f"127.0.0.1:{jp_http_port}",
            "Content-Type": "application/json",
            "Content-Length": str(len(content)),
            **jp_auth_header,
            **(headers or {}),
        }
        lines = [f"POST {jp_base_url}{path} HTTP/1.1", *(f"{k}: {v}" for k, v in sent.items())]
        close = TkAIHandler.on_connection_close

        def on_connection_close(handler: TkAIHandler) -> None:
            close(handler)
            noticed.set()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TkAIHandler, "on_connection_close", on_connection_close)
            patch.setattr(TkAIHandler, "on_finish", lambda _: finished.set())
            gate = Gate(patch, owner, name)
            _, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
            writer.write("\r\n".join([*lines, "", ""]).encode() + content)
            async with asyncio.timeout(DEADLINE):
                await gate.reached.acquire()
                writer.close()
                await noticed.wait()
                gate.go_on.set()
                await finished.wait()

    return send


@pytest.fixture
async def http(
    extension: Any, jp_auth_header: dict[str, str], jp_base_url: str, jp_http_port: int
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that reads streams as they come."""
    address = f"http://127.0.0.1:{jp_http_port}{jp_base_url}"
    async with httpx2.AsyncClient(
        base_url=address, headers=jp_auth_header, timeout=DEADLINE
    ) as http:
        yield http


async def chats_of(http: httpx2.AsyncClient) -> list[dict[str, Any]]:
    return (await http.get("api/tk-ai/chats")).json()["chats"]


@pytest.mark.proves("rest:chat")
@pytest.mark.parametrize("stage", ["tools", "models", "chats"])
async def test_no_turn_begins_for_a_client_that_left_and_wanted_it_stopped(
    leave: Leave, extension: Any, http: httpx2.AsyncClient, model: ScriptedModel, stage: str
) -> None:
    for headers in ({}, EVENTS):
        await leave(CHAT, STOP, extension.services, stage, headers)
    assert await chats_of(http) == []
    assert model.requests == []
    assert dict(extension.services.streaming_users) == {}


@pytest.mark.proves("rest:chat")
@pytest.mark.parametrize("headers", [{}, EVENTS], ids=["json", "events"])
async def test_a_turn_whose_client_left_while_it_began_is_stopped(
    leave: Leave,
    extension: Any,
    http: httpx2.AsyncClient,
    model: ScriptedModel,
    headers: dict[str, str],
) -> None:
    model.add(Hang())
    await leave(CHAT, STOP, await extension.services.chats(), "send", headers)
    (chat,) = await chats_of(http)
    events = (await http.get(f"api/tk-ai/chats/{chat['id']}")).json()["events"]
    assert (events[-1]["kind"], events[-1]["end"]) == ("done", "stopped")


@pytest.mark.proves("rest:chat")
@pytest.mark.parametrize("headers", [{}, EVENTS], ids=["json", "events"])
async def test_a_turn_of_a_client_that_left_goes_on_unless_it_wanted_it_stopped(
    leave: Leave,
    extension: Any,
    http: httpx2.AsyncClient,
    model: ScriptedModel,
    headers: dict[str, str],
) -> None:
    model.add(Answer.of("One."))
    await leave(CHAT, {"message": "Count."}, extension.services, "chats", headers)
    (chat,) = await chats_of(http)
    async with (
        asyncio.timeout(DEADLINE),
        http.stream("GET", f"api/tk-ai/chats/{chat['id']}/events") as events,
    ):
        async for line in events.aiter_lines():
            if line == "event: done":
                break
    assert len(model.requests) == 1


@pytest.mark.proves("code:completion")
@pytest.mark.parametrize("path", ["completion", "edit"])
@pytest.mark.parametrize("stage", ["tools", "models", "code_assistant"])
async def test_the_model_is_not_asked_for_code_of_a_client_that_left(
    leave: Leave, extension: Any, model: ScriptedModel, stage: str, path: str
) -> None:
    body = {"client": "page", **({"prefix": "x"} if path == "completion" else {"prompt": "Fix it"})}
    await leave(f"api/tk-ai/code/{path}", body, extension.services, stage)
    assert model.requests == []


async def test_a_call_whose_client_left_before_it_began_knows_that(
    leave: Leave, extension: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[bool] = []
    call, run = Registry.call, AsgiExchange.run

    async def called(self: Registry, name: str, arguments: Any, context: Any) -> Any:
        gone.append(context.gone.is_set())
        return await call(self, name, arguments, context)

    async def served(self: AsgiExchange, app: Any) -> None:
        gone.append(self.gone.is_set())
        await run(self, app)

    monkeypatch.setattr(Registry, "call", called)
    await leave("api/tk-ai/tools/list_kernels", {}, extension.services, "tools")
    monkeypatch.setattr(AsgiExchange, "run", served)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    await leave("api/tk-ai/mcp", ping, extension.services, "mcp")
    assert gone == [True, True]


@pytest.mark.proves("threat:exhaustion")
async def test_a_message_beyond_the_limit_of_streams_begins_no_turn(
    http: httpx2.AsyncClient,
    extension: Any,
    model: ScriptedModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streaming, "MAX_STREAMS", 2)
    model.add(Answer.of("Yes."), Answer.of("Yes."))
    statuses: asyncio.Queue[int] = asyncio.Queue()

    async def say(number: int) -> None:
        body = {"message": f"Message {number}"}
        async with http.stream("POST", CHAT, json=body, headers=EVENTS) as response:
            statuses.put_nowait(response.status_code)
            await response.aread()

    chats, counts = await extension.services.chats(), extension.services.streaming_users
    with pytest.MonkeyPatch.context() as patch:
        gate = Gate(patch, chats, "send")
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as tasks:
            for number in range(5):
                tasks.create_task(say(number))
            assert [await statuses.get() for _ in range(3)] == [429] * 3
            assert gate.calls == 2
            gate.go_on.set()
            assert [await statuses.get() for _ in range(2)] == [200] * 2
    assert len(await chats_of(http)) == 2
    assert dict(counts) == {}

    # A place is free again where no turn could begin.
    refused = {"message": "Hello", "notebook": "missing.ipynb"}
    for _ in range(3):
        response = await http.post(CHAT, json=refused, headers=EVENTS)
        assert response.status_code == NotebookNotFound.status
        assert dict(counts) == {}
