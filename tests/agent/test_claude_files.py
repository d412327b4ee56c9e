"""Claude's built-in file tools below the root: files are read, edited and written in its process."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.conftest import USER, Talk, of_kind, rest, until
from tests.harness import ToolHarness
from tests.support.scripted_model import Answer, ToolUse
from tk_ai_extension.model.callers import Mode

ONE = "x = 1\ny = 2\n"


def uses(harness: ToolHarness, tool: str, path: str, **given: Any) -> ToolUse:
    return ToolUse(tool, {"file_path": str(harness.root / path), **given})


def edit(harness: ToolHarness, path: str, old: str, new: str, **given: Any) -> ToolUse:
    return uses(harness, "Edit", path, old_string=old, new_string=new, **given)


def read(harness: ToolHarness, path: str) -> Answer:
    return Answer.of(uses(harness, "Read", path))


@pytest.mark.proves("perm:agent-actions")
async def test_an_edit_is_asked_with_its_diff_and_undone_with_the_turn(
    talk: Talk, harness: ToolHarness
) -> None:
    """What the card shows is what happens; two edits of one answer are one change of the file."""
    file, new = harness.root / "sub" / "a.py", harness.root / "sub" / "b.py"
    file.parent.mkdir()
    file.write_bytes(b"x = 1\r\ny = 2\r\nz = 3\r\n")
    talk.model.add(
        read(harness, "sub/a.py"),
        Answer.of(
            edit(harness, "sub/a.py", "x = 1\ny = 2", "x = 5\ny = 2"),
            edit(harness, "sub/a.py", "z = 3", ""),
        ),
        Answer.of(uses(harness, "Write", "sub/b.py", content="new\n")),
        Answer.of("Done."),
    )
    events = await talk.approved("Change it.", mode="ask")
    asked = of_kind(events, "permission")
    assert [each["effect"] for each in asked] == ["WRITE"] * 3
    assert {"once", "chat", "chat_tool"} <= set(asked[0]["answers"])
    previews = [each["preview"] for each in asked]
    assert previews[0].startswith("Edit sub/a.py\n@@")
    assert "-x = 1\n+x = 5" in previews[0]
    assert previews[1].endswith("\n y = 2\n-z = 3\n ")
    assert previews[2] == "Write sub/b.py\n+new\n+"
    assert file.read_bytes() == b"x = 5\r\ny = 2\r\n"
    assert new.read_text() == "new\n"
    assert {each["notebook"] for each in of_kind(events, "cell_change")} == {"sub/a.py", "sub/b.py"}
    undone = await talk.chats.undo_turn(USER, events[0].data["chat"], turn=events[0].turn)
    assert [each.left for each in undone] == [(), ()]
    assert file.read_bytes() == b"x = 1\r\ny = 2\r\nz = 3\r\n"
    assert not new.exists()


@pytest.mark.proves("perm:agent-actions")
@pytest.mark.parametrize(("mode", "written"), [("plan", False), ("edit", True), ("auto", True)])
async def test_the_mode_decides_about_an_edit_without_a_card(
    talk: Talk, harness: ToolHarness, mode: Mode, written: bool
) -> None:
    (harness.root / "a.py").write_text(ONE)
    talk.model.add(
        read(harness, "a.py"), Answer.of(edit(harness, "a.py", "1", "3")), Answer.of("Done.")
    )
    events = await talk.say("Change it.", mode=mode)
    assert of_kind(events, "permission") == []
    assert [each["ok"] for each in of_kind(events, "tool_result")] == [True, written]
    assert (harness.root / "a.py").read_text() == (ONE.replace("1", "3") if written else ONE)


@pytest.mark.proves("perm:agent-actions", "threat:path")
async def test_files_outside_the_root_hidden_ones_and_notebooks_are_refused(
    talk: Talk, harness: ToolHarness
) -> None:
    """In every mode, also through a link; reading and writing."""
    outside = harness.root.parent / "outside.txt"
    outside.write_text("SECRET")
    (harness.root / ".secrets.env").write_text("KEY=SECRET")
    (harness.root / "link.txt").symlink_to(outside)
    (harness.root / "book.txt").symlink_to("n.ipynb")
    before = harness.write("n.ipynb", "SECRET = 1").read_bytes()
    refused = ["../outside.txt", "link.txt", ".secrets.env", "n.ipynb", "book.txt"]
    calls = [uses(harness, "Read", path) for path in refused]
    calls += [uses(harness, "Write", path, content="x") for path in ["new.ipynb", "../new.txt"]]
    calls += [uses(harness, "Write", ".new/x.txt", content="x")]
    calls += [ToolUse("Grep", {"pattern": "KEY", "path": str(harness.root)})]
    talk.model.add(*map(Answer.of, calls), Answer.of("Done."))
    events = await talk.say("Read all.", mode="auto")
    results = of_kind(events, "tool_result")
    assert [each["ok"] for each in results] == [False] * len(calls)
    assert "read_notebook" in results[3]["text"]
    assert "insert_cell" in results[5]["text"]
    assert "SECRET" not in "".join(each["text"] for each in results)
    assert (outside.read_text(), (harness.root / "n.ipynb").read_bytes()) == ("SECRET", before)
    assert not [*harness.root.parent.glob("new*"), *harness.root.glob("*new*")]


@pytest.mark.proves("perm:agent-actions", "threat:prompt-injection")
async def test_nothing_of_the_folder_of_a_read_file_reaches_the_model(
    talk: Talk, harness: ToolHarness
) -> None:
    """No memory file, rule or skill that lies there; a picture is read."""
    folder = harness.root / "sub"
    for name in ("CLAUDE.md", ".claude/rules/a.md", ".claude/skills/a/SKILL.md"):
        planted = folder / name
        planted.parent.mkdir(parents=True, exist_ok=True)
        planted.write_text("---\nname: a\ndescription: PLANTED\n---\nPLANTED")
    (folder / "a.py").write_text(ONE)
    talk.model.add(read(harness, "sub/a.py"), Answer.of("One."), Answer.of("Two."))
    chat = (await talk.say("Read.", mode="plan"))[0].data["chat"]
    await talk.say("And now?", chat=chat, mode="plan")
    assert "x = 1" in talk.model.requests[1].tool_results[0].text
    assert "PLANTED" not in str([each.body for each in talk.model.requests])
    assert "mcp__tk__read_file" not in talk.model.requests[0].tools


@pytest.mark.proves("perm:agent-actions")
async def test_a_file_that_the_person_changes_while_asked_stays_theirs(
    talk: Talk, harness: ToolHarness
) -> None:
    file = harness.root / "a.py"
    file.write_text(ONE)
    talk.model.add(
        read(harness, "a.py"), Answer.of(edit(harness, "a.py", "1", "3")), Answer.of("Done.")
    )
    begun = await talk.send("Change it.", mode="ask")
    asked = await until(begun, "permission")
    file.write_text("x = 1  # the person's\n")
    harness.workspace.policy.answer(USER, asked.data["id"], "once")
    events = await rest(begun)
    assert file.read_text() == "x = 1  # the person's\n"
    assert "changed" in talk.model.requests[-1].tool_results[-1].text
    assert of_kind(events, "cell_change") == []
