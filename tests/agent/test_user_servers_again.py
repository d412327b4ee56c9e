"""MCP servers of the user's own that were restarted, or away when a chat began."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import USER, Open, Talk, of_kind
from tests.harness import ToolHarness
from tests.support.scripted_model import Answer, ToolUse
from tk_ai_extension.agent import external_tools
from tk_ai_extension.agent.backend import AgentSession, SessionConfig
from tk_ai_extension.agent.chat_setup import ChatSetup
from tk_ai_extension.agent.claude.client import ClaudeBackend
from tk_ai_extension.agent.events import Event
from tk_ai_extension.agent.external_tools import ExternalTools
from tk_ai_extension.agent.server_connection import ServerConnection
from tk_ai_extension.agent.user_servers import FILE, UserServers
from tk_ai_extension.model.agent_errors import ServerFailed

pytestmark = pytest.mark.proves("chat:servers-fault")

PROMPT = 10.0
TOOL = {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}


class Address:
    """A server at an address, which forgets its sessions when it is restarted.

    Attributes:
        unknown: The status for a session that it does not know.
        refused: The status for calls of tools; 200 answers them.
        stream: The status for its stream of messages; 200 has one, which `ends`.
        held: A method that it does not answer until `released`.
        tools: Its tools.
        asked: How often it was asked for each method.
    """

    def __init__(self, *, unknown: int = 404, refused: int = 200, stream: int = 405) -> None:
        self.unknown = unknown
        self.refused = refused
        self.stream = stream
        self.held = ""
        self.released = asyncio.Event()
        self.ends = asyncio.Event()
        self.tools: list[dict[str, Any]] = [TOOL]
        self.asked: Counter[str] = Counter()
        self._is_asked = asyncio.Condition()
        self.port = 0
        self._sessions: set[str] = set()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Go away: connections are refused."""
        self.forget()
        if self._server is not None:
            self._server.close()
        for each in self._open:
            each.close()

    def forget(self) -> None:
        """Forget the sessions, as at a restart."""
        self._sessions.clear()

    async def until_asked(self, method: str, count: int = 1) -> None:
        """Wait until it was asked for a method so often."""
        async with asyncio.timeout(PROMPT), self._is_asked:
            await self._is_asked.wait_for(lambda: self.asked[method] >= count)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Address]:
        await self.open()
        try:
            yield self
        finally:
            await self.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await self._answer(reader, writer)
        self._open.discard(writer)
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        fields = dict(line.lower().split(": ", 1) for line in lines if line)
        message = json.loads(await reader.readexactly(int(fields.get("content-length", 0))) or "{}")
        method = message.get("method") or first.split()[0]
        async with self._is_asked:
            self.asked[method] += 1
            self._is_asked.notify_all()
        if method == self.held:
            await self.released.wait()
        session = fields.get("mcp-session-id", "")
        if method == "initialize":
            session = str(self.asked[method])
            self._sessions.add(session)
        status, kind, body = self._response(method, session, message)
        length = "" if kind == "text/event-stream" else f"Content-Length: {len(body)}\r\n"
        close = "" if length else "Connection: close\r\n"
        writer.write(
            f"HTTP/1.1 {status} Answer\r\nContent-Type: {kind}\r\nMcp-Session-Id: {session}\r\n"
            f"{length}{close}\r\n{body}".encode()
        )
        await writer.drain()
        if not length:
            await self.ends.wait()
            raise ConnectionResetError

    def _response(self, method: str, session: str, message: dict[str, Any]) -> tuple[int, str, str]:
        json_kind = "application/json"
        if session not in self._sessions:
            error = {
                "jsonrpc": "2.0",
                "id": None,
                "error": {"code": -32600, "message": "No session"},
            }
            return self.unknown, json_kind, json.dumps(error)
        if method == "GET" and self.stream == 200:
            return 200, "text/event-stream", "id: 1\nretry: 1\ndata: \n\n"
        if method in ("GET", "DELETE"):
            return self.stream, json_kind, ""
        if "id" not in message:
            return 202, json_kind, ""
        result: dict[str, Any] = {"tools": self.tools}
        if method == "initialize":
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "address", "version": "1"},
            }
        if method == "tools/call":
            result = {"content": [{"type": "text", "text": "seen"}]}
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        status = self.refused if method == "tools/call" else 200
        return status, json_kind, json.dumps(answer)


@pytest.fixture
def servers(tmp_path: Path) -> UserServers:
    (tmp_path / "own").mkdir()
    return UserServers(tmp_path / "own", frozenset({USER}))


async def started(servers: UserServers, address: Address, tmp_path: Path) -> ExternalTools:
    write(servers, address)
    return await ExternalTools.start(servers, await servers.enabled(USER), tmp_path / "work")


def write(servers: UserServers, address: Address) -> None:
    assert servers.folder is not None
    file = servers.folder / FILE
    file.write_text(json.dumps({"mcpServers": {"tickets": {"url": address.url}}}), encoding="utf-8")
    file.chmod(0o600)


async def state(servers: UserServers) -> str:
    """The server's state in Chat Setup."""
    (server,) = (await servers.info(USER))["servers"]
    return server["state"]


def server_of(tools: ExternalTools) -> ServerConnection:
    return tools.get("tickets__look").server


@pytest.mark.parametrize("unknown", [404, 400])
async def test_a_session_that_an_address_does_not_know_is_begun_again(
    servers: UserServers, tmp_path: Path, unknown: int
) -> None:
    async with Address(unknown=unknown).running() as address:
        tools = await started(servers, address, tmp_path)
        try:
            await server_of(tools).call("look", {})
            address.forget()
            for said in ("No session", "has ended"):
                with pytest.raises(ServerFailed, match=said) as failed:
                    await server_of(tools).call("look", {})
                assert failed.value.hint.endswith("The next message connects to it again.")
            assert address.asked["tools/call"] == 2
            assert await tools.renew()
            assert tools.failures == []
            await server_of(tools).call("look", {})
            assert (address.asked["tools/call"], address.asked["initialize"]) == (3, 2)
            assert await tools.renew()
            assert address.asked["initialize"] == 2
        finally:
            await tools.close()


@pytest.mark.parametrize(("stream", "refused"), [(404, 500), (400, 400)])
async def test_an_address_without_a_stream_or_with_an_error_has_not_ended(
    servers: UserServers, tmp_path: Path, stream: int, refused: int
) -> None:
    async with Address(refused=refused, stream=stream).running() as address:
        tools = await started(servers, address, tmp_path)
        try:
            # It is asked twice: its first answer has arrived.
            await address.until_asked("GET", 2)
            server = server_of(tools)
            with pytest.raises(ServerFailed) as failed:
                await server.call("look", {})
            assert "again" not in failed.value.hint
            assert server.alive
            assert await tools.renew()
            assert server_of(tools) is server
        finally:
            await tools.close()


async def test_the_end_of_a_session_is_found_without_a_call(
    servers: UserServers, tmp_path: Path
) -> None:
    async with Address(stream=200).running() as address:
        tools = await started(servers, address, tmp_path)
        try:
            server = server_of(tools)
            await address.until_asked("GET")
            address.forget()
            address.ends.set()
            # It is asked a third time: the answer to the second has arrived.
            await address.until_asked("GET", 3)
            assert not server.alive
            assert await tools.renew()
            await server_of(tools).call("look", {})
            assert address.asked["tools/call"] == 1
        finally:
            await tools.close()


async def test_a_server_that_did_not_start_is_tried_again_after_a_while(
    servers: UserServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = Address()
    await address.open()
    await address.close()
    tools = await started(servers, address, tmp_path)
    try:
        assert [name for name, _ in tools.failures] == ["tickets"]
        async with address.running():
            assert await tools.renew()
            assert not address.asked
            assert await state(servers) == "failed"

            loop = asyncio.get_running_loop()
            before = loop.time
            monkeypatch.setattr(loop, "time", lambda: before() + external_tools.RETRY)
            address.tools = []
            assert await tools.renew()
            assert await state(servers) == "ready"
    finally:
        await tools.close()


async def test_what_an_agent_is_offered_follows_a_server_that_has_changed_or_gone(
    servers: UserServers, tmp_path: Path
) -> None:
    async with Address().running() as address:
        tools = await started(servers, address, tmp_path)
        try:
            address.tools = [TOOL, {**TOOL, "name": "find"}]
            for again in (False, True):
                address.forget()
                with pytest.raises(ServerFailed):
                    await server_of(tools).call("look", {})
                assert await tools.renew() is again
                assert [each.name for each in tools.described] == ["tickets__look", "tickets__find"]

            server = server_of(tools)
            await address.close()
            with pytest.raises(ServerFailed) as failed:
                await server.call("look", {})
            assert "again" in failed.value.hint
            assert not await tools.renew()
            assert tools.described == []
            assert [name for name, _ in tools.failures] == ["tickets"]
            assert await state(servers) == "failed"
        finally:
            await tools.close()


async def test_a_start_that_is_stopped_is_finished_by_the_next_message(
    servers: UserServers, tmp_path: Path
) -> None:
    async with Address().running() as address:
        tools = await started(servers, address, tmp_path)
        try:
            address.forget()
            with pytest.raises(ServerFailed):
                await server_of(tools).call("look", {})
            address.held = "tools/list"
            renewing = asyncio.create_task(tools.renew())
            await address.until_asked("tools/list", 2)
            renewing.cancel()
            await asyncio.wait((renewing,))
            address.released.set()
            assert await tools.renew()
            await server_of(tools).call("look", {})
            assert await state(servers) == "ready"
        finally:
            await tools.close()


async def test_a_message_does_not_wait_for_a_server_that_takes_long_to_start_again(
    servers: UserServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_tools, "RETRY", 0.0)
    monkeypatch.setattr(external_tools, "RETRY_WAIT", 0.0)
    address = Address()
    await address.open()
    await address.close()
    tools = await started(servers, address, tmp_path)
    try:
        address.held = "initialize"
        async with address.running():
            for _ in range(2):
                async with asyncio.timeout(PROMPT):
                    assert await tools.renew()
                await address.until_asked("initialize")
                assert [name for name, _ in tools.failures] == ["tickets"]
            monkeypatch.setattr(external_tools, "RETRY_WAIT", PROMPT)
            address.released.set()
            assert not await tools.renew()
            assert tools.failures == []
            assert address.asked["initialize"] == 1
            await server_of(tools).call("look", {})
    finally:
        await tools.close()


@pytest.fixture
def talk(open_chats: Open, servers: UserServers, tmp_path: Path) -> Talk:
    return open_chats(setup=ChatSetup(servers=servers, work=tmp_path / "work"))


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often an agent was started."""
    counted: Counter[str] = Counter()
    start = ClaudeBackend.start

    async def counting(self: ClaudeBackend, config: SessionConfig) -> AgentSession:
        counted["agent"] += 1
        return await start(self, config)

    monkeypatch.setattr(ClaudeBackend, "start", counting)
    return counted


async def looks(talk: Talk, harness: ToolHarness, chat: str | None = None) -> list[Event]:
    """Send a message that the model answers with a call."""
    talk.model.add(Answer.of(ToolUse("tickets__look", {})), Answer.of("Done."))
    begun = await talk.send("Look.", mode="ask", **({"chat": chat} if chat else {}))
    events: list[Event] = []
    async for event in begun.events:
        events.append(event)
        if event.kind == "permission":
            harness.workspace.policy.answer(USER, event.data["id"], "chat_tool")
    return events


def seen(events: list[Event]) -> bool:
    (result,) = of_kind(events, "tool_result")
    return result["ok"]


async def test_a_chat_uses_a_server_that_was_restarted(
    talk: Talk,
    harness: ToolHarness,
    servers: UserServers,
    starts: Counter[str],
) -> None:
    async with Address().running() as address:
        write(servers, address)
        events = await looks(talk, harness)
        chat = events[0].data["chat"]
        assert seen(events)
        address.forget()
        events = await looks(talk, harness, chat)
        (result,) = of_kind(events, "tool_result")
        assert "The next message connects to it again." in result["text"]
        assert seen(await looks(talk, harness, chat))
        # Its tools are the same: the agent needs no other ones.
        assert starts["agent"] == 1
        assert address.asked["tools/call"] == 3


async def test_a_chat_gets_the_tools_of_a_server_that_was_away(
    talk: Talk,
    harness: ToolHarness,
    servers: UserServers,
    starts: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(external_tools, "RETRY", 0.0)
    address = Address()
    await address.open()
    await address.close()
    write(servers, address)
    events = await looks(talk, harness)
    chat = events[0].data["chat"]
    assert len(of_kind(events, "notice")) == 1
    events = await looks(talk, harness, chat)
    assert (len(of_kind(events, "notice")), starts["agent"]) == (0, 1)
    async with address.running():
        assert seen(await looks(talk, harness, chat))
        assert seen(await looks(talk, harness, chat))
        assert (starts["agent"], address.asked["initialize"]) == (2, 1)
        await talk.close()
