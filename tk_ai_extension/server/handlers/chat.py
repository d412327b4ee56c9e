"""REST routes of chats: messages, events and management."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from tk_ai_extension.model.errors import InvalidArguments, ToolError
from tk_ai_extension.server.handlers.base_handler import TkAIHandler, username
from tk_ai_extension.server.handlers.openapi_operations import last_event_id, operation, query
from tk_ai_extension.server.handlers.streaming import StreamingHandler

if TYPE_CHECKING:
    from tk_ai_extension.agent.chat_events import ChatEvent
    from tk_ai_extension.agent.chat_store import Chat
    from tk_ai_extension.agent.chats import TurnStream
    from tk_ai_extension.server.rest_models import (
        AnsweredQuestion,
        ChatEventsPage,
        ChatInfo,
        ChatList,
        ChatRequest,
        ChatTitleRequest,
        ChosenTurn,
        CombinedChanges,
        Deleted,
        FailedTurn,
        ModelsInfo,
        QuestionAnswer,
        StopRequest,
        StopResult,
        TurnAnswer,
        TurnInfo,
        UndoneTurn,
        UndoTurnRequest,
    )

_NUMBER = re.compile(r"\d{1,15}", re.ASCII)
MAX_WORDS = 10
"""Maximum number of words of a search."""

_AFTER = query(
    "after", "Resumes after the event with this number", type="integer", minimum=0, default=0
)
_SEARCH = query("search", f"Words to search for, of which {MAX_WORDS} count")
_WAIT = query("wait", "Whether the response waits for the end of the turn", enum=["0"])
_LAST_EVENT = last_event_id("Resumes after the event with this number", "^[0-9]{0,15}$")
_FORMAT = query("format", "The format", enum=["markdown", "notebook"], default="markdown")


class ChatMessageHandler(StreamingHandler):
    """A message to Claude."""

    @operation("execute", "send_message", _WAIT, streams="ChatEvent")
    async def post(self, body: ChatRequest) -> TurnAnswer | TurnInfo | None:
        """Send a message to Claude and return the result of its turn."""
        chats, user = await self.services.chats(), username(self)
        return await self.answer(partial(chats.send, user, body))

    async def answer(
        self, begin: Callable[[], Awaitable[TurnStream]]
    ) -> TurnAnswer | TurnInfo | None:
        """Begin a turn and return its result, or stream its events. It continues if its client disconnects.

        With ``Accept: text/event-stream`` the events are server-sent; after a lost connection,
        ``GET /api/tk-ai/chats/{id}/events`` resumes them. With ``?wait=0`` the response is 202 once the
        turn is queued, with its chat and id.

        Raises:
            LimitReached: the user has too many streams; no turn began.
        """
        self.update_api_activity()
        if self.get_query_argument("wait", "") == "0":
            begun = await begin()
            self.set_status(202)
            return {"chat": begun.chat, "turn": begun.turn}
        streams = "text/event-stream" in self.request.headers.get("Accept", "")
        found: list[ChatEvent] = []
        with self.counted_stream() if streams else nullcontext():
            begun = await begin()
            if streams:
                await self.stream(_frames(begun.events))
                return None
            if not await self.until_ended(_collect(begun.events, found)):
                return None
        answer = _summary(begun, found)
        failed = next((event.data["error"] for event in found if event.kind == "error"), None)
        if failed is None:
            return answer
        kinds = [*ToolError.__subclasses__()]
        code = failed["code"]
        self.set_status(next((kind.status for kind in kinds if kind.code == code), 500))
        error: FailedTurn = {**answer, "error": failed}  # pyrefly: ignore[open-unpacking]
        return error


class ChatsHandler(TkAIHandler):
    """The chats."""

    @operation("read", "list_chats", _SEARCH)
    async def get(self) -> ChatList:
        """List your chats, most recently used first.

        With ``?search=…``, list only chats with all of these words in the title, the messages or the answers.
        """
        chats = await self.services.chats()
        words = self.get_query_argument("search", "").split()[:MAX_WORDS]
        found = await chats.list(username(self), words)
        return {"chats": [_described(chat, busy=busy) for chat, busy in found]}


class ChatHandler(TkAIHandler):
    """One chat."""

    @operation("read", "read_chat", _AFTER)
    async def get(self, chat_id: str) -> ChatEventsPage:
        """Read the events of a chat in order, from the first or after ``?after=``.

        If there are more, ``next`` is the ``after`` of the next request; else it is null.
        """
        chats, user = await self.services.chats(), username(self)
        chat = await chats.get(user, chat_id)
        given = self.get_query_argument("after", "0")
        if _NUMBER.fullmatch(given) is None:
            raise InvalidArguments(
                "`after` is not an event number.", hint="Omit it for the first page."
            )
        events, more = await chats.page(user, chat_id, int(given))
        return {
            "chat": _described(chat, busy=chats.busy(chat)),
            "events": [event.as_dict() for event in events],
            "next": events[-1].id if more else None,
        }

    @operation("write", "rename_chat")
    async def patch(self, chat_id: str, body: ChatTitleRequest) -> ChatInfo:
        """Rename a chat: ``{"title": "…"}``."""
        chats, user = await self.services.chats(), username(self)
        await chats.rename(user, chat_id, " ".join(body.title.split()))
        chat = await chats.get(user, chat_id)
        return _described(chat, busy=chats.busy(chat))

    @operation("write", "delete_chat")
    async def delete(self, chat_id: str) -> Deleted:
        """End and delete a chat; its changes to notebooks are kept."""
        await (await self.services.chats()).delete(username(self), chat_id)
        return {"deleted": chat_id}


class ChatEventsHandler(StreamingHandler):
    """Event stream of a chat."""

    @operation("read", "follow_chat", _LAST_EVENT, streams="ChatEvent")
    async def get(self, chat_id: str) -> None:
        """Stream the events of a chat, from the first or after ``Last-Event-ID``."""
        chats = await self.services.chats()
        user = username(self)
        given = self.request.headers.get("Last-Event-ID") or "0"
        after = int(given) if _NUMBER.fullmatch(given) else -1
        with self.counted_stream():
            await self.stream(_frames(await chats.follow(user, chat_id, after)))


class ChatStopHandler(TkAIHandler):
    """Stop of turns."""

    @operation("execute", "stop_chat")
    async def post(self, chat_id: str, body: StopRequest) -> StopResult:
        """Stop the running and queued turns.

        With ``{"turn": "…"}``, stop only that one.
        """
        chats = await self.services.chats()
        return {"stopped": await chats.stop(username(self), chat_id, body.turn)}


class ChatAnswerHandler(TkAIHandler):
    """Answers to the agent's questions."""

    @operation("execute", "answer_question")
    async def post(self, chat_id: str, body: QuestionAnswer) -> AnsweredQuestion:
        """Answer the questions of a call, or skip them: so do a stop and a message."""
        await (await self.services.chats()).answer(username(self), chat_id, body)
        return {"answered": any(body.answers)}


class ChatTurnChangesHandler(TkAIHandler):
    """The combined changes of a turn."""

    @operation("read", "list_turn_changes")
    async def get(self, chat_id: str, turn: str) -> CombinedChanges:
        """Compare each cell that a turn changed, from before the turn to after it.

        Undone changes are not listed, and neither is a cell that was added and removed again. If a
        person keeps a part of the changes to a cell, the others are compared.
        """
        chats = await self.services.chats()
        return {"changes": await chats.changes_of(username(self), chat_id, turn)}


class ChatRestoreHandler(TkAIHandler):
    """Restore of a chat and its notebooks."""

    @operation("execute", "restore_chat")
    async def post(self, chat_id: str, body: ChosenTurn) -> UndoneTurn:
        """Restore the chat and its notebooks to before a turn.

        The turn and all later ones are stopped, their changes are undone, and Claude forgets them. A
        cell that was edited since stays: ``stayed`` and ``left`` list them.
        """
        chats = await self.services.chats()
        return {"notebooks": await chats.restore(username(self), chat_id, body.turn)}


class ChatUndoHandler(TkAIHandler):
    """Undo of a turn's changes."""

    @operation("write", "undo_turn")
    async def post(self, chat_id: str, body: UndoTurnRequest) -> UndoneTurn:
        """Undo the changes of a turn to cells that were not edited since.

        ``{"turn": "…"}``; with ``"cells": […]``, only those of these cells.
        """
        chats, user = await self.services.chats(), username(self)
        cells = None if body.cells is None else frozenset(body.cells)
        found = await chats.undo_turn(user, chat_id, turn=body.turn, cells=cells)
        return {"notebooks": found}


class ChatExportHandler(TkAIHandler):
    """Export of a chat."""

    @operation("read", "export_chat", _FORMAT, media=("text/markdown", "application/json"))
    async def get(self, chat_id: str) -> None:
        """Return a chat as Markdown, or as a notebook with ``?format=notebook``; a download."""
        kind = self.get_query_argument("format", "markdown")
        if kind not in ("markdown", "notebook"):
            raise InvalidArguments(
                f"Unknown format `{kind[:50]}`.", hint="Use markdown or notebook."
            )
        chats = await self.services.chats()
        text = await chats.export(username(self), chat_id, as_notebook=kind == "notebook")
        mime = "text/markdown; charset=utf-8" if kind == "markdown" else "application/json"
        self.set_attachment_header(f"chat.{'md' if kind == 'markdown' else 'ipynb'}")
        self.set_header("Content-Type", mime)
        self.finish(text, set_content_type=mime)


class ModelsHandler(TkAIHandler):
    """The models."""

    @operation("read", "list_models")
    async def get(self) -> ModelsInfo:
        """Return the models for chats, what is configured and what is missing."""
        return await (await self.services.chat_models()).health()


def _described(chat: Chat, *, busy: bool) -> ChatInfo:
    return {
        "id": chat.id,
        "title": chat.title,
        "notebook": chat.notebook,
        "created": chat.created,
        "updated": chat.updated,
        "busy": busy,
    }


async def _frames(events: AsyncIterator[ChatEvent]) -> AsyncIterator[str]:
    """Yield events as frames of a stream."""
    async for event in events:
        data = json.dumps(event.as_dict())
        yield f"id: {event.id}\nevent: {event.kind}\ndata: {data}\n\n"


async def _collect(events: AsyncIterator[ChatEvent], found: list[ChatEvent]) -> None:
    found += [event async for event in events]


def _summary(begun: TurnStream, events: list[ChatEvent]) -> TurnAnswer:
    """Return the result of a turn; its last event is `TurnEnded`."""
    return {
        "chat": begun.chat,
        "turn": begun.turn,
        "end": events[-1].data["end"],
        "text": events[-1].data["text"],
        "calls": [
            {"tool": event.data["tool"], "ok": event.data["ok"], "text": event.data["text"]}
            for event in events
            if event.kind == "tool_result"
        ],
        "changes": [event.data for event in events if event.kind == "cell_change"],
        "plan": events[-1].data["end"] == "planned",
        "usage": next((event.data for event in events if event.kind == "usage"), None),
        "last_event": events[-1].id,
    }
