"""jupyter-collaboration's rooms: finds, opens and closes them.

Only this module and `room` use its private attributes; here for the room of a document.
"""

# ruff: noqa: SLF001 - see above

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from tornado.web import HTTPError

from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.notebooks.rooms.extension import find_collaboration, notebook_room
from tk_ai_extension.notebooks.rooms.leases import RoomLeases
from tk_ai_extension.notebooks.rooms.live import readable
from tk_ai_extension.notebooks.rooms.room import LiveRoom
from tk_ai_extension.notebooks.rooms.versions import prepare_rooms
from tk_ai_extension.notebooks.save_hooks import manager_error

_log = logging.getLogger(__name__)

_ONLINE = "JupyterLab:globalAwareness"


class Rooms:
    """The rooms of one server.

    Args:
        settings: The web application's settings.
        changed: Called with a notebook's path when its room's content changes.
        leases: Decides which of several servers has a notebook's room; None for no check.
        is_superseded: Returns whether a notebook is to be used under another name now.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        changed: Callable[[str], None],
        leases: RoomLeases | None = None,
        is_superseded: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._settings = settings
        self._changed = changed
        self._is_superseded = is_superseded
        self._opening = BackgroundTasks(_log)
        self._live: dict[str, LiveRoom] = {}
        self._leases = leases
        prepare_rooms(settings)
        if leases is not None:
            leases.release_with_rooms(self.extension.ywebsocket_server)

    @property
    def extension(self) -> Any:
        """jupyter-collaboration's extension, or None."""
        return find_collaboration(self._settings)

    def find(self, path: str) -> LiveRoom | None:
        """Return the notebook's room if one is open, else None."""
        file_id = self._settings["file_id_manager"].get_id(path)
        room = self.extension.ywebsocket_server.rooms.get(notebook_room(file_id))
        return None if room is None else self._known(room, file_id, path)

    def is_open(self, live: LiveRoom) -> bool:
        """Return whether a room is still open."""
        if (extension := self.extension) is None:
            return False
        return extension.ywebsocket_server.rooms.get(live.room.room_id) is live.room

    def is_room_of(self, live: LiveRoom, path: str) -> bool:
        """Return whether a room is still open and belongs to the notebook at a path.

        A renamed notebook keeps its room, unless the new path already had a file id.
        """
        ids = (None, live.file_id)
        return self.is_open(live) and self._settings["file_id_manager"].get_id(path) in ids

    def presence_rooms(self, live: LiveRoom) -> list[Any]:
        """Return the rooms that show who is in a notebook: its own, and the global one."""
        rooms = self.extension.ywebsocket_server.rooms
        online = rooms.get(_ONLINE)
        own = [live.room] if self.is_open(live) else []
        return own if online is None else [*own, online]

    @asynccontextmanager
    async def open_room(self, path: str) -> AsyncGenerator[LiveRoom]:
        """Open the notebook's room if necessary, and keep it open inside the block.

        Raises:
            NotebookNotFound, InvalidNotebook, OpenElsewhere.
        """
        try:
            live = await self._opening.complete(self._open(path), f"room of {path}", _leave)
            try:
                with readable(path):
                    await live.wait_until_loaded()
                yield live
            finally:
                live.unpin()
        except HTTPError as error:
            raise manager_error(error, path) from error

    async def _open(self, path: str) -> LiveRoom:
        """Open a room and pin it: a room is never without somebody who cleans it later."""
        with nullcontext() if self._leases is None else self._leases.opening(path):
            document = await self._open_document(path)
            # Do not await between here and the pin, or the room could be cleaned.
            file_id = self._settings["file_id_manager"].index(path)
            room = self.extension.ywebsocket_server.rooms[notebook_room(file_id)]
            assert room._document is document
            live = self._known(room, file_id, path)
            live.pin()
            return live

    async def _open_document(self, path: str) -> Any:
        extension = self.extension
        try:
            with readable(path):
                return await extension.get_document(
                    path=path,
                    content_type="notebook",
                    file_format="json",
                    copy=False,
                    create=True,
                )
        except BaseException:
            # A room that failed to load is stopped but still listed, and loading it again would wait
            # forever for its store. Nothing was awaited since it failed.
            room_id = notebook_room(self._settings["file_id_manager"].get_id(path))
            room = extension.ywebsocket_server.rooms.get(room_id)
            if room is not None and not room.ready and not room.clients:
                del extension.ywebsocket_server.rooms[room_id]
            raise

    def hand_over(self, path: str) -> None:
        """Save other rooms of a notebook that people have just opened under this name, then load it.

        The others are not saved again: what is written to them afterwards is written to this one as well.
        """
        self._forget_closed()
        others = [
            live
            for live in self._live.values()
            if live.path != path and live.unsaved and self._is_superseded(live.path)
        ]
        for live in others:
            live.owed = live.notebook.changes
        if others:
            self._opening.spawn(self._hand_over(others, path), f"save of other rooms of {path}")

    async def _hand_over(self, others: list[LiveRoom], path: str) -> None:
        for live in others:
            await live.save_in_time()
        room = self.find(path)
        if room is not None:
            await room.refresh()

    def retry(self) -> None:
        """Save what could not be saved, for example because a notebook was renamed meanwhile."""
        self._forget_closed()
        for live in self._live.values():
            if live.unsaved:
                live.save_soon()

    async def close(self) -> None:
        """Save unsaved changes and leave the rooms to jupyter-collaboration."""
        await self._opening.join()
        for live in list(self._live.values()):
            await live.save_in_time()
            live.detach()
        self._live.clear()

    def _known(self, room: Any, file_id: str, path: str) -> LiveRoom:
        live = self._live.get(room.room_id)
        if live is None or live.room is not room:
            self._forget_closed()
            live = LiveRoom(
                self.extension,
                room,
                file_id,
                self._changed,
                closed=self._forget_closed,
                is_superseded=self._is_superseded,
            )
            self._live[room.room_id] = live
        live.path = path
        return live

    def _forget_closed(self) -> None:
        """Detach from rooms that no longer exist; no event reports their end."""
        rooms = self.extension.ywebsocket_server.rooms
        for room_id, live in list(self._live.items()):
            if rooms.get(room_id) is not live.room:
                self._live.pop(room_id).detach()


async def _leave(live: LiveRoom) -> None:
    """Release a room that nobody waits for any more."""
    live.unpin()
