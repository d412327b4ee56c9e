"""What an agent's own tools may write without asking: files below the root, and not hidden."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.acp.conftest import AcpTalk
from tests.harness import ToolHarness
from tk_ai_extension.agent import actions
from tk_ai_extension.agent.acp.calls import CallBook
from tk_ai_extension.agent.acp.paths import AgentFolder
from tk_ai_extension.agent.acp.permissions import action_of
from tk_ai_extension.model.callers import Caller, Mode
from tk_ai_extension.model.errors import PathRefused
from tk_ai_extension.workspace.folder_files import FolderFiles
from tk_ai_extension.workspace.permissions import PermissionDecision, PermissionPolicy

pytestmark = pytest.mark.proves("perm:agent-reads", "threat:path")

KINDS = ("edit", "delete", "move")
KEYS = ("file_path", "path", "filePath", "absolute_path", "paths", "uri", "old_path", "directory")
OTHERS = ("source", "destination", "from", "to", "target", "new_name", "args")
"""Names of arguments that have a path, which no rule about names knows."""

CONTENT: dict[str, Any] = {
    "old_string": "#!/usr/bin/env python\nopen(/etc/x)",
    "new_string": "../../x: ~/y",
    "edits": [{"oldText": "/etc/passwd", "newText": "{/a,../b}"}],
    "replace_all": True,
    "instruction": "Fix: read ~/.bashrc no more.",
}


@dataclass(frozen=True)
class Place:
    """A path as an agent names it, and whether it may be written without asking."""

    text: str
    inside: bool


@dataclass(frozen=True)
class Folders:
    """A root with links and hidden files, and a folder of an agent."""

    root: Path
    own: Path

    def places(self, *, in_project: bool) -> list[Place]:
        """Places in the root, in the agent's folder, and elsewhere, for an agent that works in either."""
        root, own = self.root, self.own
        inside = [
            *(f"{root}/{name}" for name in ("a.txt", "sub/data.txt", "missing.txt", "good.txt")),
            *("notes.txt", "sub/notes.txt", *([] if in_project else [f"{own}/notes.txt"])),
        ]
        outside = [
            *(f"{root}/{name}" for name in (".env", ".git/config", "link.txt", "out/x", "out")),
            *(f"{root}/../x", f"{root}-other/a.txt", f"{root}/sub/../a.txt", str(root)),
            *(f"{root}/sub", f"{own}/out/x", "../x", "~/.bashrc", "~", "~me/x", "$HOME/../x"),
            *("/etc/passwd", "/", "//etc/x", "file:///etc/x", "C:/x", "out/x", "", "a\0b"),
            *(f"{root}/a.txt\n/etc/x", "{/etc,/var}/x"),
        ]
        return [*(Place(text, True) for text in inside), *(Place(text, False) for text in outside)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return made(tmp_path_factory.mktemp("own") / "root")


def made(root: Path) -> Folders:
    """The folders, made."""
    own = root.parent / "agent"
    own.mkdir()
    (root / "sub").mkdir(parents=True)
    for name in ("a.txt", "sub/data.txt", ".env"):
        (root / name).write_text("text")
    (root.parent / "outside.txt").write_text("secret")
    (root / "good.txt").symlink_to("a.txt")
    (root / "link.txt").symlink_to(root.parent / "outside.txt")
    (root / "out").symlink_to(root.parent)
    (own / "out").symlink_to("/etc")
    return Folders(root, own)


def named_in_input(raw: dict[str, Any], kind: str, text: str, key: str, form: str) -> None:
    """Name a path in the input of a call, in one of the forms of agents."""
    match form:
        case "key":
            raw.setdefault("changes", {})[text] = {"type": "update", "unified_diff": "+/etc/x"}
        case "patch" if kind == "edit" and text.isprintable():
            patch = raw.get("patchText", "*** Begin Patch\n")
            raw["patchText"] = f"{patch}*** Delete File: {text}\n"
        case "nested":
            raw.setdefault("files", []).append({"note": "x", key: [text]})
        case "other" if kind != "edit" or key not in raw:
            raw.setdefault("more", []).append({OTHERS[len(raw) % len(OTHERS)]: text})
        case _:
            raw.setdefault("items", []).append({key: text})


@st.composite
def calls(draw: st.DrawFn, places: list[Place]) -> tuple[dict[str, Any], bool]:
    """A call, and whether all that it names may be written without asking."""
    kind = draw(st.sampled_from((*KINDS, *KINDS, "read", "think", "search")))
    call: dict[str, Any] = {"kind": kind, "title": draw(st.sampled_from(("Edit", "think /x")))}
    raw: dict[str, Any] = dict(CONTENT) if kind == "edit" and draw(st.booleans()) else {}
    shown: list[dict[str, Any]] = []
    by_path, named = False, draw(st.lists(st.sampled_from(places), max_size=4))
    for place in named:
        form = draw(
            st.sampled_from(("flat", "key", "patch", "nested", "other", "diff", "location"))
        )
        if form == "diff":
            shown.append({"type": "diff", "path": place.text, "newText": "text"})
        elif form == "location":
            call.setdefault("locations", []).append({"path": place.text})
        else:
            named_in_input(raw, kind, place.text, draw(st.sampled_from(KEYS)), form)
        by_path = by_path or form != "other"
    if kind not in KINDS:
        # A read that shows a change is a write.
        shown.append({"type": "diff", "path": places[0].text, "newText": "text"})
    known = bool(named and by_path) or kind not in KINDS
    return call | {"rawInput": raw, "content": shown}, known and all(p.inside for p in named)


def runs(
    folders: Folders,
    call: dict[str, Any],
    mode: Mode,
    *,
    approved: bool = False,
    in_project: bool = False,
) -> bool:
    """Whether an action runs without a card; after an approval of another edit in the chat, if given."""
    report = CallBook({}).report({"toolCallId": "1", **call})
    place = AgentFolder(folders.root if in_project else folders.own, own=not in_project)
    action = action_of(report, "Agent", place)
    assert action.effect == "WRITE"
    policy, caller = PermissionPolicy(), Caller("me", "chat", mode=mode, interface="chat")
    if approved:
        policy.standing.add(caller, "WRITE", notebook=None, tool=None)
    try:
        effect = actions._effect(FolderFiles(folders.root), action)
    except PathRefused:
        return False
    decision = policy.decision(caller, effect, None, tool=action.tool, scope="effect")
    return decision is PermissionDecision.RUN


@given(st.data())
def test_nothing_elsewhere_or_unnamed_is_written_without_a_card(
    folders: Folders, data: st.DataObject
) -> None:
    in_project = data.draw(st.booleans())
    call, inside = data.draw(calls(folders.places(in_project=in_project)))
    assert runs(folders, call, "edit", in_project=in_project) == inside
    assert runs(folders, call, "ask", in_project=in_project, approved=True) == inside
    assert not runs(folders, call, "ask", in_project=in_project)


def test_the_content_of_an_edit_is_no_path(folders: Folders) -> None:
    call = {"kind": "edit", "rawInput": CONTENT | {"file_path": f"{folders.root}/a.txt"}}
    assert runs(folders, call, "edit")
    assert not runs(folders, {"kind": "edit", "rawInput": CONTENT}, "edit")


@pytest.mark.proves("perm:agent-actions")
async def test_a_card_shows_what_an_edit_elsewhere_would_write(
    asking: AcpTalk, harness: ToolHarness
) -> None:
    inside, outside = str(harness.root / "a.txt"), "/home/me/thesis"
    diff = {"type": "diff", "path": inside, "newText": "text"}
    elsewhere: list[dict[str, Any]] = [
        {"rawInput": {"file_path": outside}},
        {"locations": [{"path": outside}]},
        {"rawInput": {"source": inside, "path": outside}, "locations": [{"path": inside}]},
        {"rawInput": {"path": outside}, "content": [diff]},
        {"locations": [{"path": outside}], "content": [diff]},
        {"content": [diff | {"path": outside}]},
    ]
    requests = [{"toolCall": {"kind": kind, **each}} for kind in KINDS for each in elsewhere]
    for mode in ("ask", "edit"):
        answers, cards = await asking.chosen(requests, mode)
        assert answers == ["no"] * len(requests)
        assert {each["effect"] for each in cards} == {"EXECUTE"}
        assert [outside in each["preview"] for each in cards] == [True] * len(requests)
    assert await asking.chosen(requests, "plan") == (["no"] * len(requests), [])


@pytest.mark.proves("perm:agent-actions")
async def test_an_approval_of_one_edit_in_the_chat_is_none_of_one_elsewhere(
    asking: AcpTalk, harness: ToolHarness
) -> None:
    edit = {"kind": "edit", "rawInput": {"file_path": str(harness.root / "a.txt")}}
    delete = {"kind": "delete", "rawInput": {"file_path": "/home/me/thesis"}}
    requests = [{"toolCall": edit}, {"toolCall": edit}, {"toolCall": delete}]
    _, cards = await asking.chosen(requests, "ask", "chat")
    assert [each["effect"] for each in cards] == ["WRITE", "EXECUTE"]


@pytest.mark.proves("perm:agent-files")
async def test_a_notebook_is_refused_by_each_of_its_names(
    asking: AcpTalk, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", "a = 1")
    (harness.root / "link.txt").symlink_to("a.ipynb")
    names = [f"{harness.root}/a.ipynb", f"{harness.root}/link.txt"]
    requests = [
        {"toolCall": {"kind": kind, **fields}}
        for kind in KINDS
        for name in names
        for fields in (
            {"rawInput": {"path": name}},
            {"locations": [{"path": name}], "rawInput": {"path": "/etc/x"}},
        )
    ]
    assert await asking.chosen(requests, "auto") == (["no"] * len(requests), [])
