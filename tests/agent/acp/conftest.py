"""Chats with a scripted agent that speaks the Agent Client Protocol, in a separate process."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.agent.conftest import USER, Talk
from tests.harness import ToolHarness, backend, harness, jp_server_config
from tests.support import acp_agent
from tests.support.echo_agent import EchoBackend
from tests.support.scripted_model import ScriptedModel
from tk_ai_extension.agent.acp.backend import AcpBackend, known_agents
from tk_ai_extension.agent.chat_store import ChatStore
from tk_ai_extension.agent.chats import Chats, TurnStream
from tk_ai_extension.agent.live_chat import ChatLimits, ChatServices

__all__ = ["backend", "harness", "jp_server_config"]

AGENT = "scripted"
COMMAND = [sys.executable, "-I", "-S", str(Path(acp_agent.__file__).resolve())]


@dataclass
class AcpTalk(Talk):
    """A person's side of the chats, with the scripted agent."""

    folder: Path = Path()

    def __init__(self, chats: Chats, services: ChatServices, folder: Path) -> None:
        super().__init__(chats, services, ScriptedModel())
        self.folder = folder

    async def send(
        self, message: str, user: str = USER, *, model: str = AGENT, **fields: Any
    ) -> TurnStream:
        return await super().send(message, user, model=model, **fields)

    async def text(self, message: str, **fields: Any) -> str:
        """Sends a message and returns the whole text of the answer."""
        events = await self.say(message, **fields)
        return "".join(event.data["text"] for event in events if event.kind == "text")


OpenAcp = Callable[..., AcpTalk]


@pytest.fixture
async def open_acp(harness: ToolHarness, tmp_path: Path) -> AsyncIterator[OpenAcp]:
    """Opens chats with the scripted agent; its processes must have ended at the end."""
    opened: list[AcpTalk] = []
    before = {each.pid for each in psutil.Process().children(recursive=True)}

    def open_(
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        variables: tuple[str, ...] = (),
        logins: Mapping[str, Any] | None = None,
        agents: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> AcpTalk:
        scripted = {
            "command": [*COMMAND, *arguments],
            "title": "Scripted",
            "variables": variables,
            "logins": logins or {},
        }
        folder = tmp_path / "acp"
        variables_of = os.environ if environment is None else environment
        commands = known_agents({AGENT: scripted, **(agents or {})})
        services = ChatServices(
            workspace=harness.workspace,
            registry=harness.registry,
            store=ChatStore(tmp_path / "chats" / "chats.sqlite"),
            backend=EchoBackend(),
            settings=ChatLimits(**settings),
            agents={
                name: AcpBackend(command, folder, environment=variables_of)
                for name, command in commands.items()
            },
        )
        opened.append(AcpTalk(Chats(services), services, folder / AGENT))
        return opened[-1]

    yield open_
    for talk in opened:
        await talk.close()
    after = psutil.Process().children(recursive=True)
    left = [each for each in after if each.pid not in before and "acp" in " ".join(_line(each))]
    assert left == []


def _line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.fixture
def acp(open_acp: OpenAcp) -> AcpTalk:
    return open_acp()
