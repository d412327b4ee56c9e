"""Optimistic concurrency for a room's file: it overwrites only the version that the room has loaded.

jupyter-collaboration's loader is shared by all rooms of a file and has one `last_modified`: the version
that it saw last. Its watcher and a refused save update it before the room has loaded that version. A
queued save would then pass the loader's check and overwrite another program's change. And the save of
a room that changes the loader's version alone looks like another program's change: the room would be
loaded again, without what was typed meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

from jupyter_server_ydoc.loaders import FileLoader
from jupyter_server_ydoc.utils import (
    OutOfBandChanges,
)

from tk_ai_extension.model.encoding import shareable
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks.rooms.extension import (
    NOTEBOOK_ROOM,
    find_collaboration,
    missing_parts,
)


class RoomFile(FileLoader):
    """A file loader for one room, with the room's own version.

    It shares everything else (the lock, the subscriptions, the watcher) with the file's loader.

    Args:
        loader: The loader of the file.
        version: The file's `last_modified` when the room loaded it; None if it has not yet.

    Attributes:
        version: The file's `last_modified` when the room loaded or saved it; None before.
    """

    def __init__(self, loader: FileLoader, version: Any) -> None:
        self.loader: Any = loader
        self.version: Any = version
        known = vars(loader)["_subscriptions"]
        if not isinstance(known, _Subscriptions):
            vars(loader)["_subscriptions"] = _Subscriptions(known)
        shared = {name: value for name, value in vars(loader).items() if name != "last_modified"}
        vars(self).update(shared)

    @property
    def last_modified(self) -> Any:
        """The room's version, under the name that the loader's methods use."""
        return self.version

    @last_modified.setter
    def last_modified(self, value: Any) -> None:
        # The watcher compares with the loader's version: otherwise it would report the room's save.
        self.version = self.loader.last_modified = value

    @property
    def is_behind(self) -> bool:
        """Whether the loader has seen a version of the file that the room has not loaded."""
        return bool(self.loader.last_modified != self.version)

    @property
    def is_deleted(self) -> bool:
        """Whether the file's id was removed, with the file; other methods raise RuntimeError then."""
        return self._file_id_manager.get_path(self.file_id) is None

    async def idle(self) -> None:
        """Wait for the loads and saves of the file that have begun."""
        async with self._lock:
            pass

    async def load_content(self, format: str, file_type: str) -> Json:  # noqa: A002
        """See `FileLoader.load_content`; the content has a form in the document (see `shareable`)."""
        model = await super().load_content(format, file_type)
        return {**model, "content": shareable(model["content"])}

    async def maybe_notify(self) -> None:
        """See `FileLoader.maybe_notify`; the room's version stays until the room has loaded it."""
        await self.loader.maybe_notify()

    async def maybe_save_content(self, model: Json) -> Json | None:
        """See `FileLoader.maybe_save_content`.

        Raises:
            OutOfBandChanges: the file's version is not the room's.
        """
        version = self.version
        try:
            return await super().maybe_save_content(model)
        except OutOfBandChanges:
            self.version = version
            raise


class _Subscriptions(dict[str, Any]):
    """A loader's subscriptions; rooms may open and close while it notifies them one by one."""

    def values(self) -> Any:
        return list(super().values())


def prepare_rooms(settings: Mapping[str, Any]) -> None:
    """Give each notebook's room its own version of its file before it loads or saves anything.

    It also stops without cutting off a write to its history.

    Args:
        settings: The web application's settings; nothing is done without jupyter-collaboration.
    """
    extension = find_collaboration(settings)
    if extension is None or missing_parts():
        return
    server = extension.ywebsocket_server
    if "add_room" in vars(server):
        return
    add = server.add_room

    def add_room(room_id: str, room: Any) -> None:
        _prepare(room_id, room)
        add(room_id, room)

    server.add_room = add_room
    for room_id, room in server.rooms.items():
        _prepare(room_id, room)


def _prepare(room_id: str, room: Any) -> None:
    # Each page that opens the notebook adds its room again.
    if room_id.startswith(NOTEBOOK_ROOM) and not isinstance(room._file, RoomFile):  # noqa: SLF001
        room._file = RoomFile(room._file, room._file.last_modified if room.ready else None)  # noqa: SLF001
        room.stop = partial(_stop_between_writes, room, room.stop)


async def _stop_between_writes(room: Any, stop: Callable[[], Awaitable[None]]) -> None:
    """Stop a room once its store has written: the rest of a write that is cancelled is not even undone.

    Its transaction would stay open, and lock the database of all rooms: each that is opened would wait
    five seconds for it, and have no history.
    """
    lock = getattr(room.ystore, "lock", None)
    async with nullcontext() if lock is None else lock:
        await stop()
