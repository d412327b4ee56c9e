"""What an agent may do with its built-in tools."""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import Any

import pytest

from tests.agent.acp.conftest import AcpTalk
from tests.agent.conftest import USER, of_kind, until
from tests.harness import ToolHarness
from tk_ai_extension.model.callers import Mode
from tk_ai_extension.workspace.permissions import Answer as Approval

ONCE = '{"optionId": "once", "outcome": "selected"}'
NO = '{"optionId": "no", "outcome": "selected"}'
RUN = 'own execute {"command": "rm -rf data"}'


@pytest.mark.proves("perm:agent-actions")
@pytest.mark.parametrize(
    ("mode", "kind", "expected"),
    [
        ("plan", "read", NO),
        ("plan", "think", ONCE),
        ("auto", "read", ONCE),
        ("plan", "edit", NO),
        ("plan", "execute", NO),
        ("edit", "edit", ONCE),
        ("auto", "execute", ONCE),
        ("auto", "switch_mode", NO),
    ],
)
async def test_the_mode_decides_about_an_action_without_a_card(
    acp: AcpTalk, mode: Mode, kind: str, expected: str
) -> None:
    name = "path" if kind == "edit" else "command"
    events = await acp.say(f'own {kind} {{"{name}": "x"}}', mode=mode)
    assert of_kind(events, "permission") == []
    assert events[-1].data["text"] == expected


@pytest.mark.proves("perm:agent-actions")
@pytest.mark.parametrize(("answer", "expected"), [("once", ONCE), ("deny", NO)])
async def test_a_person_decides_about_an_action_and_sees_all_of_it(
    acp: AcpTalk, answer: Approval, expected: str
) -> None:
    events = await acp.approved(RUN, answer, mode="ask")
    (called,) = of_kind(events, "tool_call")
    (asked,) = of_kind(events, "permission")
    (result,) = of_kind(events, "tool_result")
    assert called["call"] == asked["call"] == result["call"]
    assert asked["effect"] == "EXECUTE"
    assert "command: rm -rf data" in asked["preview"]
    assert (result["ok"], result["text"]) == (answer == "once", "output")
    assert events[-1].data["text"] == expected


async def test_an_approval_for_the_chat_counts_for_its_effect_only(acp: AcpTalk) -> None:
    events = await acp.approved(RUN, "chat", mode="ask")
    chat = events[0].data["chat"]
    assert of_kind(await acp.say(RUN, chat=chat, mode="ask"), "permission") == []
    edits = await acp.approved('own edit {"path": "x"}', "deny", chat=chat, mode="ask")
    assert len(of_kind(edits, "permission")) == 1


@pytest.mark.proves("perm:agent-actions")
async def test_a_stop_withdraws_the_request(acp: AcpTalk) -> None:
    begun = await acp.send(RUN, mode="ask")
    await until(begun, "permission")
    await acp.chats.stop(USER, begun.chat)
    await until(begun, "done")
    assert acp.services.workspace.policy.pending(USER) == []


@pytest.mark.proves("perm:agent-actions")
@pytest.mark.parametrize("before", ["one\ntwo\n", None])
async def test_a_file_that_the_agent_edits_itself_is_undone_with_its_turn(
    acp: AcpTalk, harness: ToolHarness, before: str | None
) -> None:
    file = harness.root / "data.txt"
    if before is not None:
        file.write_text(before)
    events = await acp.approved(f"edit {file} three", mode="ask")
    (asked,) = of_kind(events, "permission")
    assert "+three" in asked["preview"]
    assert file.read_text() == "three"
    (change,) = of_kind(events, "cell_change")
    assert change["notebook"] == "data.txt"
    (undone,) = await acp.chats.undo_turn(USER, events[0].data["chat"], turn=events[0].turn)
    assert undone.left == ()
    assert (file.read_text() if file.exists() else None) == before


@pytest.mark.proves("perm:agent-actions")
async def test_a_file_that_was_changed_since_is_not_undone(
    acp: AcpTalk, harness: ToolHarness
) -> None:
    file = harness.root / "new.txt"
    events = await acp.say(f"edit {file} new", mode="edit")
    assert file.read_text() == "new"
    file.write_text("newer")
    (undone,) = await acp.chats.undo_turn(USER, events[0].data["chat"], turn=events[0].turn)
    assert "changed since" in undone.left[0]
    assert file.read_text() == "newer"


@pytest.mark.proves("perm:agent-actions")
async def test_an_edit_that_was_not_asked_about_is_undone_where_the_file_shows_it(
    acp: AcpTalk, harness: ToolHarness
) -> None:
    file, twice = harness.root / "a.txt", harness.root / "twice.txt"
    outside = harness.root.parent / "outside.txt"
    file.write_text("one two")
    outside.write_text("one two")
    twice.write_text("one three")
    chat = (await acp.say("Hello."))[0].data["chat"]
    for path in (twice, outside):
        events = await acp.say(f"write {path} one three", chat=chat)
        assert of_kind(events, "cell_change") == []
    events = await acp.say(f"write {file} two three", chat=chat)
    (change,) = of_kind(events, "cell_change")
    assert change["diff"].splitlines()[1:] == ["-one two", "+one three"]
    await acp.chats.undo_turn(USER, chat, turn=events[0].turn)
    assert file.read_text() == "one two"
    assert (twice.read_text(), outside.read_text()) == ("three three", "three two")


@pytest.mark.proves("perm:agent-actions", "threat:path")
@pytest.mark.parametrize("path", ["../outside.txt", "/etc/passwd", "link.txt", ".hidden", "."])
async def test_an_edit_outside_the_root_is_asked_about_like_a_command(
    acp: AcpTalk, harness: ToolHarness, path: str
) -> None:
    outside = harness.root.parent / "outside.txt"
    outside.write_text("secret")
    (harness.root / "link.txt").symlink_to(outside)
    events = await acp.approved(f"edit {harness.root / path} x", "deny", mode="edit")
    assert [each["effect"] for each in of_kind(events, "permission")] == ["EXECUTE"]
    assert outside.read_text() == "secret"


@pytest.mark.proves("perm:agent-actions", "threat:path")
@pytest.mark.parametrize(
    ("call", "effect"),
    [
        ({"kind": "read", "locations": [{"path": "{root}/a.txt"}]}, None),
        ({"kind": "search", "locations": [{"path": "{root}"}]}, None),
        ({"kind": "read"}, "EXECUTE"),
        ({"kind": "read", "locations": [{"path": "notes.txt"}]}, "EXECUTE"),
        ({"kind": "read", "locations": [{"path": "/etc/passwd"}]}, "EXECUTE"),
        ({"kind": "read", "locations": [{"path": "{root}/../a.txt"}]}, "EXECUTE"),
        ({"kind": "edit", "locations": [{"path": "{root}/a.txt"}]}, "WRITE"),
        ({"kind": "edit", "locations": [{"path": "{root}/a"}, {"path": "/etc/b"}]}, "EXECUTE"),
        ({"kind": "delete", "locations": [{"path": "{root}/a"}]}, "EXECUTE"),
        ({"rawInput": {"patterns": ["/a"]}, "locations": [{"path": "/a"}]}, "EXECUTE"),
        ({"kind": "fetch", "rawInput": {"url": "https://host.example"}}, "EXECUTE"),
    ],
)
async def test_what_a_call_concerns_decides_how_it_is_asked_about(
    acp: AcpTalk, harness: ToolHarness, call: dict[str, Any], effect: str | None
) -> None:
    asked = json.dumps(call).replace("{root}", str(harness.root))
    events = await acp.approved(f"ask {asked}", "deny", mode="ask")
    cards = of_kind(events, "permission")
    assert [each["effect"] for each in cards] == ([] if effect is None else [effect])


@pytest.mark.proves("perm:agent-actions")
@pytest.mark.parametrize("path", ["a.ipynb", "A.IPYNB", "link.txt"])
async def test_a_notebook_is_never_written_as_a_file(
    acp: AcpTalk, harness: ToolHarness, path: str
) -> None:
    before = harness.write("a.ipynb", "a = 1").read_bytes()
    (harness.root / "link.txt").symlink_to("a.ipynb")
    assert await acp.text(f"edit {harness.root / path} {{}}", mode="auto") == NO
    assert (harness.root / "a.ipynb").read_bytes() == before


@pytest.mark.proves("ext:any-agent")
async def test_the_tools_of_an_agent_are_closed_to_another_program(
    acp: AcpTalk, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", "a = 1")
    events = await acp.say("server", notebook="a.ipynb")
    server = json.loads(events[-1].data["text"])
    other = await asyncio.create_subprocess_exec(
        server["command"], *server["args"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    said, _ = await other.communicate(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    assert said == b""
