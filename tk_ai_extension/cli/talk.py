"""Talking to Claude from the command line: in the project's own chats, or in those of its server."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from tk_ai_extension.cli.wire import MODELS
from tk_ai_extension.model.agent_errors import AgentUnavailable
from tk_ai_extension.workspace.workspace import Workspace

if TYPE_CHECKING:
    from tk_ai_extension.agent.chats import Chats, StartedTurn
    from tk_ai_extension.agent.claude.provision import Provision
    from tk_ai_extension.tools.registry import Registry
    from tk_ai_extension.workspace.permissions import Answer

Json = dict[str, Any]

_named: ContextVar[Mapping[str, str]] = ContextVar("models of a command", default={})  # noqa: B039
"""What the environment of the command that talks says of models: it counts before the host's own.

Commands talk at the same time: each message is sent in the context of its own.
"""

MISSING = "claude-agent-sdk is not installed, which runs Claude."
"""What is said where a package is missing."""


class Talk(Protocol):
    """The chats of one place, and what is said in them; the JSON is that of the chat's routes."""

    def send(self, message: Json) -> AsyncIterator[Json]:
        """Sends a message (the body of ``POST mcp/chat``), and gives what happens until its turn ends.

        Raises:
            ToolError.
        """
        ...

    def approve(self, chat: str, answer: Json) -> AsyncIterator[Json]:
        """Answers a plan (the body of ``POST chats/{id}/plan``), and gives what comes of it.

        Raises:
            ToolError.
        """
        ...

    async def answer(self, permission: str, answer: str, message: str = "") -> None:
        """Answers a question of a turn.

        Raises:
            PermissionNotFound: it was answered before.
        """
        ...

    async def stop(self, chat: str) -> None:
        """Stops what goes on in a chat."""
        ...

    async def list(self) -> list[Json]:
        """The chats, the one used last first."""
        ...

    async def read(self, chat: str) -> Json:
        """A chat and all that happened in it: ``chat``, ``events``.

        Raises:
            ChatNotFound.
        """
        ...

    async def export(self, chat: str) -> str:
        """A chat as Markdown.

        Raises:
            ChatNotFound.
        """
        ...

    async def trust(self) -> None:
        """Uses the key of the folder's file from now on.

        Raises:
            ToolError.
        """
        ...


class ProjectChats:
    """The chats of a project, in its host; what they stand on is imported with the first one.

    They are those of a Jupyter Server with the same root: both keep them in the same place.

    Args:
        root: The project's folder.
        state: Where they are kept.
        workspace: What the tools work on.
        registry: The tools.
    """

    def __init__(self, root: Path, state: Path, workspace: Workspace, registry: Registry) -> None:
        self._root = root
        self._state = state
        self._workspace = workspace
        self._registry = registry
        self._opening: asyncio.Task[tuple[Chats, Provision]] | None = None

    async def talk(self, user: str, environment: Mapping[str, str]) -> Talk:
        """The chats of a user.

        Args:
            user: The user.
            environment: What their command's environment says about models.

        Raises:
            AgentUnavailable: a package is missing.
        """
        _named.set(environment)
        if self._opening is None:
            if importlib.util.find_spec("claude_agent_sdk") is None:
                raise AgentUnavailable(MISSING, hint="pip install --upgrade tk-ai-extension")
            self._opening = asyncio.create_task(self._open())
        chats, provision = await asyncio.shield(self._opening)
        return ProjectTalk(chats, provision, self._workspace, user)

    async def close(self) -> None:
        """Ends all chats, then what answered them."""
        if self._opening is not None:
            chats, provision = await self._opening
            await chats.close()
            await provision.close()

    async def _open(self) -> tuple[Chats, Provision]:
        await asyncio.to_thread(_import)
        from tk_ai_extension.agent.chats import Chats
        from tk_ai_extension.agent.claude.client import ClaudeBackend, ClaudeConfig
        from tk_ai_extension.agent.claude.providers import ProviderSettings
        from tk_ai_extension.agent.claude.provision import Provision
        from tk_ai_extension.agent.session import ChatServices, ChatSettings
        from tk_ai_extension.agent.transcripts import Transcripts

        def environment() -> Mapping[str, str]:
            # What a command says of models takes the place of all that the host's says: a key of one
            # does not go to an address of the other.
            named = _named.get()
            said = {n: v for n, v in os.environ.items() if not (named and n in MODELS)}
            return {**said, **named}

        provision = Provision(ProviderSettings(), environment, self._root)

        office = ChatServices(
            workspace=self._workspace,
            registry=self._registry,
            transcripts=Transcripts(self._state / "chats.sqlite"),
            backend=ClaudeBackend(ClaudeConfig(self._state / "claude"), provision.provider),
            settings=ChatSettings(),
        )
        return Chats(office), provision


class ProjectTalk:
    """The project's own chats: a `Talk`."""

    def __init__(self, chats: Chats, provision: Provision, workspace: Workspace, user: str) -> None:
        self._chats = chats
        self._provision = provision
        self._workspace = workspace
        self._user = user

    async def send(self, message: Json) -> AsyncIterator[Json]:
        """Sends a message, and gives what happens."""
        from tk_ai_extension.agent.requests import parse_request

        request = parse_request(message)
        async for event in _events(await self._chats.send(self._user, request)):
            yield event

    async def approve(self, chat: str, answer: Json) -> AsyncIterator[Json]:
        """Answers a plan, and gives what happens."""
        from tk_ai_extension.agent.requests import parse_plan_answer

        said = parse_plan_answer(answer)
        async for event in _events(await self._chats.answer_plan(self._user, chat, said)):
            yield event

    async def answer(self, permission: str, answer: str, message: str = "") -> None:
        """Answers a question of a turn."""
        policy = self._workspace.policy
        policy.answer(self._user, permission, cast("Answer", answer), message)

    async def stop(self, chat: str) -> None:
        """Stops what goes on in a chat."""
        await self._chats.stop(self._user, chat)

    async def list(self) -> list[Json]:
        """The chats."""
        return [
            {
                "id": chat.id,
                "title": chat.title,
                "notebook": chat.notebook,
                "created": chat.created,
                "updated": chat.updated,
                "busy": busy,
            }
            for chat, busy in await self._chats.list(self._user)
        ]

    async def read(self, chat: str) -> Json:
        """A chat and its events."""
        await self._chats.get(self._user, chat)
        described = next(each for each in await self.list() if each["id"] == chat)
        events = await self._chats.events(self._user, chat)
        return {"chat": described, "events": [event.as_dict() for event in events]}

    async def export(self, chat: str) -> str:
        """A chat as Markdown."""
        from tk_ai_extension.agent.export import as_markdown

        found = await self._chats.get(self._user, chat)
        return as_markdown(found, await self._chats.events(self._user, chat))

    async def trust(self) -> None:
        """Uses the key of the project's file from now on."""
        await self._provision.trust()


async def _events(begun: StartedTurn) -> AsyncIterator[Json]:
    async for event in begun.events:
        yield event.as_dict()


def _import() -> None:
    from tk_ai_extension.agent.imports import uncollected

    with uncollected():
        importlib.import_module("tk_ai_extension.agent.chats")
