"""A real agent from npm, end to end; only its model is scripted."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.acp.conftest import AcpTalk, OpenAcp
from tests.agent.acp.npm_agent import bundled_cli, claude_agent_acp
from tests.agent.conftest import USER, of_kind, rest, until
from tests.harness import ToolHarness
from tests.support.directed_model import DirectedModel
from tk_ai_extension.agent.chat_requests import QuestionAnswer

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

pytestmark = [pytest.mark.timeout(300), pytest.mark.proves("ext:any-agent")]


@pytest.fixture
async def model() -> AsyncIterator[DirectedModel]:
    model = DirectedModel()
    async with model.running():
        yield model


@pytest.fixture
def real(
    open_acp: OpenAcp, model: DirectedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AcpTalk:
    """Chats with the agent from npm, found by its name."""
    program = tmp_path / "bin" / "claude-agent-acp"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(claude_agent_acp())} "$@"\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    own = {
        "CLAUDE_CONFIG_DIR": str(tmp_path / "config"),
        "CLAUDE_CODE_EXECUTABLE": str(bundled_cli()),
    }
    return open_acp(environment={**os.environ, **model.environment, **own}, silence=20.0)


async def test_turns_of_a_real_agent(
    real: AcpTalk, model: DirectedModel, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", "a = 1")
    fields: dict[str, Any] = {"notebook": "a.ipynb", "mode": "ask", "model": "claude-agent-acp"}
    insert = '@call insert_cell {"source": "b = 1"}'
    events = await real.approved(insert, **fields)
    fields["chat"] = events[0].data["chat"]
    assert [each["tool"] for each in of_kind(events, "tool_call")] == ["insert_cell"]
    assert len(of_kind(events, "permission")) == 1
    assert of_kind(events, "tool_result")[0]["ok"]
    assert harness.sources("a.ipynb") == ["a = 1", "b = 1"]
    assert events[-1].data["text"].startswith("It says: ")
    assert of_kind(events, "usage")[0]["output_tokens"] > 0
    await real.chats.undo_turn(USER, fields["chat"], turn=events[0].turn)
    assert harness.sources("a.ipynb") == ["a = 1"]

    # A built-in tool, denied.
    touch = '@call Bash {"command": "touch /tmp/never", "description": "Touch"}'
    denied = await real.approved(touch, "deny", **fields)
    assert "touch /tmp/never" in of_kind(denied, "permission")[0]["preview"]
    assert not of_kind(denied, "tool_result")[0]["ok"]

    # Its questions, in a form of the protocol.
    options = [{"label": "Line", "description": "Over time"}, {"label": "Bars", "description": ""}]
    asked = {"question": "Which plot?", "header": "Plot", "options": options, "multiSelect": False}
    begun = await real.send(f"@call AskUserQuestion {json.dumps({'questions': [asked]})}", **fields)
    question = (await until(begun, "question")).data
    first, _other = question["questions"]
    assert (first["text"], first["header"], first["options"]) == ("Which plot?", "Plot", options)
    given = QuestionAnswer(call=question["call"], answers=[["Bars"], []])
    await real.chats.answer(USER, begun.chat, given)
    events = await rest(begun)
    assert '"Which plot?"="Bars"' in events[-1].data["text"]

    # A stop, and the turn after it, with a picture.
    begun = await real.send("@hold", **fields)
    await model.held.wait()
    assert await real.chats.stop(USER, begun.chat)
    assert (await until(begun, "done")).data["end"] == "stopped"
    picture = {"kind": "image", "mime": "image/png", "data": PIXEL}
    counted = await real.say("@count", attachments=[picture], **fields)
    assert counted[-1].data["text"].startswith("1 pictures")
    assert "You are Claude Agent, and work with a person" in model.requests[-1].system
