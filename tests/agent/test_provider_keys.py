"""A key in ``.secrets.env``: who gets it, and that nobody else does."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from tests.agent.conftest import Talk, of_kind
from tests.agent.test_chat_recovery import processes
from tests.cases import Cases
from tests.harness import ToolHarness
from tests.support.scripted_model import (
    KEY,
    MODEL,
    Answer,
    Failure,
    Held,
    ScriptedModel,
    ToolUse,
)
from tk_ai_extension.agent.chat import ChatServices, ChatSettings
from tk_ai_extension.agent.chats import Chats
from tk_ai_extension.agent.claude.client import ClaudeBackend
from tk_ai_extension.agent.claude.connections import ClaudeModels
from tk_ai_extension.agent.claude.providers import ProviderSettings
from tk_ai_extension.agent.store import ChatStore

CANARY = "canary-5e1f0a7b93"
LOOK = "import os\nprint(sorted(os.environ.items()))"


def contents(folder: Path) -> bytes:
    """All that is in the files below a folder."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@asynccontextmanager
async def talking(
    harness: ToolHarness, tmp_path: Path, model: ScriptedModel
) -> AsyncGenerator[Talk]:
    """A talk whose key comes from the file in the root."""
    async with model.running():
        settings = ProviderSettings(base_url=model.url, model=MODEL, secrets_file=".secrets.env")
        models = ClaudeModels(settings, harness.root, environment={"CLAUDE_CODE_MAX_RETRIES": "0"})
        services = ChatServices(
            workspace=harness.workspace,
            registry=harness.registry,
            store=ChatStore(tmp_path / "chats" / "chats.sqlite"),
            backend=ClaudeBackend(tmp_path / "claude", models.provider),
            settings=ChatSettings(),
        )
        talk = Talk(Chats(services), services, model)
        try:
            yield talk
        finally:
            await talk.chats.close()


@pytest.mark.proves("ext:secrets", "threat:secrets")
async def test_the_key_of_the_file_is_the_model_s_server_s_and_nobody_else_s(
    harness: ToolHarness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    harness.write("a.ipynb", "1 + 1")
    (harness.root / ".secrets.env").write_text(
        f"export ANTHROPIC_API_KEY='{KEY}'\n"
        f'ANTHROPIC_CUSTOM_HEADERS="X-Canary: {CANARY}"\nMY_PASSWORD={CANARY}\n',
        encoding="utf-8",
    )
    model = ScriptedModel(
        Answer.of(ToolUse("insert_and_execute_cell", {"source": LOOK})),
        Answer.of(ToolUse("read_file", {"path": ".secrets.env"})),
        Answer.of(ToolUse("list_files")),
        Answer.of("I see nothing."),
    )
    async with talking(harness, tmp_path, model) as talk:
        events = await talk.say("Look around.", notebook="a.ipynb", mode="auto")

    assert [(each["tool"], each["ok"]) for each in of_kind(events, "tool_result")] == [
        ("insert_and_execute_cell", True),
        ("read_file", False),
        ("list_files", True),
    ]
    assert len(model.requests) == 4
    for request in model.requests:
        assert (request.headers["X-Api-Key"], request.headers.get("X-Canary")) == (KEY, None)
    kept = contents(tmp_path / "chats")
    of_the_cli = contents(tmp_path / "claude")
    places = {
        "notebook": (harness.root / "a.ipynb").read_text("utf-8"),
        "model": json.dumps([dict(request.body) for request in model.requests]),
        "events": json.dumps([event.data for event in events]),
        "log": caplog.text,
        "transcript": kept.decode("utf-8", "replace"),
        "cli": of_the_cli.decode("utf-8", "replace"),
    }
    assert "PATH" in places["notebook"]
    assert all("Look around." in places[name] for name in ("model", "transcript", "cli"))
    assert "ServerApp" in places["log"]
    for name, text in places.items():
        assert (name, CANARY in text, KEY in text) == (name, False, False)


@pytest.mark.real_cli
async def test_claude_s_process_talks_to_the_model_s_server_alone_and_listens_nowhere(
    talk: Talk,
) -> None:
    held = Held(Answer.of("One, two, three, four."), after=4)
    talk.model.add(held)
    begun = await talk.send("Count.")
    async with asyncio.timeout(20):
        await held.held.wait()
    (process,) = processes()
    connections = process.net_connections(kind="inet")
    held.go_on.set()
    assert [event.data["end"] async for event in begun.events if event.kind == "done"] == ["done"]
    assert connections
    assert {f"http://{each.raddr.ip}:{each.raddr.port}" for each in connections} == {talk.model.url}
    assert [each for each in connections if each.status == psutil.CONN_LISTEN] == []


@pytest.mark.proves("threat:secrets")
async def test_a_server_that_repeats_the_key_it_refuses_is_not_quoted_with_it(
    harness: ToolHarness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    (harness.root / ".secrets.env").write_text(f"ANTHROPIC_API_KEY={KEY}\n", encoding="utf-8")
    model = ScriptedModel()
    chat: dict[str, str] = {}
    async with talking(harness, tmp_path, model) as talk:
        with Cases() as cases:
            for status in (400, 403):
                with cases.case(status):
                    model.clear()
                    reason = f"The key {KEY} is not known here ({status})."
                    model.add(*[Failure(status, "authentication_error", reason)] * 10)
                    events = await talk.say("Are you there?", **chat)
                    chat = {"chat": events[0].data["chat"]}
                    (failed,) = of_kind(events, "error")
                    assert "[secret]" in failed["error"]["message"]
                    assert KEY not in json.dumps([event.data for event in events])
    assert KEY.encode() not in contents(tmp_path / "chats")
    assert KEY not in caplog.text
