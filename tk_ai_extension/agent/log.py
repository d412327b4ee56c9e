"""The events of one chat as they happen: numbered, kept, and followed by whoever wants to."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, cast

from tk_ai_extension.agent.events import Event, EventPayload
from tk_ai_extension.agent.transcripts import Transcripts
from tk_ai_extension.model.errors import ToolError

logger = logging.getLogger(__name__)

MAX_KEPT = 10_000
"""Events of a chat that are kept at hand; older ones come from the transcript."""
MAX_WEIGHT = 20_000_000
"""Characters of those events: pictures are heavy."""
DELTAS = 100
"""Pieces of text that are written down together at the latest."""

_PIECES = ("text", "thinking")


class ChatLog:
    """What happened in a chat.

    Events reach followers at once and the transcript a moment later, pieces of text as one. It lasts
    as long as somebody answers in the chat or follows it.

    Args:
        chat_id: The chat.
        transcripts: Where they are kept.
        last: The number of the last event that is there already.
    """

    def __init__(self, chat_id: str, transcripts: Transcripts, last: int) -> None:
        self._chat_id = chat_id
        self._transcripts = transcripts
        self.last = last
        self._kept: deque[Event] = deque()
        self._weight = 0
        self._unsaved: list[Event] = []
        self._saving: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._over = False

    def add(self, turn: str, what: EventPayload) -> Event:
        """Notes what happened, and wakes those who follow."""
        self.last += 1
        event = Event.of(self.last, turn, time.time(), what)
        self._keep(event)
        self._unsaved.append(event)
        if event.kind not in _PIECES or len(self._unsaved) >= DELTAS:
            self._save_soon()
        self._wake()
        return event

    async def after(self, last: int = 0, *, turn: str | None = None) -> AsyncIterator[Event]:
        """The events after this one, then those to come.

        Args:
            last: The number of the last event that is known.
            turn: Ends with the last event of this turn, and gives only its events; None: all,
                until the log is closed.
        """
        while True:
            present = self.last
            found, is_all = await self._since(last)
            for event in found:
                last = event.id
                if turn in (None, event.turn):
                    yield event
                    if turn is not None and event.kind == "done":
                        return
            # What could not be kept, and is at hand no more, comes no more.
            last = max(last, present) if is_all else last
            if self.last <= last:
                if self._over:
                    return
                await self._changed.wait()

    def catch_up(self, last: int) -> None:
        """Another server has added events to the transcript, up to this number."""
        if last > self.last:
            self._kept.clear()
            self._weight = 0
            self.last = last
            self._wake()

    async def _since(self, last: int) -> tuple[list[Event], bool]:
        """Events after this one, and whether there are no more now.

        The older of them are in the transcript alone, which gives a page at a time.
        """
        first = self._kept[0].id if self._kept else self.last + 1
        if last >= first - 1:
            return list(islice(self._kept, last + 1 - first, None)), True
        await self.save()
        if page := await self._transcripts.page(self._chat_id, last):
            return page, False
        return [event for event in self._kept if event.id > last], True

    async def save(self) -> None:
        """Writes down what is not written down yet."""
        while self._unsaved or self._saving is not None:
            if self._saving is None:
                self._save_soon()
            if self._saving is not None:
                await asyncio.shield(self._saving)

    async def close(self) -> None:
        """Lets followers go, and writes down the rest."""
        self._over = True
        self._wake()
        await self.save()

    def _keep(self, event: Event) -> None:
        self._kept.append(event)
        self._weight += _weight(event.data)
        while len(self._kept) > MAX_KEPT or self._weight > MAX_WEIGHT:
            self._weight -= _weight(self._kept.popleft().data)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _save_soon(self) -> None:
        if self._saving is None:
            self._saving = asyncio.create_task(self._save(), name="tk-ai transcript")

    async def _save(self) -> None:
        try:
            while self._unsaved:
                events, self._unsaved = self._unsaved, []
                await self._transcripts.add(self._chat_id, joined(events))
        except ToolError as error:
            # The chat goes on without; it must not end because the disk is full.
            logger.warning("A chat's transcript was not kept: %s", error.message)
        finally:
            self._saving = None


def _weight(value: Any) -> int:
    """About how many characters a JSON value has."""
    match value:
        case str():
            return len(value)
        case dict():
            return sum(_weight(each) for each in cast("dict[str, Any]", value).values()) + 100
        case list():
            return sum(_weight(each) for each in cast("list[Any]", value))
        case _:
            return 8


def joined(events: Sequence[Event]) -> list[Event]:
    """The events with pieces of one block that follow each other as one, under the last one's number."""
    found: list[Event] = []
    for event in events:
        before = found[-1] if found else None
        if (
            before is not None
            and event.kind in _PIECES
            and (before.kind, before.turn) == (event.kind, event.turn)
            and before.data["block"] == event.data["block"]
            and before.data["start"] + len(before.data["text"]) == event.data["start"]
        ):
            text = before.data["text"] + event.data["text"]
            found[-1] = replace(event, data={**before.data, "text": text})
        else:
            found.append(event)
    return found
