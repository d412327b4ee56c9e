"""What `nb mcp` carries where a client's calls are in more than one server."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tk_ai_extension.cli import stdio
from tk_ai_extension.cli.stdio import _Relay

pytestmark = pytest.mark.proves("nb:collaborate", "nb:mcp")

URL = "http://127.0.0.1:1/"


class Servers:
    """Two servers and a client, with the relay between them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ends = [socket.socketpair() for _ in range(2)]
        self.first, self.second = (there for _, there in ends)
        for end in (self.first, self.second):
            end.settimeout(5)
        self.here = [here for here, _ in ends]
        self.relay = _Relay(self.here[0], "")
        self.relay._selector.register(self.here[0], 1)
        self.written: list[bytes] = []
        monkeypatch.setattr(stdio, "_write", lambda _file, data: self.written.append(data))
        monkeypatch.setattr(stdio, "server_at", lambda _: self)

    def open(self, _path: str) -> socket.socket:
        return self.here[1]

    def says(self, message: dict[str, Any]) -> None:
        """The client says something."""
        self.relay._from_client(json.dumps(message).encode() + b"\n")

    def answers(self, number: int, message: dict[str, Any]) -> None:
        """A server says something."""
        (self.first, self.second)[number].sendall(json.dumps(message).encode() + b"\n")
        assert self.relay._from_server(self.here[number])

    def shown(self) -> list[dict[str, Any]]:
        """What the client gets."""
        return [json.loads(line) for line in b"".join(self.written).splitlines()]


def received(server: socket.socket) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.recv(100_000).splitlines()]


ELSEWHERE = {
    "code": "notebook_open_elsewhere",
    "details": {"server": URL, "arguments": {"notebook": "/x/a.ipynb"}},
}


def send_on(made: Servers, **more: Any) -> list[dict[str, Any]]:
    """Makes a call that belongs to the second server; returns all that it gets."""
    arguments = {"name": "read_cell", "arguments": {"cell": 0}, **more}
    made.says({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments})
    assert received(made.first)[-1]["id"] == 1
    made.answers(0, {"id": 1, "result": {"structuredContent": {"error": ELSEWHERE}}})
    return received(made.second)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    made = Servers(monkeypatch)
    yield made
    for end in (*made.here, made.first, made.second):
        end.close()


@pytest.fixture
def servers(two: Servers) -> Servers:
    (moved,) = send_on(two)
    assert moved["params"]["arguments"] == {"cell": 0, "notebook": "/x/a.ipynb"}
    return two


@pytest.mark.parametrize("is_modern", [False, True])
def test_another_server_gets_a_handshake_only_before_the_calls_of_a_session(
    two: Servers, is_modern: bool
) -> None:
    """A client that waits too long for an answer to its probe sends a handshake as well.

    The server, when it is up, answers the probe and refuses the handshake. What the client sends from
    then on carries its version with it, and a connection that began with a handshake refuses that.
    """
    envelope = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
    two.says({"id": "probe", "method": "server/discover", "params": envelope})
    two.says({"id": 0, "method": "initialize", "params": {}})
    two.says({"method": "notifications/initialized"})
    two.second.sendall(b"{}\n")  # Its answer to a handshake, if it gets one.
    methods = [each["method"] for each in send_on(two, **(envelope if is_modern else {}))]
    handshake = ["initialize", "notifications/initialized"]
    assert methods == [*([] if is_modern else handshake), "tools/call"]


def test_an_answer_reaches_the_server_that_asked_and_no_other(servers: Servers) -> None:
    # Both ask at once, and count their questions alike.
    for number in (0, 1):
        servers.answers(number, {"id": 0, "method": "elicitation/create", "params": {"n": number}})
    asked = {message["params"]["n"]: message["id"] for message in servers.shown()}
    assert asked[0] == 0
    assert asked[1] != 0
    servers.says({"id": asked[1], "result": {"action": "accept"}})
    assert received(servers.second) == [{"id": 0, "result": {"action": "accept"}}]
    servers.says({"id": asked[0], "result": {"action": "decline"}})
    assert received(servers.first) == [{"id": 0, "result": {"action": "decline"}}]


@pytest.mark.parametrize("has_asked", [False, True])
def test_a_call_is_answered_if_its_server_ends(servers: Servers, has_asked: bool) -> None:
    """Others go on: a call of the first server, and the next one for the notebook."""
    if has_asked:
        servers.answers(1, {"id": 0, "method": "elicitation/create", "params": {}})
    servers.says({"id": "x", "method": "tools/call", "params": {"name": "list_notebooks"}})
    assert [message["id"] for message in received(servers.first)] == ["x"]
    servers.second.close()
    assert servers.relay._from_server(servers.here[1])
    *_, answer = servers.shown()
    assert answer["id"] == 1
    assert answer["error"]["code"] == stdio.CONNECTION_CLOSED
    if has_asked:
        # Its question is nobody's any more.
        servers.says({"id": servers.shown()[0]["id"], "result": {"action": "accept"}})
        received(servers.first)
    servers.answers(0, {"id": "x", "result": {}})
    assert servers.shown()[-1] == {"id": "x", "result": {}}
    assert servers.relay._requests == {}


def test_a_call_for_a_server_that_has_just_ended_is_answered(servers: Servers) -> None:
    servers.second.close()
    servers.says({"id": 2, "method": "tools/call", "params": {"name": "read_cell"}})
    received(servers.first)
    servers.answers(0, {"id": 2, "result": {"structuredContent": {"error": ELSEWHERE}}})
    assert servers.relay._from_server(servers.here[1])
    assert {message["id"] for message in servers.shown()} == {1, 2}


def test_a_server_that_ends_in_the_handshake_leaves_the_error_to_the_client(two: Servers) -> None:
    two.says({"id": 0, "method": "initialize", "params": {}})
    two.second.close()
    arguments = {"name": "read_cell", "arguments": {"cell": 0}}
    two.says({"id": 1, "method": "tools/call", "params": arguments})
    two.answers(0, {"id": 1, "result": {"structuredContent": {"error": ELSEWHERE}}})
    (answer,) = two.shown()
    assert answer["result"]["structuredContent"]["error"]["code"] == stdio.ELSEWHERE


def test_no_two_questions_have_one_id_whatever_was_answered_between(servers: Servers) -> None:
    def ask(number: int) -> str:
        servers.answers(1, {"id": number, "method": "elicitation/create"})
        return servers.shown()[-1]["id"]

    first, second = ask(0), ask(1)
    servers.says({"id": first, "result": {}})
    third = ask(1)
    assert len({first, second, third}) == 3


def test_long_lines_come_whole_in_whatever_pieces(servers: Servers) -> None:
    lines = [json.dumps({"method": "notifications/message", "n": "x" * n}) for n in (0, 9, 70_000)]
    sent = "".join(f"{line}\n" for line in lines).encode()
    taken: list[bytes] = []
    for start in range(0, len(sent), 1000):
        taken += servers.relay._lines(servers.second, sent[start : start + 1000])
    assert b"".join(taken) == sent
    assert len(taken) == 3
    assert servers.relay._lines(servers.second, b"rest") == []
    assert servers.relay._lines(servers.second, b"") == [b"rest\n"]


def test_a_request_goes_to_one_server_and_a_notification_to_all(servers: Servers) -> None:
    servers.says({"id": 7, "method": "resources/list"})
    servers.says({"method": "notifications/cancelled", "params": {"requestId": 1}})
    assert [each["method"] for each in received(servers.first)] == [
        "resources/list",
        "notifications/cancelled",
    ]
    assert [each["method"] for each in received(servers.second)] == ["notifications/cancelled"]
    servers.answers(1, {"id": 1, "result": {"content": []}})
    assert servers.shown() == [{"id": 1, "result": {"content": []}}]
    # A call is sent on once: where the second server says the same, the client gets the error.
    assert not servers.relay._requests


@pytest.mark.proves("mcp:requests-refused", "mcp:cancel")
@pytest.mark.parametrize("name", [1, "1"])
def test_a_request_with_the_id_of_a_call_of_another_server_is_refused(
    servers: Servers, name: int | str
) -> None:
    """The first server does not know the call."""
    for method in ("tools/call", "ping"):
        servers.says({"id": name, "method": method, "params": {"name": "list_notebooks"}})
        (refused,) = servers.shown()
        assert (refused["id"], refused["error"]["code"]) == (name, -32600)
        servers.written.clear()
    servers.says({"id": 2, "method": "ping"})
    assert [each["id"] for each in received(servers.first)] == [2]
    servers.says({"method": "notifications/cancelled", "params": {"requestId": name}})
    assert received(servers.second)[0]["params"] == {"requestId": name}
    # A cancelled call is not answered: its id is free.
    servers.says({"id": 1, "method": "tools/call", "params": {"name": "read_cell"}})
    assert [each.get("id") for each in received(servers.first)] == [None, 1]


@pytest.mark.proves("mcp:cancel")
@pytest.mark.parametrize("name", [7, "7"])
@pytest.mark.parametrize("cancelled", [7, "7"])
def test_a_cancelled_call_is_not_sent_on(
    two: Servers, name: int | str, cancelled: int | str
) -> None:
    """`7` and `"7"` are one id, as for the servers."""
    two.says({"id": name, "method": "tools/call", "params": {"name": "read_cell"}})
    two.says({"method": "notifications/cancelled", "params": {"requestId": cancelled}})
    # The first server had answered before it read the cancellation.
    two.answers(0, {"id": name, "result": {"structuredContent": {"error": ELSEWHERE}}})
    assert two.relay._requests == {}
    assert two.relay._others == {}
