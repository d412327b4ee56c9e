"""Shows active agents in rooms as collaborators.

jupyter-collaboration shows who is present through awareness: each client of a room has a number and a
state, which it renews; a state ends when it is removed or not renewed for half a minute. An agent has no
connection of its own, so its states are managed here. They are not part of the document: they are not
saved and do not keep a room open.
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
from tk_ai_extension.model.cells import Cell
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks.rooms.collaboration import Rooms
from tk_ai_extension.notebooks.rooms.room import LiveRoom

GRACE = 4.0
"""Seconds for which an agent is shown after its last activity."""

RENEWAL_INTERVAL = 5.0
"""Seconds between two renewals: a page that reconnects has lost all states."""

ANNOUNCE_INTERVAL = 0.5
"""Minimum seconds between two announcements: a page processes all its editors for each."""

COLORS = 7
"""Number of collaborator colours in JupyterLab's themes."""


class Presence:
    """The active agents in the rooms of one server.

    Args:
        rooms: The rooms.
    """

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._groups: dict[str, _RoomAgents] = {}

    def worked(self, path: str, caller: Caller, cells: Sequence[str]) -> None:
        """Show that an agent changed these cells of a notebook."""
        if (agents := self._agents(path)) is not None:
            agents.of(caller).work_at(cells)

    def began(self, path: str, caller: Caller, cells: Sequence[str]) -> None:
        """Show that an agent begins to run these cells."""
        if (agents := self._agents(path)) is not None:
            agent = agents.of(caller)
            agent.running |= set(cells)
            agent.work_at(cells)

    def ended(self, path: str, caller: Caller, cells: Sequence[str]) -> None:
        """Show that these cells have ended."""
        if (agents := self._agents(path)) is not None:
            agent = agents.of(caller)
            agent.running -= set(cells)
            agent.work_at(cells)

    async def close(self) -> None:
        """Remove all agents."""
        tasks = [agents.shown for agents in self._groups.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _agents(self, path: str) -> _RoomAgents | None:
        """Return the agents in the notebook's room; None if there is no room."""
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
        user: Its user information, as in jupyter-collaboration.
        own: An awareness of its own, for a client number.
        cell: The key of the cell that it is or was last active in; empty if there is none.
        running: The keys of the cells that it runs.
    """

    def __init__(self, caller: Caller) -> None:
        self.user = _user(caller)
        self.own = Awareness(Doc())
        self.cell = ""
        self.running: set[str] = set()
        self._until = 0.0

    def work_at(self, cells: Sequence[str]) -> None:
        """Note activity in the last of these cells."""
        self._until = time.monotonic() + GRACE
        if cells:
            self.cell = cells[-1]

    def time_left(self) -> float:
        """Return the seconds for which it is still shown; zero or less if it is not."""
        return math.inf if self.running else self._until - time.monotonic()


class _RoomAgents:
    """The agents in one room, announced together.

    Attributes:
        live: The room.
        shown: The task that announces them while there are any.
    """

    def __init__(self, rooms: Rooms, live: LiveRoom) -> None:
        self.live = live
        self._rooms = rooms
        self._there: dict[str, _Agent] = {}
        self._changed = asyncio.Event()
        # Rooms send messages only from within a task.
        self.shown = asyncio.create_task(self._show(), name=f"agents in {live.path}")

    def of(self, caller: Caller) -> _Agent:
        """Return an agent that is active now."""
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
        """Announce the agents in the room and in the global list of collaborators."""
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
        # One message for all: a page processes all its editors for each.
        update = everybody.encode_awareness_update([each.own.client_id for each in announced])
        loop = asyncio.get_running_loop()
        for room in self._rooms.presence_rooms(self.live):
            # A room sends "local" updates to its clients; a stopped room raises RuntimeError.
            with suppress(RuntimeError):
                room.awareness.apply_awareness_update(update, "local")
            for agent in gone:
                # Drop the number, which is not reused; later, after the removal was sent.
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
        """Return the people's autosave setting: a room autosaves while any client wants it."""
        states = self.live.room.awareness.states.values()
        chosen = [state.get("autosave", True) for state in states if state and not _is_agent(state)]
        return any(chosen) if chosen else True

    def _on_awareness(self, topic: str, changes: tuple[Json, Any]) -> None:
        """Announce the agents again when a client joins."""
        clients, origin = changes
        if topic == "change" and clients["added"] and origin != "local":
            self._changed.set()


_PREFIX = "tk-ai:"


def _user(caller: Caller) -> Json:
    """Return an agent's user information, as in jupyter-collaboration."""
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
    """Return a caret at the end of a cell's source, in the form of CodeMirror's Yjs binding."""
    if cell is None:
        return []
    source = live.notebook.shared(cell.index)["source"]
    # Yjs denotes the end of a text by the text alone.
    end = source.sticky_index(0, Assoc.BEFORE).to_json()
    place = {"type": end["type"], "tname": None, "item": None, "assoc": 0}
    return [{"anchor": place, "head": place, "primary": True, "empty": True}]
