"""The user's own MCP servers: the file, their start, and calls of their tools in a chat."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.agent.conftest import USER, Open, of_kind
from tests.harness import ToolHarness
from tests.support.scripted_model import Answer, ToolUse
from tk_ai_extension.agent.chat_setup import FILE, ChatSetup

SECRET = "5ec4e7-value"
SERVER = Path(__file__).parent / "own_server.py"


@pytest.fixture
def servers(tmp_path: Path) -> ChatSetup:
    (tmp_path / "own").mkdir()
    return ChatSetup(
        folder=tmp_path / "own", owners=frozenset({USER}), environment={"TOKEN": SECRET}
    )


def write(servers: ChatSetup, **entries: object) -> Path:
    assert servers.folder is not None
    file = servers.folder / FILE
    file.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    file.chmod(0o600)
    return file


def entry(**env: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(SERVER)], "env": env}


@pytest.mark.proves("threat:secrets")
async def test_the_screen_gets_no_argument_variable_or_header(servers: ChatSetup) -> None:
    write(
        servers,
        program={"command": "/opt/bin/tool", "args": [SECRET], "env": {"KEY": "${TOKEN}"}},
        remote={
            "type": "http",
            "url": f"https://api.example/{SECRET}",
            "headers": {"Authorization": SECRET},
        },
    )
    program, remote = await servers.servers(USER)
    assert (dict(program.env), remote.url) == ({"KEY": SECRET}, f"https://api.example/{SECRET}")
    info = await servers.servers_info(USER)
    assert [(each["name"], each["place"]) for each in info["servers"]] == [
        ("program", "tool"),
        ("remote", "api.example"),
    ]
    assert SECRET not in json.dumps(info) + repr((program, remote, servers))
    assert await servers.servers("bob") == ()
    assert (await servers.servers_info("bob"))["file"] == ""


@pytest.mark.proves("chat:servers-own")
@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({}, "command"),
        ({"command": "a", "url": "http://b"}, "command"),
        ({"url": "file:///etc/passwd"}, "address"),
        ({"url": "http://[bad/mcp"}, "address"),
        ({"command": "a", "args": "b"}, "args"),
        ({"command": "a", "env": {"KEY": 5}}, "KEY"),
        ({"command": "${MISSING}"}, "MISSING"),
        ({"type": "sse", "url": "http://b"}, "type"),
    ],
)
async def test_an_invalid_entry_is_shown_and_not_used(
    servers: ChatSetup, entry: dict[str, Any], problem: str
) -> None:
    write(servers, bad=entry, good={"command": "a", "unknown": 1})
    bad, good = (await servers.servers_info(USER))["servers"]
    assert problem in bad["problem"]
    assert good["problem"] == ""
    assert [each.name for each in await servers.servers(USER)] == ["good"]


@pytest.mark.proves("chat:servers-own")
async def test_a_server_is_switched_off_in_its_entry(servers: ChatSetup) -> None:
    write(servers, a={"command": "a"}, b={"command": "b", "disabled": True})
    assert [each.name for each in await servers.servers(USER)] == ["a"]
    assert [each["enabled"] for each in (await servers.servers_info(USER))["servers"]] == [
        True,
        False,
    ]


@pytest.mark.proves("chat:servers-own")
@pytest.mark.skipif(os.name == "nt", reason="modes of files")
async def test_a_file_that_others_can_write_is_not_used(servers: ChatSetup) -> None:
    file = write(servers, a={"command": "a"})
    file.chmod(0o666)
    assert await servers.servers(USER) == ()
    assert "others can read or write" in (await servers.servers_info(USER))["problem"]


@pytest.mark.proves("chat:servers-own")
async def test_an_administrator_can_forbid_them(servers: ChatSetup) -> None:
    write(servers, a={"command": "a"})
    servers = replace(servers, allowed=False)
    assert await servers.servers(USER) == ()
    info = await servers.servers_info(USER)
    assert (info["allowed"], info["servers"]) == (False, [])


@pytest.mark.proves("chat:servers-own", "threat:secrets")
async def test_a_chat_calls_a_tool_of_a_server_once_the_person_approves_it(
    open_chats: Open, harness: ToolHarness, servers: ChatSetup, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    write(servers, mine=entry(NOTES=str(notes), TOKEN=SECRET), gone={"command": "no-such-thing"})
    talk = open_chats(setup=servers)
    policy = harness.workspace.policy
    note = ToolUse("mcp__mine__note", {"text": "one"})

    # In the mode `plan` nothing of a server is called.
    talk.model.add(Answer.of(note), Answer.of("A plan."))
    planned = await talk.say("Plan.", mode="plan")
    (refused,) = of_kind(planned, "tool_result")
    assert (refused["tool"], refused["ok"]) == ("mine__note", False)
    assert "gone" in of_kind(planned, "notice")[0]["text"]
    assert not notes.exists()
    chat = planned[0].data["chat"]
    children = psutil.Process().children(recursive=True)
    assert SECRET not in json.dumps([each.cmdline() for each in children])

    for mode in ("ask", "edit"):
        talk.model.add(Answer.of(note), Answer.of("Done."))
        begun = await talk.send("Do.", chat=chat, mode=mode)
        answers = []
        async for event in begun.events:
            if event.kind == "permission":
                answers = event.data["answers"]
                assert "one" in json.dumps(event.data["proposal"])
                policy.answer(USER, event.data["id"], "chat_tool" if mode == "edit" else "once")
            if event.kind == "tool_result":
                assert event.data["ok"], event.data
        assert answers == ["once", "chat_tool", "deny"], mode
    assert [each["tool"] for each in policy.standing.list(USER)] == ["mine__note"]

    # The approval of one tool lets its calls through, and no others.
    talk.model.add(Answer.of(note, ToolUse("mcp__mine__fail", {})), Answer.of("Done."))
    begun = await talk.send("Again.", chat=chat, mode="ask")
    asked: list[str] = []
    async for event in begun.events:
        if event.kind == "permission":
            asked.append(event.data["tool"])
            policy.answer(USER, event.data["id"], "deny")
    assert asked == ["mine__fail"]
    assert notes.read_text(encoding="utf-8") == "one\n" * 3
