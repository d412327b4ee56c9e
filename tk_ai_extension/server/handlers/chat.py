"""The chat for programs and panels: messages, their events, and what becomes of the chats."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from tk_ai_extension.model.errors import InvalidArguments, ToolError
from tk_ai_extension.server.handlers.base import TkAIHandler, allowed
from tk_ai_extension.server.handlers.streaming import StreamingHandler
from tk_ai_extension.server.users import username

if TYPE_CHECKING:
    from tk_ai_extension.agent.chats import StartedTurn
    from tk_ai_extension.agent.events import Event
    from tk_ai_extension.agent.transcripts import Chat
    from tk_ai_extension.workspace.journal import Touched

_NUMBER = re.compile(r"\d{1,15}", re.ASCII)


class TurnHandler(StreamingHandler):
    """A route that begins a turn, and answers with what came of it."""

    _gone: asyncio.Event | None = None

    async def answer(self, begin: Callable[[], Awaitable[StartedTurn]], *, stop: bool) -> None:
        """Answers with one JSON object, or with the turn's events as they come.

        Events are server-sent with ``Accept: text/event-stream``; where the line is cut,
        ``GET /api/tk-ai/chats/{id}/events`` goes on with them.

        Args:
            begin: Begins the turn.
            stop: Whether a cut line stops it.
        """
        self.update_api_activity()
        self._gone = asyncio.Event()
        if "text/event-stream" in self.request.headers.get("Accept", ""):
            # Before the turn begins: nobody could follow it.
            self.check_streams()
        begun = await begin()
        if "text/event-stream" in self.request.headers.get("Accept", ""):
            ended = await self.stream(_frames(begun.events))
        else:
            ended = await self._answer_whole(begun)
        if not ended and stop:
            chats = await self.services.chats()
            with suppress(
                ToolError
            ):  # It may have been deleted meanwhile; nobody listens any more.
                await chats.stop(username(self), begun.chat, begun.turn)

    def on_connection_close(self) -> None:
        """The client is gone; the turn goes on unless the client said otherwise."""
        super().on_connection_close()
        if self._gone is not None:
            self._gone.set()

    async def _answer_whole(self, begun: StartedTurn) -> bool:
        assert self._gone is not None
        collecting = asyncio.create_task(_collected(begun.events))
        leaving = asyncio.create_task(self._gone.wait())
        self.services.streams.add(cast("asyncio.Task[None]", collecting))
        try:
            await asyncio.wait((collecting, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not collecting.done() or collecting.cancelled():
                return False
            answer = {"chat": begun.chat, "turn": begun.turn, **_summary(collecting.result())}
            self.set_status(int(answer.pop("status")))
            self.write_json(answer)
            return True
        finally:
            self.services.streams.discard(cast("asyncio.Task[None]", collecting))
            for task in (collecting, leaving):
                task.cancel()
            await asyncio.wait((collecting, leaving))


class MessageHandler(TurnHandler):
    """A message to Claude."""

    @allowed("execute")
    async def post(self) -> None:
        """Sends a message, and answers with what came of it."""
        body = self.json_body()
        chats = await self.services.chats()
        from tk_ai_extension.agent.requests import parse_request

        request = parse_request(body)
        await self.answer(
            partial(chats.send, username(self), request), stop=request.on_disconnect == "stop"
        )


class ChatPlanHandler(TurnHandler):
    """The plan that a turn in the mode `plan` made."""

    @allowed("execute")
    async def post(self, chat_id: str) -> None:
        """Has it carried out in a mode, or made anew with some words; answers as a message is."""
        body = self.json_body()
        chats, user = await self.services.chats(), username(self)
        await chats.get(user, chat_id)
        from tk_ai_extension.agent.requests import parse_plan_answer

        said = parse_plan_answer(body)
        await self.answer(
            partial(chats.answer_plan, user, chat_id, said), stop=said.on_disconnect == "stop"
        )


class ChatsHandler(TkAIHandler):
    """The chats."""

    @allowed("read")
    async def get(self) -> None:
        """Lists the user's chats, the one used last first."""
        chats = await self.services.chats()
        found = await chats.list(username(self))
        self.write_json({"chats": [_described(chat, busy=busy) for chat, busy in found]})


class ChatHandler(TkAIHandler):
    """One chat."""

    @allowed("read")
    async def get(self, chat_id: str) -> None:
        """Reads it: what happened in it, in order, from the first or from after ``?after=``.

        Where that is much, ``next`` is the number after which it goes on; else it is null.
        """
        chats, user = await self.services.chats(), username(self)
        chat = await chats.get(user, chat_id)
        given = self.get_query_argument("after", "0")
        if _NUMBER.fullmatch(given) is None:
            raise InvalidArguments("`after` is no event's number.", hint="Leave it out to begin.")
        events, more = await chats.page(user, chat_id, int(given))
        self.write_json(
            {
                "chat": _described(chat, busy=await chats.busy(chat)),
                "events": [event.as_dict() for event in events],
                "next": events[-1].id if more else None,
            }
        )

    @allowed("write")
    async def patch(self, chat_id: str) -> None:
        """Renames it: ``{"title": "…"}``."""
        body = self.json_body()
        chats, user = await self.services.chats(), username(self)
        await chats.get(user, chat_id)
        title = body.get("title")
        if set(body) != {"title"} or not isinstance(title, str) or not title.strip():
            raise InvalidArguments("The body is no title.", hint='Send {"title": "…"}.')
        await chats.rename(user, chat_id, " ".join(title.split()))
        chat = await chats.get(user, chat_id)
        self.write_json(_described(chat, busy=await chats.busy(chat)))

    @allowed("write")
    async def delete(self, chat_id: str) -> None:
        """Ends and removes it; what was done in notebooks stays."""
        await (await self.services.chats()).delete(username(self), chat_id)
        self.write_json({"deleted": chat_id})


class ChatEventsHandler(StreamingHandler):
    """What happens in a chat."""

    @allowed("read")
    async def get(self, chat_id: str) -> None:
        """Streams its events from the first, or from after ``Last-Event-ID``, and those to come."""
        chats = await self.services.chats()
        user = username(self)
        given = self.request.headers.get("Last-Event-ID") or "0"
        after = int(given) if _NUMBER.fullmatch(given) else -1
        await self.stream(_frames(await chats.follow(user, chat_id, after)))


class ChatStopHandler(TkAIHandler):
    """The end of a turn."""

    @allowed("execute")
    async def post(self, chat_id: str) -> None:
        """Stops the turn that goes on, wherever it is, and those that wait.

        With ``{"turn": "…"}`` only that one.
        """
        body = self.json_body()
        turn = body.get("turn")
        if body.keys() - {"turn"} or not isinstance(turn, str | None):
            raise InvalidArguments(
                "The body does not say what is to be stopped.",
                hint='Send {}, or {"turn": "…"} for one turn.',
            )
        stopped = await (await self.services.chats()).stop(username(self), chat_id, turn)
        self.write_json({"stopped": stopped})


class ChatChangesHandler(TkAIHandler):
    """What of a chat's changes stands."""

    @allowed("read")
    async def get(self, chat_id: str) -> None:
        """Lists what it changed and nobody has taken back, the newest first.

        What it changed before ``since`` may stand, too: the journal does not reach back for ever.
        """
        from tk_ai_extension.workspace.journal import MAX_ENTRIES

        chats = await self.services.chats()
        changes = await chats.standing(username(self), chat_id)
        since = time.time() - self.services.workspace.journal.keep_days * 86_400
        if len(changes) == MAX_ENTRIES:
            since = max(since, changes[-1].time)
        self.write_json({"changes": [_standing(change) for change in changes], "since": since})


class ChatUndoHandler(TkAIHandler):
    """Taking back what a turn changed."""

    @allowed("write")
    async def post(self, chat_id: str) -> None:
        """Takes back a turn's changes where nobody has worked on since.

        ``{"turn": "…"}``; with ``"cells": […]`` only those of these cells, with ``"onwards": true``
        those of the turns after it as well.
        """
        body = self.json_body()
        chats, user = await self.services.chats(), username(self)
        await chats.get(user, chat_id)
        turn, cells, onwards = body.get("turn"), body.get("cells"), body.get("onwards", False)
        if (
            not set(body) <= {"turn", "cells", "onwards"}
            or not isinstance(turn, str)
            or not isinstance(onwards, bool)
            or not _are_names(cells)
        ):
            raise InvalidArguments(
                "The body does not say what is to be taken back.",
                hint='Send {"turn": "…"}, with "cells": ["…"] or "onwards": true where wanted.',
            )
        chosen = None if cells is None else frozenset(cast("list[str]", cells))
        found = await chats.take_back(user, chat_id, turn=turn, cells=chosen, onwards=onwards)
        self.write_json(
            {
                "notebooks": [
                    {"notebook": each.notebook, "cells": list(each.cells), "left": list(each.left)}
                    for each in found
                ]
            }
        )


class ChatExportHandler(TkAIHandler):
    """A chat as a document."""

    @allowed("read")
    async def get(self, chat_id: str) -> None:
        """Gives it as Markdown, or as a notebook with ``?format=notebook``; a download."""
        chats, user = await self.services.chats(), username(self)
        chat = await chats.get(user, chat_id)
        from tk_ai_extension.agent.export import as_markdown, as_notebook

        kind = self.get_query_argument("format", "markdown")
        if kind not in ("markdown", "notebook"):
            raise InvalidArguments(
                f"There is no format `{kind[:50]}`.", hint="Choose markdown or notebook."
            )
        events = await chats.events(user, chat_id)
        text = await asyncio.to_thread(
            as_markdown if kind == "markdown" else as_notebook, chat, events
        )
        mime = "text/markdown; charset=utf-8" if kind == "markdown" else "application/json"
        self.set_attachment_header(f"chat.{'md' if kind == 'markdown' else 'ipynb'}")
        self.set_header("Content-Type", mime)
        self.finish(text, set_content_type=mime)


class ModelsHandler(TkAIHandler):
    """The models."""

    @allowed("read")
    async def get(self) -> None:
        """Lists what a chat may ask, and says what is configured and what is missing."""
        self.write_json(await (await self.services.provision()).health())


class TrustHandler(TkAIHandler):
    """The trust in the root folder's file of keys."""

    @allowed("execute")
    async def post(self) -> None:
        """Uses its keys from now on: ``{"trusted": true}``; answers as `ModelsHandler` does."""
        if self.json_body() != {"trusted": True}:
            raise InvalidArguments("The body does not say so.", hint='Send {"trusted": true}.')
        self.write_json(await (await self.services.provision()).trust())

    @allowed("execute")
    async def delete(self) -> None:
        """Uses them no more."""
        self.write_json(await (await self.services.provision()).trust(trusted=False))


def _json(event: Event) -> str:
    return json.dumps(event.as_dict())


def _described(chat: Chat, *, busy: bool) -> dict[str, Any]:
    return {
        "id": chat.id,
        "title": chat.title,
        "notebook": chat.notebook,
        "created": chat.created,
        "updated": chat.updated,
        "busy": busy,
    }


def _standing(change: Touched) -> dict[str, Any]:
    return {
        "entry": change.entry,
        "turn": change.turn,
        "notebook": change.path,
        "time": change.time,
        "cells": list(change.cells),
    }


def _are_names(cells: Any) -> bool:
    if cells is None:
        return True
    if not isinstance(cells, list):
        return False
    return all(isinstance(each, str) for each in cast("list[Any]", cells))


async def _frames(events: AsyncIterator[Event]) -> AsyncIterator[str]:
    """Events as a stream sends them."""
    async for event in events:
        yield f"id: {event.id}\nevent: {event.kind}\ndata: {_json(event)}\n\n"


async def _collected(events: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in events]


def _summary(events: list[Event]) -> dict[str, Any]:
    """What came of a turn, with the HTTP status that says it; its last event is `Done`."""
    answer: dict[str, Any] = {
        "status": 200,
        "end": events[-1].data["end"],
        "text": events[-1].data["text"],
        "calls": [
            {"tool": event.data["tool"], "ok": event.data["ok"], "text": event.data["text"]}
            for event in events
            if event.kind == "tool_result"
        ],
        "changes": [event.data for event in events if event.kind == "cell_change"],
        "plan": any(event.kind == "plan" for event in events),
        "usage": next((event.data for event in events if event.kind == "usage"), None),
        "last_event": events[-1].id,
    }
    failed = next((event for event in events if event.kind == "error"), None)
    if failed is not None:
        answer["error"] = failed.data["error"]
        answer["status"] = _status(failed.data["error"]["code"])
    return answer


def _status(code: str) -> int:
    """The status of the error of that code."""
    kinds = [*ToolError.__subclasses__()]
    return next((kind.status for kind in kinds if kind.code == code), 500)
