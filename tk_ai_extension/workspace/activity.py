"""The current activity in a notebook: changes and runs through tools, published to the pages that show it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from typing import Literal

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.notebooks.notebook import Notebook

ActivityKind = Literal["changed", "kept", "taken_back", "running", "ran", "shown", "missed"]

MAX_BEHIND = 500
"""Maximum queued activities of a subscriber. A slower one receives ``missed`` instead."""


@dataclass(frozen=True, slots=True)
class ActivityEvent:
    """A change or run of a notebook through a tool.

    Attributes:
        kind: ``changed`` and ``taken_back``: cells were written; ``kept``: a person keeps changes;
            ``running`` and ``ran``: a cell's code starts and ends; ``shown``: an agent points its
            user to a cell; ``missed``: the subscriber was too slow for the activities here.
        author: The name that people see; empty for ``missed``.
        cells: The keys of the cells.
        turn: The chat's turn; None if it belongs to none.
        entry: The number of the journal entry of a change; 0 for none.
        status: How a run ended; otherwise empty.
    """

    kind: ActivityKind
    author: str = ""
    cells: tuple[str, ...] = ()
    turn: str | None = None
    entry: int = 0
    status: str = ""


class _Subscriber:
    def __init__(self, notebook: Notebook, user: str) -> None:
        self.notebook = notebook
        self.user = user
        self.queue: deque[ActivityEvent] = deque()
        self.changed = asyncio.Event()

    def follows(self, notebook: Notebook) -> bool:
        """Return whether it follows this notebook; after its deletion, the next one of its path."""
        if self.notebook.is_deleted and self.notebook.path == notebook.path:
            self.notebook = notebook
        return self.notebook is notebook

    def put(self, activity: ActivityEvent) -> None:
        if len(self.queue) >= MAX_BEHIND:
            self.queue.clear()
            activity = ActivityEvent("missed")
        self.queue.append(activity)
        self.changed.set()


class ActivityPublisher:
    """Publishes changes and runs of notebooks to subscribers."""

    def __init__(self) -> None:
        self._subscribers: set[_Subscriber] = set()

    def publish(
        self,
        notebook: Notebook | None,
        caller: Caller,
        kind: ActivityKind,
        cells: Iterable[str | None],
        *,
        entry: int = 0,
        status: str = "",
    ) -> None:
        """Publish an activity to the subscribers of a notebook.

        Args:
            notebook: The notebook; None does nothing.
            caller: The caller.
            kind: The kind of activity.
            cells: The keys of the cells; None values are ignored.
            entry: The number of the journal entry of a change.
            status: How a run ended.
        """
        if notebook is None or not self._subscribers:
            return
        named = tuple(dict.fromkeys(cell for cell in cells if cell))
        activity = ActivityEvent(kind, caller.author, named, caller.turn, entry, status)
        for subscriber in self._subscribers:
            is_theirs = kind != "shown" or subscriber.user == caller.user
            if is_theirs and subscriber.follows(notebook):
                subscriber.put(activity)

    async def follow(
        self, notebook: Notebook, running: Iterable[ActivityEvent] = (), *, user: str = ""
    ) -> AsyncGenerator[ActivityEvent]:
        """Yield the activities of a notebook, beginning with those of the cells that run now.

        Args:
            notebook: The notebook.
            running: The cells that run now.
            user: The user who sees the cells that their agents point to.
        """
        subscriber = _Subscriber(notebook, user)
        for activity in running:
            subscriber.put(activity)
        self._subscribers.add(subscriber)
        try:
            while True:
                while subscriber.queue:
                    yield subscriber.queue.popleft()
                subscriber.changed.clear()
                await subscriber.changed.wait()
        finally:
            self._subscribers.discard(subscriber)
