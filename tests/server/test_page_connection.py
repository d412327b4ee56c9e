"""The connection between a page and the server: who may open it, what may be sent, and how it ends."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.session import Session
from jupyter_server.services.kernels.connection.base import serialize_msg_to_ws_v1
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect
from traitlets.config import Config

from tests.server.conftest import Ask, Call
from tests.support.tab_page import TabPage
from tk_ai_extension.model.errors import InvalidArguments, LimitReached
from tk_ai_extension.notebooks import browser_pages
from tk_ai_extension.notebooks.browser_pages import (
    MAX_NAME,
    MAX_PATH,
    MAX_TABS,
    BrowserPage,
    BrowserPages,
    TabGone,
)
from tk_ai_extension.server.handlers import page_websocket

DEADLINE = 20.0
CLIENT = "c" * 16


class FakeConnection:
    """A connection that records what is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.is_dropped = False

    async def send(self, message: str) -> None:
        self.sent.append(json.loads(message))

    def drop(self) -> None:
        self.is_dropped = True


def tab_entry(name: str = "n", path: str = "n.ipynb", *, dirty: bool = False) -> dict[str, Any]:
    return {"id": name, "path": path, "dirty": dirty, "focused": True}


def page_with(
    channel: BrowserPages, *listed: dict[str, Any], user: str = "ann"
) -> tuple[BrowserPage, FakeConnection]:
    connection = FakeConnection()
    page = channel.connect(user, CLIENT, connection)
    channel.handle(page, {"tabs": list(listed)})
    return page, connection


# --- access


@pytest.fixture
def connect(extension: Any, jp_base_url: str, jp_http_port: int) -> Any:
    """Opens a connection as a page does."""

    async def open_(query: str = f"client={CLIENT}", **headers: str) -> WebSocketClientConnection:
        address = f"ws://127.0.0.1:{jp_http_port}{jp_base_url}api/tk-ai/tabs?{query}"
        return await websocket_connect(HTTPRequest(address, headers=headers))

    return open_


@pytest.mark.proves("threat:no-token", "threat:csrf")
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "token wrong"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Host": "evil.example"},
    ],
    ids=str,
)
async def test_nobody_opens_a_connection_without_a_token_or_from_elsewhere(
    connect: Any, jp_auth_header: dict[str, str], headers: dict[str, str]
) -> None:
    is_foreign = "Origin" in headers or "Host" in headers
    with pytest.raises(HTTPClientError) as raised:
        await connect(**{**(jp_auth_header if is_foreign else {}), **headers})
    assert raised.value.code == 403


async def test_a_page_needs_a_name(connect: Any, jp_auth_header: dict[str, str]) -> None:
    for query in ("", "client=short", f"client={'c' * 65}"):
        with pytest.raises(HTTPClientError) as raised:
            await connect(query, **jp_auth_header)
        assert raised.value.code == 400


# --- valid messages


@pytest.mark.parametrize(
    "wrong", [{"cell": 1}, {"selected": None}, {"selection": {"text": "x"}}], ids=str
)
def test_what_a_page_says_of_the_active_cell_is_checked(wrong: Any) -> None:
    channel = BrowserPages()
    page, _ = page_with(channel, tab_entry())
    said = {"focus": "n", "focused": True, "cell": "a", "selected": [], "selection": None}
    channel.handle(page, said)
    with pytest.raises(InvalidArguments):
        channel.handle(page, {**said, **wrong})
    assert [tab.selection.cell for tab in channel.looked_at("ann")] == ["a"]
    assert channel.looked_at("bob") == []


@pytest.mark.proves("threat:exhaustion")
@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("no JSON", 1007),
        ("[]", 1008),
        ('{"tabs": [1]}', 1008),
        ('{"tabs": [{"id": 1, "path": "n.ipynb"}]}', 1008),
        (json.dumps({"tabs": [tab_entry()] * (MAX_TABS + 1)}), 1008),
    ],
    ids=["no JSON", "no object", "no notebook", "no name", "too many"],
)
async def test_an_invalid_message_closes_the_connection(
    connect: Any, jp_auth_header: dict[str, str], message: str, code: int
) -> None:
    socket = await connect(**jp_auth_header)
    await socket.write_message(message)
    assert await asyncio.wait_for(socket.read_message(), DEADLINE) is None
    assert socket.close_code == code
    socket.close()


@pytest.mark.proves("threat:exhaustion")
async def test_a_message_beyond_the_bound_ends_the_connection(
    connect: Any, jp_auth_header: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_websocket, "MAX_MESSAGE", 1_000)
    socket = await connect(**jp_auth_header)
    await socket.write_message(json.dumps({"tabs": [], "more": "x" * 1_000}))
    assert await asyncio.wait_for(socket.read_message(), DEADLINE) is None
    socket.close()


# --- owners


@pytest.mark.proves("threat:other-user")
async def test_a_page_of_another_user_is_another_page_though_it_has_the_same_name() -> None:
    channel = BrowserPages()
    hers, her_connection = page_with(channel, tab_entry(path="hers.ipynb"))
    his, his_connection = page_with(channel, tab_entry(path="his.ipynb"), user="ben")
    assert hers is not his
    assert not her_connection.is_dropped
    (tab,) = channel.present("hers.ipynb")
    asked = asyncio.create_task(tab.ask("read", since=0))
    await asyncio.wait([asked], timeout=0)
    (question,) = her_connection.sent
    assert his_connection.sent == []
    channel.handle(his, {"answer": question["id"], "result": {"version": 666}})
    channel.handle(hers, {"answer": question["id"], "result": {"version": 1}})
    assert await asked == {"version": 1}


@pytest.mark.proves("threat:exhaustion")
async def test_questions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_pages, "MAX_ASKED", 1)
    channel = BrowserPages()
    page_with(channel, tab_entry())
    (tab,) = channel.present("n.ipynb")
    asked = asyncio.create_task(tab.ask("read", since=0))
    await asyncio.wait([asked], timeout=0)
    with pytest.raises(LimitReached, match="1 questions"):
        await tab.ask("read", since=0)
    channel.close()
    with pytest.raises(TabGone):
        await asked


@pytest.mark.proves("threat:exhaustion")
@pytest.mark.parametrize(
    "invalid",
    [
        {"id": 2, "path": "a.ipynb"},
        {"id": "m"},
        {"id": "m" * (MAX_NAME + 1), "path": "a.ipynb"},
        {"id": "m", "path": "a" * (MAX_PATH + 1)},
        None,
    ],
)
async def test_a_list_with_an_invalid_notebook_changes_nothing(invalid: Any) -> None:
    channel = BrowserPages()
    page, _ = page_with(channel, tab_entry())
    (tab,) = channel.present("n.ipynb")
    channel.notebooks.rename("n.ipynb", "renamed.ipynb")
    before = {**vars(tab)}
    for listed in ([tab_entry(path="other.ipynb", dirty=True), invalid], [invalid]):
        with pytest.raises(InvalidArguments):
            channel.handle(page, {"tabs": listed})
    assert vars(tab) == before
    assert page.tabs == [tab]
    channel.close()


# --- the end


# --- runs


RunInPage = Callable[[str], Awaitable[tuple[TabPage, WebSocketClientConnection]]]
FLOOD = """
from IPython.display import display
for number in range(4_000):
    display({"text/plain": f"{number} " + "x" * 4_000}, raw=True)
open("published", "w").close()
"""


@pytest.fixture
def run_in_page(
    ask: Ask, jp_ws_fetch: Any, jp_serverapp: Any, jp_auth_header: dict[str, str]
) -> RunInPage:
    """Opens a notebook in a page, which runs its cell as JupyterLab does."""

    async def run(code: str) -> tuple[TabPage, WebSocketClientConnection]:
        cell = nbformat.v4.new_code_cell(code, id="runs0000")
        nbformat.write(
            nbformat.v4.new_notebook(cells=[cell]), Path(jp_serverapp.root_dir, "n.ipynb")
        )
        page = TabPage(jp_serverapp.connection_url, jp_serverapp.identity_provider.token)
        await page.connect()
        await page.open("n.ipynb")
        body = {"path": "n.ipynb", "name": "", "type": "notebook", "kernel": {"name": "python3"}}
        answer = await ask("POST", "api/sessions", body, **jp_auth_header)
        kernel, session = json.loads(answer.body)["kernel"]["id"], Session()
        socket = await jp_ws_fetch(
            *("api", "kernels", kernel, "channels"),
            headers={"Sec-WebSocket-Protocol": "v1.kernel.websocket.jupyter.org"},
            params={"session_id": session.session},
        )
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        message = session.msg("execute_request", content, metadata={"cellId": "runs0000"})
        await socket.write_message(serialize_msg_to_ws_v1(message, "shell", session.pack), True)
        while b'"execute_input"' not in await asyncio.wait_for(socket.read_message(), DEADLINE):
            pass
        return page, socket

    return run


@pytest.mark.proves("fault:tab-lost", "fault:flood")
async def test_a_run_of_a_page_loses_nothing_of_a_flood_while_the_server_is_busy(
    run_in_page: RunInPage, extension: Any, jp_root_dir: Path
) -> None:
    """Jupyter's own connection to the kernel drops what it cannot take, also the end of the run."""
    page, socket = await run_in_page(FLOOD)
    while not (jp_root_dir / "published").exists():
        time.sleep(0.01)  # noqa: ASYNC251 - nothing is read
    socket.close(1001)
    await page.unload()
    executions = extension.services.workspace.executions
    async with asyncio.timeout(DEADLINE):
        while not (runs := executions.active()):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.01)
        await runs[0].wait(None)
    (cell,) = nbformat.read(jp_root_dir / "n.ipynb", 4).cells
    assert cell.execution_count == 1
    shown = [output["data"]["text/plain"].split()[0] for output in cell.outputs]
    assert shown == [str(number) for number in range(4_000)]


class TestWithoutKeptRuns:
    @pytest.fixture
    def jp_server_config(self, jp_server_config: Config) -> Config:
        jp_server_config.TkAIExtensionApp.keep_page_runs = False
        return jp_server_config

    async def test_a_run_of_a_page_is_not_kept(
        self, run_in_page: RunInPage, call: Call, jp_root_dir: Path
    ) -> None:
        page, socket = await run_in_page(
            "import os, time\nprint('lost')\nwhile not os.path.exists('go'): time.sleep(0.02)"
        )
        socket.close(1001)
        await page.unload()
        (jp_root_dir / "go").touch()
        # The kernel runs it after the page's cell.
        _, ran = await call("execute_ipython", notebook="n.ipynb", code="'later'")
        assert ran["runs"][0]["output"] == "'later'"
        (cell,) = nbformat.read(jp_root_dir / "n.ipynb", 4).cells
        assert cell.outputs == []
