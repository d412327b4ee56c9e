"""Client of the chats for the command line, with the JSON of the REST routes."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Protocol, cast

from tk_ai_extension.workspace.workspace import Workspace

if TYPE_CHECKING:
    from tk_ai_extension.agent.chats import Chats, StartedTurn
    from tk_ai_extension.agent.models import ModelsInfo
    from tk_ai_extension.workspace.permissions import Answer

Json = dict[str, Any]


class Models(Protocol):
    """Finds the model."""

    async def health(self) -> ModelsInfo:
        """Return what is configured and what is missing, without values."""
        ...


class ChatClient:
    """Client of one user's chats.

    Args:
        chats: The server's chats.
        models: Finds the model.
        workspace: The server's workspace, with the permission requests of turns.
        user: The user.
    """

    def __init__(self, chats: Chats, models: Models, workspace: Workspace, user: str) -> None:
        self._chats = chats
        self._models = models
        self._workspace = workspace
        self._user = user

    async def send(self, message: Json) -> AsyncIterator[Json]:
        """Send a message (the body of ``POST mcp/chat``) and yield the events of its turn.

        Raises:
            ToolError.
        """
        from tk_ai_extension.agent.requests import parse_request

        request = parse_request(message)
        async for event in _events(await self._chats.send(self._user, request)):
            yield event

    async def approve(self, chat: str, answer: Json) -> AsyncIterator[Json]:
        """Answer a plan (the body of ``POST chats/{id}/plan``) and yield the events of its turn.

        Raises:
            ToolError.
        """
        from tk_ai_extension.agent.requests import parse_plan_answer

        said = parse_plan_answer(answer)
        async for event in _events(await self._chats.answer_plan(self._user, chat, said)):
            yield event

    async def answer(self, permission: str, answer: str, message: str = "") -> None:
        """Answer a permission request of a turn.

        Raises:
            NotFound: it was answered before.
        """
        policy = self._workspace.policy
        policy.answer(self._user, permission, cast("Answer", answer), message)

    async def stop(self, chat: str) -> None:
        """Stop the running and queued turns of a chat."""
        await self._chats.stop(self._user, chat)

    async def list(self) -> builtins.list[Json]:
        """List the chats, most recently used first."""
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
        """Return a chat with its events: ``chat``, ``events``.

        Raises:
            ChatNotFound.
        """
        await self._chats.get(self._user, chat)
        described = next(each for each in await self.list() if each["id"] == chat)
        events = await self._chats.events(self._user, chat)
        return {"chat": described, "events": [event.as_dict() for event in events]}

    async def export(self, chat: str) -> str:
        """Export a chat as Markdown.

        Raises:
            ChatNotFound.
        """
        from tk_ai_extension.agent.export import as_markdown

        found = await self._chats.get(self._user, chat)
        events = await self._chats.events(self._user, chat)
        return as_markdown(found, events, self._chats.agent_of)

    async def model(self) -> ModelsInfo:
        """Return what is configured and what is missing, without values."""
        return await self._models.health()


async def _events(begun: StartedTurn) -> AsyncIterator[Json]:
    async for event in begun.events:
        yield event.as_dict()
