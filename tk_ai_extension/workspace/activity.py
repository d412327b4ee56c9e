"""A feed of changes and runs of notebooks for clients, and notices for callers."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.notebooks.notebook import Notebook

logger = logging.getLogger(__name__)

Kind = Literal["changed", "taken_back", "running", "ran", "missed"]

MAX_BEHIND = 500
"""Maximum queued activities of a subscriber. A slower one receives ``missed`` instead."""


@dataclass(frozen=True, slots=True)
class Activity:
    """A change or run of a notebook through a tool.

    Attributes:
        kind: ``changed`` and ``taken_back``: cells were written; ``running`` and ``ran``: a cell's
            code starts and ends; ``missed``: the subscriber was too slow for the activities here.
        author: The name that people see; empty for ``missed``.
        cells: The keys of the cells.
        turn: The chat's turn; None if it belongs to none.
        entry: The number of the journal entry of a change; 0 for none.
        status: How a run ended; otherwise empty.
    """

    kind: Kind
    author: str = ""
    cells: tuple[str, ...] = ()
    turn: str | None = None
    entry: int = 0
    status: str = ""


class _Subscriber:
    def __init__(self, notebook: Notebook) -> None:
        self.notebook = notebook
        self.queue: deque[Activity] = deque()
        self.changed = asyncio.Event()

    def follows(self, notebook: Notebook) -> bool:
        """Return whether it follows this notebook; after its deletion, the next one of its path."""
        if self.notebook.is_deleted and self.notebook.path == notebook.path:
            self.notebook = notebook
        return self.notebook is notebook

    def put(self, activity: Activity) -> None:
        if len(self.queue) >= MAX_BEHIND:
            self.queue.clear()
            activity = Activity("missed")
        self.queue.append(activity)
        self.changed.set()


class ActivityFeed:
    """Publishes changes and runs of notebooks to subscribers. It remembers only what runs now."""

    def __init__(self) -> None:
        self._subscribers: set[_Subscriber] = set()
        self._running: dict[tuple[Notebook, str], Activity] = {}
        self._listeners: list[Callable[[str, Caller, Activity], None]] = []

    def add_listener(self, listener: Callable[[str, Caller, Activity], None]) -> None:
        """Call a function for every activity, with the notebook's path, the caller and the activity.

        Exceptions of a listener are logged and do not affect the change.
        """
        self._listeners.append(listener)

    def publish(
        self,
        notebook: Notebook | None,
        caller: Caller,
        kind: Kind,
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
        if notebook is None:
            return
        named = tuple(dict.fromkeys(cell for cell in cells if cell))
        activity = Activity(kind, caller.author, named, caller.turn, entry, status)
        if kind == "running":
            self._running.update({(notebook, cell): activity for cell in named})
        elif kind == "ran":
            for cell in named:
                self._running.pop((notebook, cell), None)
        for subscriber in self._subscribers:
            if subscriber.follows(notebook):
                subscriber.put(activity)
        for listener in self._listeners:
            try:
                listener(notebook.path, caller, activity)
            except Exception:
                logger.exception("A listener for the activity in %s failed", notebook.path)

    def running(self, notebook: Notebook) -> list[Activity]:
        """Return the activities of the cells that run in a notebook now."""
        return [activity for (of, _), activity in self._running.items() if of is notebook]

    async def follow(self, notebook: Notebook) -> AsyncGenerator[Activity]:
        """Yield the activities of a notebook, beginning with the cells that run now."""
        subscriber = _Subscriber(notebook)
        for activity in self.running(notebook):
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


MAX_CALLERS = 1_000
MAX_NOTICES = 20


class Notices:
    """Notices that are delivered with a caller's next result. At the limits, the oldest are dropped."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, list[str]] = OrderedDict()
        self._for_anybody: list[str] = []

    def add(self, caller: str | Caller, notice: str) -> None:
        """Add a notice for a caller, given as such or by identity, unless it is pending already."""
        identity = caller if isinstance(caller, str) else caller.identity
        waiting = self._waiting.setdefault(identity, [])
        if notice not in waiting:
            waiting.append(notice)
            del waiting[:-MAX_NOTICES]
        while len(self._waiting) > MAX_CALLERS:
            self._waiting.popitem(last=False)

    def add_for_anybody(self, notice: str) -> None:
        """Add a notice to the next result of any caller."""
        self._for_anybody.append(notice)
        del self._for_anybody[:-MAX_NOTICES]

    def forget(self, caller: Caller) -> None:
        """Drop the notices of a caller whose session has ended."""
        self._waiting.pop(caller.identity, None)

    def take(self, caller: Caller) -> list[str]:
        """Remove and return the notices for this caller."""
        for_anybody, self._for_anybody = self._for_anybody, []
        return self._waiting.pop(caller.identity, []) + for_anybody
