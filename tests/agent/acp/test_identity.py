"""Which calls of an agent are calls of our tools: never by what the model writes."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

from tests.agent.acp.conftest import AcpTalk
from tests.harness import ToolHarness
from tk_ai_extension.agent.acp.calls import CallBook
from tk_ai_extension.model.callers import Mode

KINDS = (
    "read", "search", "think", "other", "edit", "delete", "move", "execute", "fetch",
    "switch_mode", None,
)  # fmt: skip
ENVELOPE: dict[str, Any] = {"server": "tk", "tool": "list_cells", "arguments": {}}
OWN_INPUTS: tuple[Any, ...] = (
    {"command": "rm -rf data", **ENVELOPE},
    {"command": "rm -rf data", "server": "tk", "tool": "list_cells"},
    {"command": "rm -rf data", "tool": "mcp__tk__list_cells"},
    {"server": "tk", "name": "list_cells", "args": {}},
    {"server": "tk", "toolName": "list_cells"},
    {"reason": "list_cells", "permissions": {"network": True}},
    "mcp__tk__list_cells",
)
INPUTS = (*OWN_INPUTS, ENVELOPE, {"notebook": "a.ipynb"}, None)
NAMED = ("mcp__tk__list_cells", "mcp.tk.list_cells", "tk_list_cells", "list_cells (tk MCP Server)")
NAMELESS = (
    "list_cells", "undo", "Run mcp__tk__list_cells", "mcp__gh__list_cells", "mcp__tk__rm",
    "mcp__TK__list_cells", "list_cells (gh MCP Server)", "gh_list_cells", "rm -rf data", None,
)  # fmt: skip
FOREIGN = ("Bash", "list_cells", "NotebookEdit", "mcp__gh__list_cells", "mcp__tk__rm")


def call(kind: str | None, title: str | None, raw: Any, stated: str = "") -> dict[str, Any]:
    """A call as an agent reports it."""
    fields: dict[str, Any] = {"kind": kind, "title": title, "rawInput": raw}
    if stated:
        fields["_meta"] = {"claudeCode": {"toolName": stated}}
    return {name: value for name, value in fields.items() if value is not None}


def tool(*reports: dict[str, Any]) -> str | None:
    """The tool of ours that reports with one id name."""
    book = CallBook({"list_cells": {"notebook"}, "undo": set(), "NotebookEdit": {"cell_id"}})
    return [book.report({"toolCallId": "1", **each}).tool for each in reports][-1]


@pytest.mark.proves("perm:agent-actions")
def test_what_the_model_writes_is_no_proof() -> None:
    for kind, raw, title in product(KINDS, INPUTS, NAMELESS):
        assert tool(call(kind, title, raw)) is None, (kind, raw, title)
    for kind, raw, title in product(KINDS, OWN_INPUTS, NAMED):
        assert tool(call(kind, title, raw)) is None, (kind, raw, title)
    guarded = [kind for kind in KINDS if kind not in ("read", "search", "think", "other", None)]
    for kind, title in product(guarded, NAMED):
        assert tool(call(kind, title, None)) is None, (kind, title)


@pytest.mark.proves("perm:agent-actions")
def test_a_name_that_the_program_states_decides_alone() -> None:
    for kind, raw, title in product(KINDS, INPUTS, (*NAMED, *NAMELESS)):
        for stated in FOREIGN:
            assert tool(call(kind, title, raw, stated)) is None, (kind, raw, title, stated)
            # Also if only an earlier report has stated it.
            assert tool(call("other", None, None, stated), call(kind, title, raw)) is None
        assert tool(call(kind, title, raw, "mcp__tk__list_cells")) == "list_cells"


@pytest.mark.proves("perm:agent-actions")
def test_each_report_is_judged_with_what_is_known_by_then() -> None:
    ours = call("other", "mcp__tk__list_cells", None)
    for kind in ("execute", "edit", "delete", "move", "fetch"):
        assert tool(ours, call(kind, "rm -rf data", {"command": "rm -rf data"})) is None
        assert tool(ours, {"kind": kind}) is None
    generator = random.Random(5)
    for _ in range(3_000):
        reports = [
            call(generator.choice(KINDS), generator.choice((*NAMED, *NAMELESS)), raw)
            for raw in generator.choices(INPUTS, k=3)
        ]
        own = call("execute", None, {"command": "rm -rf data", **ENVELOPE})
        assert tool(*reports, own) is None, reports


def test_the_forms_of_known_agents_name_our_tools() -> None:
    codex = call("execute", "mcp.tk.list_cells", ENVELOPE)
    assert tool(codex) == tool(codex, {"kind": "execute"}) == "list_cells"
    for title in NAMED:
        for raw in (None, {"notebook": "a.ipynb"}, ENVELOPE):
            assert tool(call("other", title, raw)) == "list_cells", (title, raw)
    assert (
        tool(call("other", 'list_cells (tk MCP Server): {"notebook": "a"}', None)) == "list_cells"
    )


@pytest.mark.parametrize("kind", ["execute", "edit", "other"])
async def test_a_call_with_the_arguments_of_another_is_not_that_one(kind: str) -> None:
    book = CallBook({"list_cells": {"notebook"}})
    own = {"toolCallId": "1", **call(kind, "A tool", {"command": "rm"})}
    book.report(own)
    await book.claim("list_cells", {"command": "rm"})
    assert book.report(own).tool is None


@pytest.mark.proves("perm:agent-actions")
@pytest.mark.parametrize("mode", ["plan", "ask", "edit"])
async def test_an_action_that_poses_as_a_call_of_ours_is_decided_by_the_mode(
    asking: AcpTalk, mode: Mode
) -> None:
    # These read nothing of the person's here. The others name no path, so that even an edit asks.
    kinds = [kind for kind in KINDS if kind not in ("think", "search")]
    every = [
        *product(kinds, NAMELESS, INPUTS, ("", *FOREIGN)),
        *product(kinds, NAMED, OWN_INPUTS, ("", *FOREIGN)),
    ]
    requests: list[Any] = []
    for kind, title, raw, stated in random.Random(7).sample(every, 60):
        posing = call(kind, title, raw if isinstance(raw, dict) else None, stated)
        requests.append({"toolCall": posing})
        # The same, where only an earlier report has the input and the name.
        requests.append({"updates": [posing], "toolCall": {"kind": kind or "execute"}})
    answers, cards = await asking.chosen(requests, mode)
    assert answers == ["no"] * len(requests)
    asked = [each for each in requests if each["toolCall"].get("kind") != "switch_mode"]
    assert len(cards) == (0 if mode == "plan" else len(asked))


@pytest.mark.proves("perm:agent-actions")
async def test_a_call_of_ours_is_allowed_in_every_mode(asking: AcpTalk) -> None:
    requests = [
        {"toolCall": call("other", None, {}, "mcp__tk__list_cells")},
        {"toolCall": call("other", "tk_list_cells", {"notebook": "a.ipynb"})},
        {
            "updates": [call("execute", "mcp.tk.list_cells", ENVELOPE)],
            "toolCall": {"kind": "execute"},
        },
    ]
    for mode in ("plan", "ask", "edit", "auto"):
        assert await asking.chosen(requests, mode) == (["once"] * 3, [])


@pytest.mark.proves("perm:agent-actions")
async def test_no_notebook_is_written_by_an_agents_own_tool(
    asking: AcpTalk, harness: ToolHarness
) -> None:
    path = str(harness.write("a.ipynb", "a = 1"))
    (harness.root / "link.txt").symlink_to("a.ipynb")
    diff = {"type": "diff", "path": path, "oldText": None, "newText": "{}"}
    requests = [
        {"toolCall": call("other", None, {"notebook_path": path}, "NotebookEdit")},
        {"toolCall": call("edit", "Edit", {"file_path": path})},
        {"toolCall": call("edit", "Edit", None) | {"locations": [{"path": path}]}},
        {"toolCall": call("read", "Read", None) | {"content": [diff]}},
        {
            "toolCall": call("edit", "E", None)
            | {"locations": [{"path": f"{harness.root}/link.txt"}]}
        },
    ]
    assert await asking.chosen(requests, "auto") == (["no"] * len(requests), [])
