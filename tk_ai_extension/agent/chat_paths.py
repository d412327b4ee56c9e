"""Paths of notebooks in chats: they follow renames, and are detached by deletions.

A message, a turn or a chat is about a notebook and not about its name, which another notebook may get.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from tk_ai_extension.model.errors import NotebookNotFound
from tk_ai_extension.model.paths import moved

if TYPE_CHECKING:
    from tk_ai_extension.agent.chat_logs import ChatLogs
    from tk_ai_extension.agent.requests import ChatRequest, Message
    from tk_ai_extension.agent.services import ChatServices
    from tk_ai_extension.agent.transcripts import Chat

T = TypeVar("T")

DELETED = " (deleted)"
"""The end of the path of a deleted notebook. No notebook has such a path, and `contain` refuses it."""

NAMING = ("message", "plan")
"""The kinds of events whose `notebook` is that of the turn."""

PathChange = Callable[[str], str | None]
"""Returns the new path of a notebook after a rename or a deletion; None if it is unaffected."""


def deletion(place: str) -> PathChange:
    """Return the change of paths when a notebook, or a folder above notebooks, was deleted."""

    def change(path: str) -> str | None:
        is_there = not is_deleted(path) and moved(path, place, place) is not None
        return f"{path}{DELETED}" if is_there else None

    return change


def rename(old: str, new: str) -> PathChange:
    """Return the change of paths when a notebook or a folder was renamed; a former one there is gone."""
    deleted = deletion(new)

    def change(path: str) -> str | None:
        return deleted(path) if is_deleted(path) else moved(path, old, new) or deleted(path)

    return change


def is_deleted(path: str | None) -> bool:
    """Return whether a path is that of a notebook that was deleted since the path was noted."""
    return path is not None and path.endswith(DELETED)


def check_present(path: str) -> None:
    """Check that a notebook was not deleted since its path was noted.

    Raises:
        NotebookNotFound: It was.
    """
    if is_deleted(path):
        raise NotebookNotFound(
            f"{path.removesuffix(DELETED)} was deleted.",
            hint="Another notebook may have its name. Send a new message about that one.",
        )


class ChatPaths:
    """Everything in the chats of a server that has the path of a notebook.

    Args:
        services: The services of the chats, with the messages and the transcripts.
        logs: The event logs of the chats.
    """

    def __init__(self, services: ChatServices, logs: ChatLogs) -> None:
        self._services = services
        self._transcripts = services.transcripts
        self._logs = logs
        self._changes = 0

    def renamed(self, old: str, new: str) -> Awaitable[None]:
        """Update the paths at once after a rename; the result waits until they are stored."""
        return self._follow(rename(old, new))

    def deleted(self, path: str) -> Awaitable[None]:
        """Detach the paths at once after a deletion; the result waits until they are stored."""
        return self._follow(deletion(path))

    async def chat(self, user: str, chat_id: str) -> Chat:
        """Return a chat with the path that its notebook has on return.

        Raises:
            ChatNotFound.
        """
        return await self._current(lambda: self._transcripts.get(user, chat_id))

    async def latest(self, user: str, message: Message) -> Chat | None:
        """Return the newest chat whose last message was about the notebook of a message."""
        chats = await self._current(lambda: self._transcripts.list(user))
        return next((chat for chat in chats if chat.notebook == message.notebook), None)

    async def of_request(self, user: str, request: ChatRequest) -> str | None:
        """Return the path of the notebook that a message is about; None for none.

        With `notebook_of`, it is that turn's notebook, which may have been renamed since the sender got
        its path.

        Raises:
            ChatNotFound, NotebookNotFound, PathRefused, NotANotebook.
        """
        if request.notebook is None:
            return None
        check_present(request.notebook)
        found, turn = None, request.notebook_of
        if turn is not None and request.chat is not None:
            chat = await self._transcripts.get(user, request.chat)
            await self._logs.save(chat.id)
            found = await self._current(lambda: self._transcripts.notebook_of(chat.id, turn))
        return found or self._services.workspace.contain(request.notebook)

    def _follow(self, change: PathChange) -> Awaitable[None]:
        self._changes += 1
        self._services.follow(change)
        self._logs.follow(change)
        # Begun at once: no path that is stored later is taken for a former one.
        return self._transcripts.follow(change)

    async def _current(self, read: Callable[[], Awaitable[T]]) -> T:
        """Return stored paths; read them again if one has changed meanwhile."""
        while True:
            changes = self._changes
            found = await read()
            if changes == self._changes:
                return found
