"""Agents at work in rooms, shown to the people there as collaborators.

jupyter-collaboration tells who is there by awareness: each client of a room has a number and a state,
which it renews, and which goes when it is taken back or not renewed for half a minute. An agent has
no line of its own, so that its states are kept here. They are no part of the document: nothing is
saved for them, and no room is kept open.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from pycrdt import Assoc, Awareness, Doc

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import Json
from tk_ai_extension.notebooks.rooms.collaboration import LiveRoom, Rooms

GRACE = 4.0
"""Seconds for which an agent is shown after the last thing that it did."""

RENEWAL = 5.0
"""Seconds between two renewals: a page whose line was cut knows nobody when it comes back."""

ANNOUNCE_INTERVAL = 0.1
"""Seconds between two announcements: short cells follow each other faster than a browser draws."""

COLORS = 7
"""How many colours for collaborators JupyterLab's themes have."""


class Presence:
    """The agents at work in the rooms of one server.

    Args:
        rooms: The rooms.
    """

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._agents: dict[tuple[str, str], _Agent] = {}

    def worked(self, path: str, caller: Caller, cells: Sequence[str]) -> None:
        """An agent has changed these cells of a notebook."""
        if (agent := self._agent(path, caller)) is not None:
            agent.is_at(cells)

    def began(self, path: str, caller: Caller, cells: Sequence[str]) -> None:
        """An agent begins to run these cells."""
        if (agent := self._agent(path, caller)) is not None:
            agent.running |= set(cells)
            agent.is_at(cells)

    def ended(self, path: str, caller: Caller, cells: Sequence[str]) -> None:
        """These cells have run, however they ended."""
        if (agent := self._agent(path, caller)) is not None:
            agent.running -= set(cells)
            agent.is_at(cells)

    async def close(self) -> None:
        """No agent is there any more."""
        tasks = [agent.there for agent in self._agents.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _agent(self, path: str, caller: Caller) -> _Agent | None:
        """The agent in the notebook's room; None where there is no room."""
        live = self._rooms.find(path)
        if live is None:
            return None
        key = (live.room.room_id, caller.identity)
        agent = self._agents.get(key)
        if agent is None or agent.live is not live or agent.there.done():
            agent = self._agents[key] = _Agent(self._rooms, live, caller)
            agent.there.add_done_callback(lambda _: self._gone(key, agent))
        return agent

    def _gone(self, key: tuple[str, str], agent: _Agent) -> None:
        if self._agents.get(key) is agent:
            del self._agents[key]


class _Agent:
    """One agent in one room.

    Attributes:
        live: The room.
        running: The keys of the cells that it runs.
        there: Shows it for as long as it is there.
    """

    def __init__(self, rooms: Rooms, live: LiveRoom, caller: Caller) -> None:
        self.live = live
        self.running: set[str] = set()
        self._rooms = rooms
        self._user = _user(caller)
        self._cell = ""
        self._until = 0.0
        # A document of its own, for the number that it is known by.
        self._own = Awareness(Doc())
        self._stirred = asyncio.Event()
        # The rooms send nothing but from a task.
        self.there = asyncio.create_task(self._stay(), name=f"{caller.author} in {live.path}")

    def is_at(self, cells: Sequence[str]) -> None:
        """It works, or has just worked, at the last of these cells."""
        self._until = time.monotonic() + GRACE
        if cells:
            self._cell = cells[-1]
        self._stirred.set()

    async def _stay(self) -> None:
        awareness = self.live.room.awareness
        joined = awareness.observe(self._on_awareness)
        try:
            while (left := self._left()) > 0 and self._rooms.is_open(self.live):
                self._stirred.clear()
                self._announce()
                await asyncio.sleep(ANNOUNCE_INTERVAL)
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._stirred.wait()
        finally:
            awareness.unobserve(joined)
            self._tell(None)
            self._forget()

    def _left(self) -> float:
        """Seconds until it is gone, or has to be renewed."""
        return RENEWAL if self.running else min(self._until - time.monotonic(), RENEWAL)

    def _announce(self) -> None:
        path = self.live.path
        self._tell(
            {
                "user": self._user,
                "current": f"notebook:{path}",
                "documents": [path],
                "cursors": _cursors(self.live, self._cell),
                "autosave": self._autosave(),
            }
        )

    def _autosave(self) -> bool:
        """What the people there have chosen: the room saves by itself while anybody wants it."""
        states = self.live.room.awareness.states.values()
        chosen = [state.get("autosave", True) for state in states if state and not _is_agent(state)]
        return any(chosen) if chosen else True

    def _tell(self, state: Json | None) -> None:
        """Has everybody know the state, in the room and in the list of who is online."""
        self._own.set_local_state(state)
        update = self._own.encode_awareness_update([self._own.client_id])
        for room in self._rooms.shown_in(self.live):
            # What is "local" to the room it sends to its clients; one that has stopped has none.
            with suppress(RuntimeError):
                room.awareness.apply_awareness_update(update, "local")

    def _forget(self) -> None:
        """Has the rooms remember nothing of one that is gone: its number does not come back."""
        loop = asyncio.get_running_loop()
        for room in self._rooms.shown_in(self.live):
            # Not at once: that it has gone is sent to everybody a moment later.
            loop.call_later(RENEWAL, room.awareness.meta.pop, self._own.client_id, None)

    def _on_awareness(self, topic: str, changes: tuple[Json, Any]) -> None:
        """Somebody came, who has heard of nobody yet."""
        told, origin = changes
        if topic == "change" and told["added"] and origin != "local":
            self._stirred.set()


_PREFIX = "tk-ai:"


def _user(caller: Caller) -> Json:
    """An agent as jupyter-collaboration tells of people."""
    name = caller.author
    words = name.split() or ["?"]
    digest = hashlib.sha256(caller.identity.encode("utf-8", "replace")).digest()
    return {
        "username": _PREFIX + digest.hex()[:16],
        "name": name,
        "display_name": name,
        "initials": "".join(word[0] for word in words[:2] if word[0].isalnum()).upper(),
        "color": f"var(--jp-collaborator-color{digest[0] % COLORS + 1})",
        "avatar_url": None,
    }


def _is_agent(state: Json) -> bool:
    user: Any = state.get("user")
    return isinstance(user, dict) and str(cast("Json", user).get("username")).startswith(_PREFIX)


def _cursors(live: LiveRoom, key: str) -> list[Json]:
    """A caret at the end of a cell's source, as CodeMirror's binding to Yjs tells of carets."""
    cell = live.notebook.snapshot(live.path).by_key.get(key)
    if cell is None:
        return []
    source = live.notebook.shared(cell.index)["source"]
    # Yjs means the end of a text by the text alone.
    end = source.sticky_index(0, Assoc.BEFORE).to_json()
    place = {"type": end["type"], "tname": None, "item": None, "assoc": 0}
    return [{"anchor": place, "head": place, "primary": True, "empty": True}]
