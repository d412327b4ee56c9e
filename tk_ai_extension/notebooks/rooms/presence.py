"""Agents at work in rooms, shown to the people there as collaborators.

jupyter-collaboration tells who is there by awareness: each client of a room has a number and a state,
which it renews, and which goes when it is taken back or not renewed for half a minute. An agent has
no line of its own, so that its states are kept here. They are no part of the document: nothing is
saved for them, and no room is kept open.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from pycrdt import Assoc, Awareness, Doc

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import Cell, Json
from tk_ai_extension.notebooks.rooms.collaboration import LiveRoom, Rooms

GRACE = 4.0
"""Seconds for which an agent is shown after the last thing that it did."""

RENEWAL_INTERVAL = 5.0
"""Seconds between two renewals: a page whose line was cut knows nobody when it comes back."""

ANNOUNCE_INTERVAL = 0.5
"""Seconds between two announcements: a page works through all its editors at each."""

COLORS = 7
"""How many colours for collaborators JupyterLab's themes have."""


class Presence:
    """The agents at work in the rooms of one server.

    Args:
        rooms: The rooms.
    """

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._groups: dict[str, _RoomAgents] = {}

    def worked(self, path: str, caller: Caller, cells: Sequence[str]) -> None:
        """An agent has changed these cells of a notebook."""
        if (agents := self._agents(path)) is not None:
            agents.of(caller).work_at(cells)

    def began(self, path: str, caller: Caller, cells: Sequence[str]) -> None:
        """An agent begins to run these cells."""
        if (agents := self._agents(path)) is not None:
            agent = agents.of(caller)
            agent.running |= set(cells)
            agent.work_at(cells)

    def ended(self, path: str, caller: Caller, cells: Sequence[str]) -> None:
        """These cells have run, however they ended."""
        if (agents := self._agents(path)) is not None:
            agent = agents.of(caller)
            agent.running -= set(cells)
            agent.work_at(cells)

    async def close(self) -> None:
        """No agent is there any more."""
        tasks = [agents.shown for agents in self._groups.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _agents(self, path: str) -> _RoomAgents | None:
        """The agents in the notebook's room; None where there is no room."""
        live = self._rooms.find(path)
        if live is None:
            return None
        key = live.room.room_id
        agents = self._groups.get(key)
        if agents is None or agents.live is not live or agents.shown.done():
            agents = self._groups[key] = _RoomAgents(self._rooms, live)
            agents.shown.add_done_callback(lambda _: self._gone(key, agents))
        return agents

    def _gone(self, key: str, agents: _RoomAgents) -> None:
        if self._groups.get(key) is agents:
            del self._groups[key]


class _Agent:
    """One agent in one room.

    Args:
        caller: The agent.

    Attributes:
        user: It as jupyter-collaboration tells of people.
        own: A document of its own, for the number that it is known by.
        cell: The key of the cell that it works at, or has just worked at; empty if there is none.
        running: The keys of the cells that it runs.
    """

    def __init__(self, caller: Caller) -> None:
        self.user = _user(caller)
        self.own = Awareness(Doc())
        self.cell = ""
        self.running: set[str] = set()
        self._until = 0.0

    def work_at(self, cells: Sequence[str]) -> None:
        """It works, or has just worked, at the last of these cells."""
        self._until = time.monotonic() + GRACE
        if cells:
            self.cell = cells[-1]

    def time_left(self) -> float:
        """Seconds for which it is still there, whatever it does; none if not positive."""
        return math.inf if self.running else self._until - time.monotonic()


class _RoomAgents:
    """The agents in one room, announced all together.

    Attributes:
        live: The room.
        shown: Shows them for as long as one is there.
    """

    def __init__(self, rooms: Rooms, live: LiveRoom) -> None:
        self.live = live
        self._rooms = rooms
        self._there: dict[str, _Agent] = {}
        self._changed = asyncio.Event()
        # The rooms send nothing but from a task.
        self.shown = asyncio.create_task(self._show(), name=f"agents in {live.path}")

    def of(self, caller: Caller) -> _Agent:
        """An agent that does something now."""
        self._changed.set()
        if (agent := self._there.get(caller.identity)) is None:
            agent = self._there[caller.identity] = _Agent(caller)
        return agent

    async def _show(self) -> None:
        awareness = self.live.room.awareness
        joined = awareness.observe(self._on_awareness)
        try:
            while self._rooms.is_open(self.live):
                self._changed.clear()
                self._announce([each for each in self._there.values() if each.time_left() <= 0])
                if not self._there:
                    break
                await asyncio.sleep(ANNOUNCE_INTERVAL)
                with suppress(TimeoutError):
                    time_left = min(each.time_left() for each in self._there.values())
                    async with asyncio.timeout(min(time_left, RENEWAL_INTERVAL)):
                        await self._changed.wait()
        finally:
            awareness.unobserve(joined)
            self._announce(list(self._there.values()))

    def _announce(self, gone: Sequence[_Agent]) -> None:
        """Announce who is there, in the room and in the list of who is online."""
        announced = list(self._there.values())
        if not announced:
            return
        self._there = {key: each for key, each in self._there.items() if each not in gone}
        states = self._state_of_each(list(self._there.values()))
        everybody = Awareness(Doc())
        for agent in announced:
            agent.own.set_local_state(states.get(agent))
            state = agent.own.encode_awareness_update([agent.own.client_id])
            everybody.apply_awareness_update(state, "local")
        # One message for all: a page looks at each of its editors whenever somebody moves.
        update = everybody.encode_awareness_update([each.own.client_id for each in announced])
        loop = asyncio.get_running_loop()
        for room in self._rooms.presence_rooms(self.live):
            # What is "local" to the room it sends to its clients; one that has stopped has none.
            with suppress(RuntimeError):
                room.awareness.apply_awareness_update(update, "local")
            for agent in gone:
                # Its number does not come back. Not at once: that it has gone is sent a moment later.
                loop.call_later(
                    RENEWAL_INTERVAL, room.awareness.meta.pop, agent.own.client_id, None
                )

    def _state_of_each(self, agents: Sequence[_Agent]) -> Mapping[_Agent, Json]:
        if not agents:
            return {}
        live, autosave = self.live, self._autosave()
        cells = live.notebook.snapshot(live.path).by_key
        return {
            agent: {
                "user": agent.user,
                "current": f"notebook:{live.path}",
                "documents": [live.path],
                "cursors": _cursors(live, cells.get(agent.cell)),
                "autosave": autosave,
            }
            for agent in agents
        }

    def _autosave(self) -> bool:
        """What the people there have chosen: the room saves by itself while anybody wants it."""
        states = self.live.room.awareness.states.values()
        chosen = [state.get("autosave", True) for state in states if state and not _is_agent(state)]
        return any(chosen) if chosen else True

    def _on_awareness(self, topic: str, changes: tuple[Json, Any]) -> None:
        """A client has joined, to which nobody has been announced yet."""
        clients, origin = changes
        if topic == "change" and clients["added"] and origin != "local":
            self._changed.set()


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


def _cursors(live: LiveRoom, cell: Cell | None) -> list[Json]:
    """A caret at the end of a cell's source, as CodeMirror's binding to Yjs tells of carets."""
    if cell is None:
        return []
    source = live.notebook.shared(cell.index)["source"]
    # Yjs means the end of a text by the text alone.
    end = source.sticky_index(0, Assoc.BEFORE).to_json()
    place = {"type": end["type"], "tname": None, "item": None, "assoc": 0}
    return [{"anchor": place, "head": place, "primary": True, "empty": True}]
