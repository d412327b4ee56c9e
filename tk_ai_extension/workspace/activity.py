"""What is done to notebooks, as it happens and by whomever, for those who look at one."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.paths import moved

logger = logging.getLogger(__name__)

Kind = Literal["changed", "taken_back", "running", "ran", "missed"]

MAX_BEHIND = 500
"""How many activities wait for a follower; one who is further behind is told just that."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Something that was done to a notebook through a tool.

    Attributes:
        kind: ``changed`` and ``taken_back``: cells were written; ``running`` and ``ran``: a cell's
            code begins and ends; ``missed``: the follower was too slow for what was here.
        author: The name that people see; empty for ``missed``.
        cells: The keys of the cells it is about.
        turn: The chat's turn, where it belongs to one.
        entry: The journal's number of a change; 0 where there is none.
        status: How a run ended; empty else.
    """

    kind: Kind
    author: str = ""
    cells: tuple[str, ...] = ()
    turn: str | None = None
    entry: int = 0
    status: str = ""


class _Follower:
    def __init__(self, path: str) -> None:
        self.path = path
        self.waiting: deque[Activity] = deque()
        self.stirred = asyncio.Event()

    def put(self, activity: Activity) -> None:
        if len(self.waiting) >= MAX_BEHIND:
            self.waiting.clear()
            activity = Activity("missed")
        self.waiting.append(activity)
        self.stirred.set()


class ActivityFeed:
    """Tells those who follow a notebook what is done to it. Only what runs is kept for later."""

    def __init__(self) -> None:
        self._followers: set[_Follower] = set()
        self._running: dict[tuple[str, str], Activity] = {}
        self._listeners: list[Callable[[str, Caller, Activity], None]] = []

    def listen(self, heard: Callable[[str, Caller, Activity], None]) -> None:
        """Call back with all that is told: the notebook's path, who does it, and what.

        What a listener raises is logged: what was done is done.
        """
        self._listeners.append(heard)

    def tell(
        self,
        path: str | None,
        caller: Caller,
        kind: Kind,
        cells: Iterable[str | None],
        *,
        entry: int = 0,
        status: str = "",
    ) -> None:
        """Notify the notebook's followers, if there are any."""
        if path is None:
            return
        named = tuple(dict.fromkeys(cell for cell in cells if cell))
        activity = Activity(kind, caller.author, named, caller.turn, entry, status)
        if kind == "running":
            self._running.update({(path, cell): activity for cell in named})
        elif kind == "ran":
            for cell in named:
                self._running.pop((path, cell), None)
        for follower in self._followers:
            if follower.path == path:
                follower.put(activity)
        for heard in self._listeners:
            try:
                heard(path, caller, activity)
            except Exception:
                logger.exception("Somebody who listens to what is done to %s failed", path)

    def running(self, path: str) -> list[Activity]:
        """What runs in a notebook at this moment."""
        return [activity for (of, _), activity in self._running.items() if of == path]

    async def follow(self, path: str) -> AsyncGenerator[Activity]:
        """What is done to the notebook at this path, until nobody asks any more.

        It begins with what runs at this moment.
        """
        follower = _Follower(path)
        for activity in self.running(path):
            follower.put(activity)
        self._followers.add(follower)
        try:
            while True:
                while follower.waiting:
                    yield follower.waiting.popleft()
                follower.stirred.clear()
                await follower.stirred.wait()
        finally:
            self._followers.discard(follower)

    def renamed(self, old: str, new: str) -> None:
        """A notebook, or a folder above some, has another path now; followers go with it."""
        for follower in self._followers:
            follower.path = moved(follower.path, old, new) or follower.path
        self._running = {
            (moved(path, old, new) or path, cell): activity
            for (path, cell), activity in self._running.items()
        }
