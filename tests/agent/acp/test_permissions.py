"""What an agent does with tools of its own, and with files through its client."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.acp.conftest import AcpTalk
from tests.agent.conftest import USER, of_kind
from tests.harness import ToolHarness
from tk_ai_extension.agent.acp import relay
from tk_ai_extension.agent.chats import StartedTurn
from tk_ai_extension.agent.events import Event
from tk_ai_extension.model.callers import Mode

ONCE = '{"outcome": "selected", "optionId": "once"}'
NO = '{"outcome": "selected", "optionId": "no"}'
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
    acp: AcpTalk, answer: str, expected: str
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
    await acp.until(begun, "permission")
    await acp.chats.stop(USER, begun.chat)
    await acp.until(begun, "done")
    assert acp.services.workspace.policy.pending(USER) == []


@pytest.mark.proves("perm:agent-actions")
async def test_a_file_is_read_and_written_below_the_root_and_undone_with_its_turn(
    acp: AcpTalk, harness: ToolHarness
) -> None:
    file = harness.root / "data.txt"
    file.write_text("one\ntwo\n")
    assert json.loads(await acp.text(f"read {file}"))["content"] == "one\ntwo\n"
    events = await acp.approved(f"write {file} three", mode="ask")
    (asked,) = of_kind(events, "permission")
    assert asked["preview"].splitlines()[2:] == ["-one", "-two", "-", "+three"]
    assert file.read_text() == "three"
    chat, turn = events[0].data["chat"], events[0].turn
    await acp.chats.undo_turn(USER, chat, turn=turn)
    assert file.read_text() == "one\ntwo\n"


@pytest.mark.proves("perm:agent-actions")
async def test_a_new_file_is_removed_by_the_undo(acp: AcpTalk, harness: ToolHarness) -> None:
    events = await acp.say(f"write {harness.root / 'new.txt'} new", mode="edit")
    assert (harness.root / "new.txt").read_text() == "new"
    await acp.chats.undo_turn(USER, events[0].data["chat"], turn=events[0].turn)
    assert not (harness.root / "new.txt").exists()


async def test_a_file_that_was_changed_since_is_not_undone(
    acp: AcpTalk, harness: ToolHarness
) -> None:
    events = await acp.say(f"write {harness.root / 'new.txt'} new", mode="edit")
    (harness.root / "new.txt").write_text("newer")
    (undone,) = await acp.chats.undo_turn(USER, events[0].data["chat"], turn=events[0].turn)
    assert "changed since" in undone.left[0]
    assert (harness.root / "new.txt").read_text() == "newer"


@pytest.mark.proves("perm:agent-actions")
async def test_an_approved_edit_and_its_write_are_one_card(
    acp: AcpTalk, harness: ToolHarness
) -> None:
    events = await acp.approved(f"edit {harness.root / 'a.txt'} text", mode="ask")
    assert (harness.root / "a.txt").read_text() == "text"
    assert len(of_kind(events, "permission")) == 1
    assert len({each["call"] for each in of_kind(events, "tool_call")}) == 1
    assert len(of_kind(events, "tool_result")) == 1


async def begun_edit(acp: AcpTalk, file: Path, text: str) -> tuple[StartedTurn, Event]:
    """A turn that asks for an edit of a file, and its card."""
    begun = await acp.send(f"edit {file} {text}", mode="ask")
    return begun, await acp.until(begun, "permission")


@pytest.mark.proves("perm:agent-actions")
@pytest.mark.parametrize("before", [None, ""])
async def test_an_approved_edit_is_asked_again_if_the_file_has_changed_meanwhile(
    acp: AcpTalk, harness: ToolHarness, before: str | None
) -> None:
    file, policy = harness.root / "a.txt", acp.services.workspace.policy
    if before is not None:
        file.write_text(before)
    begun, first = await begun_edit(acp, file, "text")
    file.write_text("person")
    policy.answer(USER, first.data["id"], "once")
    async for event in begun.events:
        if event.kind == "permission" and event.data["id"] != first.data["id"]:
            assert "-person" in event.data["preview"]
            policy.answer(USER, event.data["id"], "deny")
    assert file.read_text() == "person"


@pytest.mark.proves("perm:agent-actions")
async def test_an_approval_of_what_was_not_shown_approves_no_write(
    acp: AcpTalk, harness: ToolHarness
) -> None:
    # The agent shows a new file, and there is one.
    file = harness.root / "a.txt"
    file.write_text("person")
    events = await acp.approved(f"edit {file} text", mode="ask")
    assert ["-person" in each["preview"] for each in of_kind(events, "permission")] == [False, True]
    assert file.read_text() == "text"


@pytest.mark.proves("perm:agent-actions")
@pytest.mark.parametrize(
    ("shown", "texts", "count"),
    [
        ([], ["text"], 2),
        (["text"], ["text"], 1),
        (["text"], ["text", "text"], 2),
        (["text"], ["other", "text"], 3),
        (["text", "other"], ["other", "text"], 2),
    ],
)
async def test_an_approval_is_good_for_one_write_of_what_it_showed(
    asking: AcpTalk, harness: ToolHarness, shown: list[str], texts: list[str], count: int
) -> None:
    file = str(harness.root / "a.txt")
    diffs = [{"type": "diff", "path": file, "newText": each} for each in shown]
    edit = {"kind": "edit", "title": "Edit", "locations": [{"path": file}], "content": diffs}
    writes = [{"path": file, "content": text} for text in texts]
    _, cards = await asking.chosen([{"toolCall": edit, "writes": writes}], "ask", "once")
    assert len(cards) == count


@pytest.mark.proves("perm:agent-actions", "threat:path")
@pytest.mark.parametrize("path", ["../outside.txt", "/etc/passwd", "link.txt", ".hidden"])
@pytest.mark.parametrize("word", ["read", "write"])
async def test_a_path_outside_or_hidden_is_refused(
    acp: AcpTalk, harness: ToolHarness, word: str, path: str
) -> None:
    outside = harness.root.parent / "outside.txt"
    outside.write_text("secret")
    (harness.root / "link.txt").symlink_to(outside)
    said = await acp.text(f"{word} {harness.root / path} x", mode="auto")
    assert "path_refused" in said or "file_not_found" in said
    assert outside.read_text() == "secret"


@pytest.mark.proves("perm:agent-actions")
@pytest.mark.parametrize("path", ["a.ipynb", "A.IPYNB", "link.txt"])
async def test_a_notebook_is_never_written_as_a_file(
    acp: AcpTalk, harness: ToolHarness, path: str
) -> None:
    before = harness.write("a.ipynb", "a = 1").read_bytes()
    (harness.root / "link.txt").symlink_to("a.ipynb")
    said = await acp.text(f"write {harness.root / path} {{}}", mode="auto")
    assert "overwrite_cell" in said
    assert (harness.root / "a.ipynb").read_bytes() == before
    edited = await acp.text(f"edit {harness.root / 'a.ipynb'} {{}}", mode="auto")
    assert edited == NO
    for name in (path, f"{path}/", f"{path}//."):
        assert "read_notebook" in await acp.text(f"read {harness.root}/{name}", mode="auto")


@pytest.mark.proves("ext:any-agent")
async def test_the_key_of_an_agent_is_no_use_to_another_program(
    acp: AcpTalk, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", "a = 1")
    events = await acp.say("quiet list_cells {}", notebook="a.ipynb")
    live: Any = acp.chats
    access = live._live[events[0].data["chat"]]._agent.session.access
    for key in (access.key, "wrong"):
        environment = os.environ | {relay.SOCKET: str(access.path), relay.KEY: key}
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(Path(relay.__file__)),
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        said, _ = await other.communicate(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        assert said == b""
