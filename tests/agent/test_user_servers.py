"""MCP servers of the user's own: the file, their start, and calls of their tools in a chat."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import USER, Open, of_kind
from tests.harness import ToolHarness
from tests.support.scripted_model import Answer, ToolUse
from tk_ai_extension.agent.chat_setup import ChatSetup
from tk_ai_extension.agent.external_tools import ExternalTools
from tk_ai_extension.agent.user_servers import DISABLED, FILE, ServerConfig, UserServers
from tk_ai_extension.model.agent_errors import ServerFailed
from tk_ai_extension.model.errors import InvalidArguments, PermissionDenied

SECRET = "5ec4e7-value"
SERVER = Path(__file__).parent / "mcp_stand_in.py"


@pytest.fixture
def servers(tmp_path: Path) -> UserServers:
    (tmp_path / "own").mkdir()
    return UserServers(tmp_path / "own", frozenset({USER}), environment={"TOKEN": SECRET})


def write(servers: UserServers, **entries: object) -> Path:
    assert servers.folder is not None
    file = servers.folder / FILE
    file.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    file.chmod(0o600)
    return file


def entry(*args: str, **env: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(SERVER), *args], "env": env}


@pytest.mark.proves("threat:secrets")
async def test_the_screen_gets_no_argument_variable_or_header(servers: UserServers) -> None:
    write(
        servers,
        program={"command": "/opt/bin/tool", "args": [SECRET], "env": {"KEY": "${TOKEN}"}},
        remote={
            "type": "http",
            "url": f"https://api.example/{SECRET}",
            "headers": {"Authorization": SECRET},
        },
    )
    program, remote = await servers.enabled(USER)
    assert (dict(program.env), remote.url) == ({"KEY": SECRET}, f"https://api.example/{SECRET}")
    info = await servers.info(USER)
    assert [(each["name"], each["place"]) for each in info["servers"]] == [
        ("program", "tool"),
        ("remote", "api.example"),
    ]
    assert SECRET not in json.dumps(info) + repr((program, remote, servers))
    assert await servers.enabled("bob") == ()
    assert (await servers.info("bob"))["file"] == ""


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
    servers: UserServers, entry: dict[str, Any], problem: str
) -> None:
    write(servers, bad=entry, good={"command": "a", "unknown": 1})
    bad, good = (await servers.info(USER))["servers"]
    assert bad["state"] == "failed"
    assert problem in bad["problem"]
    assert good["state"] == "unused"


@pytest.mark.proves("chat:servers-own")
@pytest.mark.skipif(os.name == "nt", reason="modes of files")
async def test_a_file_that_others_can_write_is_not_used(servers: UserServers) -> None:
    file = write(servers, a={"command": "a"})
    file.chmod(0o666)
    assert await servers.enabled(USER) == ()
    assert "others can write" in (await servers.info(USER))["problem"]


@pytest.mark.proves("chat:servers-own")
@pytest.mark.skipif(os.name == "nt", reason="a FIFO")
@pytest.mark.parametrize("name", [FILE, DISABLED])
async def test_what_is_no_file_is_not_read(servers: UserServers, name: str) -> None:
    file = write(servers, a={"command": "a"}).with_name(name)
    file.unlink(missing_ok=True)
    os.mkfifo(file, mode=0o600)
    # A process that holds it open for writing could let a reader wait, or feed it.
    writer = os.open(file, os.O_RDWR)
    try:
        os.write(writer, b'{"mcpServers": {"other": {"command": "b"}}}')
        async with asyncio.timeout(10):
            assert await servers.enabled(USER) == ()
    finally:
        os.close(writer)


@pytest.mark.proves("chat:servers-own")
@pytest.mark.parametrize(
    "text", ["{", "[]", '{"mcpServers": 5}', '{"mcpServers": {}, "mcpServers": {}}', "[" * 90_000]
)
async def test_a_file_that_cannot_be_read_does_not_break_chats(
    servers: UserServers, text: str
) -> None:
    write(servers).write_text(text, encoding="utf-8")
    assert await servers.enabled(USER) == ()
    assert (await servers.info(USER))["problem"] != ""


@pytest.mark.proves("chat:servers-own")
async def test_a_server_is_switched_off_and_on(servers: UserServers) -> None:
    file = write(
        servers, a={"command": "a"}, b={"command": "b"}, c={"command": "c", "disabled": True}
    )
    before = file.read_bytes()

    async def names() -> list[str]:
        return [each.name for each in await servers.enabled(USER)]

    await servers.switch(USER, "a", enabled=False)
    assert await names() == ["b"]
    await servers.switch(USER, "a", enabled=True)
    assert await names() == ["a", "b"]
    assert file.read_bytes() == before
    with pytest.raises(InvalidArguments):
        await servers.switch(USER, "d", enabled=True)
    (file.parent / DISABLED).write_text("broken", encoding="utf-8")
    assert await names() == []


@pytest.mark.proves("chat:servers-own")
async def test_an_administrator_can_forbid_them(servers: UserServers) -> None:
    write(servers, a={"command": "a"})
    servers.allowed = False
    assert await servers.enabled(USER) == ()
    info = await servers.info(USER)
    assert (info["allowed"], info["servers"]) == (False, [])
    with pytest.raises(PermissionDenied):
        await servers.switch(USER, "a", enabled=True)


@pytest.mark.proves("chat:servers-own", "threat:secrets")
async def test_a_server_that_does_not_start_says_why_without_secrets(
    servers: UserServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    write(
        servers,
        missing={"command": "no-such-program-here"},
        broken=entry("--broken", STAND_IN=SECRET),
        works=entry(),
        invalid={},
    )
    configs = await servers.enabled(USER)
    tools = await ExternalTools.start(servers, configs, tmp_path / "work")
    try:
        assert [name for name, _ in tools.failures] == ["invalid", "missing", "broken"]
        shown = {each["name"]: each for each in (await servers.info(USER))["servers"]}
        assert "not found" in shown["missing"]["problem"]
        assert "cannot start with …" in shown["broken"]["problem"]
        assert SECRET not in json.dumps(shown) + repr(tools.failures)
        assert shown["works"]["state"] == "ready"
        assert {"name": "look", "reads": True} in shown["works"]["tools"]
        assert [each.name for each in tools.described if "look" in each.name] == ["works__look"]
        # It starts in an empty folder, without the server's variables.
        found = await tools.get("works__look").server.call("look", {"what": "x"})
        assert getattr(found.content[0], "text", "") == "x: , []"
        names = await tools.get("works__look").server.call("environment", {})
        assert "ANTHROPIC_API_KEY" not in str(names.content)
        with pytest.raises(ServerFailed):
            await tools.get("works__stop").server.call("stop", {})
        assert not tools.get("works__stop").server.alive
    finally:
        await tools.close()


@pytest.mark.proves("chat:servers-own")
@pytest.mark.parametrize("code", [-32000, -32001, -32603, 7])
async def test_a_server_that_answers_with_an_error_has_not_ended(
    servers: UserServers, tmp_path: Path, code: int
) -> None:
    write(servers, mine=entry())
    tools = await ExternalTools.start(servers, await servers.enabled(USER), tmp_path / "work")
    try:
        server = tools.get("mine__refuse").server
        for _ in range(2):
            with pytest.raises(ServerFailed, match="no such row"):
                await server.call("refuse", {"code": code})
            assert server.alive
            assert "here" in str((await server.call("look", {"what": "here"})).content)
        with pytest.raises(ServerFailed):
            await server.call("stop", {})
        for _ in range(2):
            assert not server.alive
            with pytest.raises(ServerFailed, match="has ended"):
                await server.call("look", {"what": "here"})
    finally:
        await tools.close()


@pytest.mark.proves("chat:servers-own")
async def test_without_a_folder_for_programs_the_chat_goes_on_without_them(
    servers: UserServers, tmp_path: Path
) -> None:
    write(servers, mine=entry(), invalid={}, remote={"url": "http://127.0.0.1:9/"})
    (tmp_path / "work").write_text("", encoding="utf-8")
    tools = await ExternalTools.start(servers, await servers.enabled(USER), tmp_path / "work")
    await tools.close()
    failures = dict(tools.failures)
    assert set(failures) == {"mine", "invalid", "remote"}
    assert "cannot be created" in failures["mine"]
    assert "cannot be created" not in failures["remote"]
    shown = {each["name"]: each for each in (await servers.info(USER))["servers"]}
    assert shown["mine"]["problem"] == failures["mine"]


@pytest.mark.proves("threat:secrets")
@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"url": f"https://Host.example:443/mcp?token={SECRET}"}, f"at /mcp?token={SECRET}"),
        ({"url": f"https://bob:{SECRET}@host/mcp"}, f"for bob with {SECRET}"),
        ({"url": f"https://HOST/{SECRET}/mcp"}, f"at https://host/{SECRET}/mcp"),
        ({"headers": (("authorization", f"Bearer {SECRET}"),)}, f"the token {SECRET}"),
        ({"args": (f"--token={SECRET}",)}, f"the token {SECRET}"),
        ({"args": (f"postgresql://bob:{SECRET}@host/db",)}, f"password {SECRET}"),
        ({"env": (("DATABASE", f"postgresql://bob:{SECRET}@host/db"),)}, f"password {SECRET}"),
    ],
)
def test_a_part_of_what_is_secret_is_not_shown(config: dict[str, Any], said: str) -> None:
    assert SECRET not in ServerConfig("mine", **config).redact(said)


@pytest.mark.proves("chat:servers-own")
async def test_a_chat_calls_a_tool_of_a_server_once_the_person_approves_it(
    open_chats: Open, harness: ToolHarness, servers: UserServers, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    write(servers, mine=entry(NOTES=str(notes), STAND_IN=SECRET), gone={"command": "no-such-thing"})
    talk = open_chats(setup=ChatSetup(servers=servers, work=tmp_path / "work"))
    policy = harness.workspace.policy
    note = ToolUse("mine__note", {"text": "one"})

    # What is not read-only is refused in the mode `plan`; what reads is asked about in every mode.
    talk.model.add(Answer.of(note), Answer.of("A plan."))
    planned = await talk.say("Plan.", mode="plan")
    (refused,) = of_kind(planned, "tool_result")
    assert refused["structured"]["error"]["code"] == "permission_denied"
    (notice,) = of_kind(planned, "notice")
    assert "gone" in notice["text"]
    chat = planned[0].data["chat"]

    for mode, tool in (("ask", note), ("edit", ToolUse("mine__look", {"what": "here"}))):
        talk.model.add(Answer.of(tool), Answer.of("Done."))
        begun = await talk.send("Do.", chat=chat, mode=mode)
        asked = None
        async for event in begun.events:
            if event.kind == "permission":
                asked = event.data
                policy.answer(USER, asked["id"], "chat_tool")
            if event.kind == "tool_result":
                assert event.data["ok"], event.data
        assert asked is not None, mode
        assert asked["answers"] == ["once", "chat_tool", "deny"]
    assert notes.read_text(encoding="utf-8") == "one\n"
    assert [each["tool"] for each in policy.standing.list(USER)] == ["mine__note", "mine__look"]

    # The approval of one tool lets its calls through, and no others.
    talk.model.add(Answer.of(note, ToolUse("mine__fail", {})), Answer.of("Done."))
    begun = await talk.send("Again.", chat=chat, mode="ask")
    asked_tools: list[str] = []
    async for event in begun.events:
        if event.kind == "permission":
            asked_tools.append(event.data["tool"])
            policy.answer(USER, event.data["id"], "deny")
    assert asked_tools == ["mine__fail"]
    assert notes.read_text(encoding="utf-8") == "one\none\n"

    # The program has changed under the same names: nobody has approved it.
    other = tmp_path / "others"
    write(servers, mine=entry(NOTES=str(other)))
    talk.model.add(Answer.of(note), Answer.of("Done."))
    begun = await talk.send("Again.", chat=chat, mode="ask")
    async for event in begun.events:
        if event.kind == "permission":
            asked_tools.append(event.data["tool"])
            policy.answer(USER, event.data["id"], "deny")
    assert asked_tools == ["mine__fail", "mine__note"]
    assert not other.exists()
