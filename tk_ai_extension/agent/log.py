"""Event log of one chat: numbers the events, stores them and notifies followers."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import islice

from tk_ai_extension.agent.events import Event, EventPayload
from tk_ai_extension.agent.transcripts import Transcripts
from tk_ai_extension.model.errors import InvalidArguments, ToolError

logger = logging.getLogger(__name__)

MAX_KEPT = 10_000
"""Maximum number of events in memory; older ones are read from the transcript."""
MAX_WEIGHT = 20_000_000
"""Maximum size of those events, in characters: images are large."""
DELTAS = 100
"""Maximum number of text deltas that are coalesced in one write."""
RETRY = 1.0
"""Seconds until a failed write is tried again; twice as long after each further failure."""
MAX_RETRY = 60.0
"""Maximum of those seconds."""

_PIECES = ("text", "thinking")


class ChatLog:
    """Event log of a chat.

    Followers receive events at once; the transcript is written later, with text deltas coalesced. The
    log lives as long as the chat has a session or a follower.

    Args:
        chat_id: The chat.
        transcripts: Where events are stored.
        last: Number of the last stored event.
    """

    def __init__(self, chat_id: str, transcripts: Transcripts, last: int) -> None:
        self._chat_id = chat_id
        self._transcripts = transcripts
        self.last = last
        self._kept: deque[Event] = deque()
        self._weights: deque[int] = deque()
        self._weight = 0
        self._unsaved: list[Event] = []
        self._saving: asyncio.Task[bool] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._retry_after = RETRY
        self._changed = asyncio.Event()
        self._over = False

    def add(self, turn: str, what: EventPayload) -> Event:
        """Add an event and wake the followers.

        Raises:
            InvalidArguments: It cannot be written: it is nested too deeply.
        """
        # Nothing changes before all that can fail.
        try:
            event = Event.of(self.last + 1, turn, time.time(), what)
            weight = _weight(event)
        except RecursionError:
            raise InvalidArguments("The values are nested too deeply.") from None
        self.last += 1
        self._keep(event, weight)
        self._unsaved.append(event)
        if event.kind not in _PIECES or len(self._unsaved) >= DELTAS:
            self._save_soon()
        self._wake()
        return event

    async def after(self, last: int = 0, *, turn: str | None = None) -> AsyncIterator[Event]:
        """Yield the events after one, then new ones.

        Args:
            last: Number of the last known event.
            turn: Yield only this turn's events, up to its last one; None: all events,
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
            # Events that could not be stored and have left memory are lost.
            last = max(last, present) if is_all else last
            if self.last <= last:
                if self._over:
                    return
                await self._changed.wait()

    def catch_up(self, last: int) -> None:
        """Continue after events that another server added to the transcript."""
        if last > self.last:
            self._kept.clear()
            self._weights.clear()
            self._weight = 0
            self.last = last
            self._wake()

    async def _since(self, last: int) -> tuple[list[Event], bool]:
        """Return events after one, and whether they are all there are.

        Older events are only in the transcript, which returns them in pages.
        """
        first = self._kept[0].id if self._kept else self.last + 1
        if last >= first - 1:
            return list(islice(self._kept, last + 1 - first, None)), True
        await self.save()
        if page := await self._transcripts.page(self._chat_id, last):
            return page, False
        return [event for event in self._kept if event.id > last], True

    async def save(self) -> bool:
        """Flush unsaved events; return whether all are stored. Others are tried again later."""
        while self._unsaved or self._saving is not None:
            if not await asyncio.shield(self._save_soon()):
                return False
        return True

    async def close(self) -> None:
        """End all followers and flush unsaved events, for the last time."""
        self._over = True
        self._wake()
        await self.save()

    def _keep(self, event: Event, weight: int) -> None:
        self._kept.append(event)
        self._weights.append(weight)
        self._weight += weight
        while len(self._kept) > MAX_KEPT or self._weight > MAX_WEIGHT:
            self._kept.popleft()
            self._weight -= self._weights.popleft()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _save_soon(self) -> asyncio.Task[bool]:
        if self._saving is None:
            self._saving = asyncio.create_task(self._save(), name="tk-ai transcript")
        return self._saving

    async def _save(self) -> bool:
        if self._retry is not None:
            self._retry.cancel()
        try:
            while self._unsaved:
                events, self._unsaved = joined(self._unsaved), []
                try:
                    await self._transcripts.add(self._chat_id, events)
                except ToolError:
                    self._unsaved = [*events, *self._unsaved]
                    raise
                self._retry_after = RETRY
        except ToolError as error:
            # A full disk must not end the chat.
            logger.warning("Cannot save the transcript of a chat: %s", error.message)
            self._drop_oldest()
            self._save_later()
            return False
        else:
            return True
        finally:
            self._saving = None

    def _save_later(self) -> None:
        if not self._over:
            loop = asyncio.get_running_loop()
            self._retry = loop.call_later(self._retry_after, self._save_soon)
            self._retry_after = min(2 * self._retry_after, MAX_RETRY)

    def _drop_oldest(self) -> None:
        """Drop unsaved events that exceed `MAX_WEIGHT`."""
        weights = [_weight(event) for event in self._unsaved]
        weight, dropped = sum(weights), 0
        while weight > MAX_WEIGHT:
            weight -= weights[dropped]
            dropped += 1
        del self._unsaved[:dropped]
        if dropped:
            logger.error("%d events of a chat are lost: they cannot be saved.", dropped)


def _weight(event: Event) -> int:
    """Return the characters of an event in the transcript, about.

    Raises:
        RecursionError: It is nested too deeply for the transcript.
    """
    return len(json.dumps(event.data, ensure_ascii=False)) + 100


def joined(events: Sequence[Event]) -> list[Event]:
    """Coalesce consecutive deltas of a block into one event with the last one's number."""
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
