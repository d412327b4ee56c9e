"""The events that pages follow over their WebSockets: none is lost and none comes twice."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import pytest
from jupyter_server.auth import Authorizer
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect
from traitlets.config import Config

from tests.server.conftest import Ask, Call, with_model
from tests.server.test_users import ServesTwoUsers, headers_of
from tests.support.scripted_model import Answer, Held, ScriptedModel
from tests.support.tab_page import TabPage
from tk_ai_extension.server.handlers import page_websocket

DEADLINE = 30.0
WORDS = " ".join(f"word{number}" for number in range(40))


@pytest.fixture
def jp_server_config(jp_server_config: Config, tmp_path: Path) -> Config:
    jp_server_config.TkAIExtensionApp.mode_cap = "ask"
    return with_model(jp_server_config, tmp_path / "state")


class Page:
    """A page, with one topic or more; it keeps the ids and the events that it is sent."""

    def __init__(self, address: str, headers: dict[str, str], client: str) -> None:
        self._address = f"{address}?client={client}"
        self._headers = headers
        self._socket: WebSocketClientConnection | None = None
        self._count = 0
        self.heartbeats = 0

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()

    async def connect(self) -> None:
        self._socket = await websocket_connect(HTTPRequest(self._address, headers=self._headers))

    def cut(self, code: int | None = None) -> None:
        """Loses the connection; with 1001 as a page does that is reloaded."""
        if self._socket is not None:
            self._socket.close(code)
            self._socket = None

    async def send(self, message: Any) -> None:
        assert self._socket is not None
        await self._socket.write_message(json.dumps(message))

    async def receive(self) -> Any:
        """The next message; None where the server has closed the connection."""
        assert self._socket is not None
        message = await asyncio.wait_for(self._socket.read_message(), DEADLINE)
        return None if message is None else json.loads(message)

    async def subscribe(self, **topic: Any) -> int:
        self._count += 1
        await self.send({"subscribe": self._count, **topic})
        return self._count

    async def messages(self, number: int) -> AsyncIterator[Any]:
        """The messages of a subscription."""
        while True:
            message = await self.receive()
            if message.get("subscription") == number:
                yield message

    async def next(self, number: int) -> Any:
        return await anext(self.messages(number))

    @property
    def close_code(self) -> int | None:
        return None if self._socket is None else self._socket.close_code


OpenPage = Callable[..., Awaitable[Page]]


@pytest.fixture
async def open_page(
    extension: Any, jp_base_url: str, jp_http_port: int, jp_auth_header: dict[str, str]
) -> AsyncIterator[OpenPage]:
    """Opens pages, which are closed after the test."""
    address = f"ws://127.0.0.1:{jp_http_port}{jp_base_url}api/tk-ai/tabs"
    async with AsyncExitStack() as stack:

        async def open_(client: str, headers: dict[str, str] = jp_auth_header) -> Page:
            return await stack.enter_async_context(Page(address, headers, client.ljust(8, "-")))

        yield open_


@pytest.fixture
def say(ask: Ask, jp_auth_header: dict[str, str], model: ScriptedModel) -> Any:
    """Sends a message, and answers with what came of it."""

    async def send(message: str, **fields: Any) -> Any:
        body = {"message": message, **fields}
        response = await ask("POST", "api/tk-ai/mcp/chat", body, **jp_auth_header)
        assert response.code == 200, response.body
        return json.loads(response.body)

    return send


async def follow(page: Page, chat: str, breaks: random.Random, known: list[int]) -> None:
    """Follows a chat up to the end of a turn, over connections that are lost again and again."""
    while True:
        number = await page.subscribe(chat=chat, after=known[-1] if known else 0)
        left = breaks.randrange(1, 12)
        async for message in page.messages(number):
            if "event" in message:
                known.append(message["id"])
                assert message["event"]["number"] == message["id"]
                if message["event"]["kind"] == "done":
                    return
            left -= 1
            if left <= 0:
                break
        page.cut(breaks.choice([None, 1001, 4000]))
        await page.connect()


@pytest.mark.proves("ext:chat")
async def test_no_event_of_a_chat_is_lost_or_doubled_whenever_connections_are_lost(
    open_page: OpenPage, say: Any, model: ScriptedModel
) -> None:
    model.add(Answer.of("Hello."))
    chat = (await say("Hello"))["chat"]
    pages = [await open_page(name) for name in ("one", "two")]
    first = 0
    for seed in range(6):
        asking = Held(Answer.of(WORDS), after=10)
        model.add(asking)
        received: list[list[int]] = [[first] if first else [] for _ in pages]
        saying = asyncio.create_task(say(WORDS, chat=chat))
        following = [
            asyncio.create_task(follow(page, chat, random.Random(f"{seed} {place}"), ids))
            for place, (page, ids) in enumerate(zip(pages, received, strict=True))
        ]
        if first == 0:
            # The first turn's end is one, too.
            await asyncio.gather(*following)
            following = [
                asyncio.create_task(follow(page, chat, random.Random(f"{seed} {place}"), ids))
                for place, (page, ids) in enumerate(zip(pages, received, strict=True))
            ]
        await asyncio.wait_for(asking.held.wait(), DEADLINE)
        asking.go_on.set()
        answer = await saying
        await asyncio.gather(*following)
        expected = list(range(max(first, 1), answer["last_event"] + 1))
        assert received == [expected, expected]
        first = answer["last_event"]


@pytest.mark.proves("mcp:permission-required")
async def test_after_a_lost_connection_all_pending_requests_come(
    open_page: OpenPage, call: Call, notebook: str
) -> None:
    page = await open_page("page")
    number = await page.subscribe(permissions=True)
    assert (await page.next(number))["reset"] is True
    assert (await page.next(number))["event"] == {"kind": "waiting", "permissions": []}
    page.cut()
    await call("insert_cell", notebook=notebook, source="a = 1")
    await page.connect()
    number = await page.subscribe(permissions=True)
    assert (await page.next(number))["reset"] is True
    [asked] = (await page.next(number))["event"]["permissions"]
    assert asked["tool"] == "insert_cell"
    await call("insert_cell", notebook=notebook, source="b = 1")
    assert (await page.next(number))["event"]["kind"] == "asked"


async def test_the_changes_of_a_notebook_are_followed(
    open_page: OpenPage, call: Call, ask: Ask, notebook: str, jp_auth_header: dict[str, str]
) -> None:
    page = await open_page("page")
    number = await page.subscribe(changes=notebook)
    assert (await page.next(number))["reset"] is True
    insert = {"notebook": notebook, "source": "a = 1"}
    refused = (await call("insert_cell", **insert))[1]["error"]
    path = f"api/tk-ai/permissions/{refused['details']['permission_id']}"
    await ask("POST", path, {"answer": "once"}, **jp_auth_header)
    assert (await call("insert_cell", **insert))[0] == 200
    assert (await page.next(number))["event"]["kind"] == "changed"


@pytest.mark.proves("threat:exhaustion")
@pytest.mark.parametrize(
    "message",
    [{"subscribe": 1}, {"subscribe": 1, "chat": 3}, {"subscribe": 1, "permissions": "yes"}, {}],
    ids=str,
)
async def test_unknown_topics_end_the_connection(open_page: OpenPage, message: Any) -> None:
    page = await open_page("page")
    await page.send(message)
    assert await page.receive() is None
    assert page.close_code == 1008


@pytest.mark.proves("threat:exhaustion")
async def test_topics_are_bounded_and_those_that_ended_count_no_more(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_websocket, "MAX_SUBSCRIPTIONS", 2)
    page = await open_page("page")
    for number in range(1, 5):
        await page.send({"subscribe": number, "permissions": True})
        await page.send({"unsubscribe": number})
    for number in (5, 6, 7):
        await page.send({"subscribe": number, "permissions": True})
    while await page.receive() is not None:
        pass
    assert page.close_code == 1013


@pytest.mark.proves("threat:exhaustion")
async def test_pages_are_bounded(open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_websocket, "MAX_CHANNELS", 1)
    first, second = await open_page("first"), await open_page("second")
    assert await second.receive() is None
    assert second.close_code == 1013
    number = await first.subscribe(permissions=True)
    assert (await first.receive())["subscription"] == number


@pytest.mark.proves("threat:path")
@pytest.mark.parametrize("path", ["../outside.ipynb", "/etc/x.ipynb", "a/../../x.ipynb"])
async def test_no_notebook_outside_of_the_root_is_followed(open_page: OpenPage, path: str) -> None:
    page = await open_page("page")
    message = await page.next(await page.subscribe(changes=path))
    assert message["error"]["retryable"] is False


class TestTwoUsers(ServesTwoUsers):
    @pytest.mark.proves("ext:multi-user", "threat:other-user")
    async def test_nobody_follows_what_is_anothers(
        self, open_page: OpenPage, say: Any, call: Call, model: ScriptedModel, notebook: str
    ) -> None:
        model.add(Answer.of("Hello."))
        chat = (await say("Hello"))["chat"]
        await call("insert_cell", notebook=notebook, source="adas = 1")
        page = await open_page("page", headers_of("bob"))
        refused = await page.next(await page.subscribe(chat=chat))
        assert refused["error"]["code"] == "chat_not_found"
        number = await page.subscribe(permissions=True)
        assert (await page.next(number))["reset"] is True
        assert (await page.next(number))["event"]["permissions"] == []


class Reader(Authorizer):
    """Lets everybody read, and nobody write."""

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:  # noqa: ARG002
        return action == "read"


class TestReader:
    @pytest.fixture
    def jp_server_config(self, jp_server_config: Config) -> Config:
        jp_server_config.ServerApp.authorizer_class = Reader
        return jp_server_config

    async def test_a_user_with_read_access_follows_and_registers_no_tab(
        self, open_page: OpenPage, extension: Any
    ) -> None:
        page = await open_page("page")
        listed = {"id": "n", "path": "n.ipynb", "dirty": False, "focused": True}
        await page.send({"tabs": [listed]})
        number = await page.subscribe(permissions=True)
        assert (await page.receive())["subscription"] == number
        assert extension.settings[page_websocket.TABS_KEY].present("n.ipynb") == []


class TestPointing(ServesTwoUsers):
    @pytest.fixture
    def server(self, jp_http_port: int, jp_base_url: str) -> str:
        return f"http://127.0.0.1:{jp_http_port}{jp_base_url}"

    @pytest.mark.proves("threat:other-user", "mcp:focus")
    async def test_the_focus_of_one_user_is_hidden_from_another(
        self,
        open_page: OpenPage,
        call: Call,
        ask: Ask,
        notebook: str,
        server: str,
    ) -> None:
        tab = TabPage(server, "token-of-ada")
        await tab.connect()
        await tab.open(notebook)
        await tab.look(notebook, "fails000")
        pages = [await open_page(name, headers_of(name)) for name in ("ada", "bob")]
        for page in pages:
            number = await page.subscribe(changes=notebook)
            assert (await page.next(number))["reset"] is True
        status, listed = await call("list_notebooks")
        assert (status, listed["focus"]["cell"]) == (200, "fail")
        status, shown = await call("show_cell", notebook=notebook, cell="fails000")
        assert (status, shown["index"]) == (200, 1)
        answer = await ask("POST", "api/tk-ai/tools/list_notebooks", {}, **headers_of("bob"))
        listed = json.loads(answer.body)
        assert ("focus" in listed, listed["notebooks"][0]["in_jupyterlab"]) == (False, False)
        body = {"notebook": notebook, "cell": 0}
        answer = await ask("POST", "api/tk-ai/tools/show_cell", body, **headers_of("bob"))
        assert (answer.code, json.loads(answer.body)["error"]["code"]) == (409, "not_open")
        # Only Ada is shown the cell: the next that Bob's page hears of is what it asks for.
        assert (await pages[0].receive())["event"]["kind"] == "shown"
        number = await pages[1].subscribe(permissions=True)
        assert (await pages[1].receive())["subscription"] == number
        await tab.close()
