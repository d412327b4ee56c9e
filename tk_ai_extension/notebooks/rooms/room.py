"""A notebook's collaboration room: kept open, reloaded and saved.

Only this module and `collaboration` use private attributes of jupyter-collaboration. They are needed for
what it does not offer publicly: a save that reports its outcome, and keeping a room open without clients.
"""

# ruff: noqa: SLF001 - see above

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tornado.web import HTTPError

from tk_ai_extension.model.background import BackgroundTasks, run_to_completion
from tk_ai_extension.model.errors import InvalidNotebook, NotebookNotFound, ReadOnly, ToolError
from tk_ai_extension.notebooks.autosave import LASTING, MAX_DELAY, Schedule
from tk_ai_extension.notebooks.base import FileChanged
from tk_ai_extension.notebooks.rooms.extension import notebook_room
from tk_ai_extension.notebooks.rooms.live import (
    LiveNotebook,
    Pin,
    RoomRun,
    collect_at_one_moment,
    readable,
    representable,
)
from tk_ai_extension.notebooks.rooms.versions import OutOfBandChanges, RoomFile
from tk_ai_extension.notebooks.save_hooks import manager_error

_log = logging.getLogger(__name__)

SAVE_DELAY = 0.8
"""Seconds from a change to its save; a further change does not postpone it."""


class LiveRoom:
    """A room and its state.

    Attributes:
        room: The DocumentRoom.
        file_id: The notebook's id in jupyter_server_fileid.
        path: The notebook's path at the last access.
        notebook: The notebook in the room.
        old_format: Whether the file has an old format, which the room has converted; None if unknown.
        writing: The runs whose outputs are being written.
        owed: The count of changes up to which the content has to be saved, though people have opened
            the notebook under another name.
        reloads: How often another program's file replaced the room's content, and with it changes that
            were not saved.
    """

    def __init__(
        self,
        extension: Any,
        room: Any,
        file_id: str,
        changed: Callable[[str], None],
        *,
        closed: Callable[[], None],
        is_superseded: Callable[[str], bool],
    ) -> None:
        self._extension = extension
        self._is_superseded = is_superseded
        self.room = room
        self.file_id = file_id
        self._notify = changed
        self._closed = closed
        self._cleaning: asyncio.Task[None] | None = None
        self.path = ""
        self.old_format: bool | None = None
        self.notebook = LiveNotebook(room._document, self._on_change)
        self._collect_as_before = collect_at_one_moment(
            room._document, lambda: self.notebook.changes
        )
        self.writing: list[RoomRun] = []
        self.reloads = 0
        self._reloading = 0
        # A reload replaces the content after loading it: a save in between would be reverted.
        self._save_or_reload = asyncio.Lock()
        self._has_waited = False
        self._file: RoomFile = room._file
        room._maybe_save_document = self._save_for_room
        self._reload = room._on_outofband_change
        # The room's save calls this attribute; the file's watcher calls what was subscribed.
        room._on_outofband_change = self._on_reload
        self._stop = room.stop
        room.stop = self._save_and_stop
        room._file.observe(room.room_id, self._on_reload, room._on_filepath_change)
        self._pins = 0
        self._pin = Pin(notebook_room(file_id))
        self._save_lock = asyncio.Lock()
        self._next_save: asyncio.Task[int] | None = None
        self._is_due = False
        # Counts of `LiveNotebook.changes`: up to which one a save was requested, and was made.
        self._requested = self._saved = 0
        self.owed = 0
        tasks = BackgroundTasks(_log)
        self._schedule = Schedule(self.save_in_time, "save of a room", tasks, delay=SAVE_DELAY)

    @property
    def unsaved(self) -> bool:
        """Whether a save is pending, or was requested and has failed.

        People may have turned autosave off: what they typed then is not saved until they or a tool do.
        """
        pending = self.room._saving_document
        own = self._is_due or self._next_save is not None or self._requested > self._saved
        return own or (pending is not None and not pending.done())

    def _superseded(self) -> bool:
        """Whether people have the file open under another name, in a room that has all of it.

        Another save of this one would replace what they type there; see `Rooms.hand_over`.
        """
        return self._saved >= self.owed and self._is_superseded(self.path)

    async def wait_until_loaded(self) -> None:
        """Wait until the room is loaded and no reload is under way."""
        room = self.room
        if not room.ready:
            async with self._extension._room_locks[room.room_id]:
                await room.initialize()
        await self._wait_for_earlier()
        if self._reloading:
            async with self._save_or_reload:
                pass
        # Held until the document is loaded, also progressively. The future of that is never set in a room
        # that was loaded from the store.
        async with room._update_lock:
            pass
        loaded: asyncio.Future[None] | None = getattr(room, "_document_progressively_loaded", None)
        if loaded is not None and loaded.done():
            loaded.result()

    async def _wait_for_earlier(self) -> None:
        """Wait for a load or a save that the room began before this object existed."""
        if not self._has_waited:
            await self._file.idle()
            async with self.room._update_lock:
                self._has_waited = True

    async def reload_if_changed(self) -> None:
        """Reload the file if another program wrote it, as the room does once a second.

        Raises:
            InvalidNotebook: Jupyter cannot read the file; the room is unchanged and is not saved.
        """
        # A caller that is cancelled would leave some of the cells, or the old ones for good.
        await run_to_completion(self._reload_if_changed())
        await self.wait_until_loaded()

    async def _reload_if_changed(self) -> None:
        await self._file.maybe_notify()
        if self._file.is_behind:  # It could not be loaded when the loader first saw it.
            await self._on_reload()

    async def refresh(self) -> None:
        """Reload the file if another program wrote it; without a file that can be read, the room stays."""
        if not self._file.is_deleted:
            with suppress(ToolError, HTTPError):
                await self.reload_if_changed()

    # --- staying open

    def pin(self) -> None:
        """Keep the room open by adding a client to it."""
        self._pins += 1
        room = self.room
        room.clients.add(self._pin)
        if room.cleaner is not None:
            room.cleaner.cancel()

    def unpin(self) -> None:
        """Remove the client; a room without clients is cleaned after its configured delay."""
        self._pins -= 1
        if self._pins:
            return
        room = self.room
        room.clients.discard(self._pin)
        delay = self._extension.document_cleanup_delay
        if not room.clients and delay is not None:
            # In the room's own attribute: opening the room cancels this task.
            self._cleaning = room.cleaner = asyncio.create_task(self._clean(room, delay))

    def detach(self) -> None:
        """Stop following the notebook; the room stays open."""
        self._collect_as_before()
        self.notebook.close()
        self._cancel_due()
        if self._cleaning is not None and self._cleaning is not asyncio.current_task():
            self._cleaning.cancel()

    async def _clean(self, room: Any, delay: float) -> None:
        await asyncio.sleep(delay)
        locks = self._extension._room_locks
        async with locks[room.room_id]:
            now = self._extension.ywebsocket_server.rooms.get(room.room_id)
            if room.clients or now is not room:
                return
            if self.unsaved and not await self._is_saved_at_last():
                return
            if room.clients:  # A page came during the save.
                return
            # A page that comes now waits for the lock, and opens a new room.
            await run_to_completion(self._delete(room))
        # The lock stays: others may wait for it, and with another one two tasks could open a room.
        self._closed()
        _log.debug("Room %s deleted", room.room_id)

    async def _delete(self, room: Any) -> None:
        await self._extension.ywebsocket_server.delete_room(room=room)
        loader = self._extension.file_loaders[self.file_id]
        if loader.number_of_subscriptions == 0:
            await self._extension.file_loaders.remove(self.file_id)

    async def _save_and_stop(self) -> None:
        """Stop the room; jupyter-collaboration deletes it without a save when its last page has gone."""
        if self.unsaved:
            await self._is_saved_at_last()
        await self._stop()

    # --- saving

    async def _is_saved_at_last(self) -> bool:
        """Save before the room is deleted; return whether there is nothing left to save."""
        if self._superseded():
            return True
        self._requested = self.notebook.changes
        try:
            # `save` would pin the room and so cancel its cleaning. A page that comes cancels it, too.
            await run_to_completion(self._save_now(self.room))
        except (FileChanged, *LASTING):
            return True
        except ToolError as error:
            _log.warning("A notebook in a room was not saved, so the room stays: %s", error)
            self._retry()
            return False
        return True

    def save_soon(self) -> None:
        """Save within a second, regardless of further changes; keep the room open until then."""
        self._requested = self.notebook.changes
        if self._next_save is None:
            self._set_due()

    def _set_due(self) -> None:
        if not self._is_due:
            self._is_due = True
            self.pin()
            self._schedule.request()

    def _cancel_due(self) -> None:
        if self._is_due:
            self._is_due = False
            self._schedule.cancel()
            self.unpin()

    async def save_in_time(self) -> None:
        """Save if the room is unsaved and not superseded; log a failure."""
        try:
            if self._superseded():
                self._cancel_due()
            elif self.unsaved:
                await self.save()
        except (FileChanged, ToolError) as error:
            _log.warning("A notebook in a room was not saved: %s", error)

    async def save(self) -> int:
        """Save the room's current content; calls during a save are coalesced into the next one.

        Returns:
            The value of `reloads` when the saved content was collected.

        Raises:
            FileChanged: another program wrote the file; the room now has its content.
            InvalidNotebook: another program wrote the file, and Jupyter cannot read it.
            ReadOnly, DiskFull, SaveFailed.
        """
        return await asyncio.shield(self._queue_save())

    async def _save_for_room(
        self, previous: asyncio.Task[None] | None, save_now: bool = False
    ) -> None:
        """Save for the room: after a change, with the room's delay, or when a person saves.

        Raises:
            ToolError: ``save_now`` is set and the save failed.
        """
        room = self.room
        if (delay := 0 if save_now else room._save_delay) is None:
            return
        if previous is not None:
            previous.cancel()
        self._requested = self.notebook.changes
        try:
            await asyncio.sleep(delay)
            if room._saving_document is asyncio.current_task():
                room._saving_document = None  # Under way: neither postponed nor cancelled.
            if save_now or not self._superseded():
                await self.save()
        except asyncio.CancelledError:
            return
        except FileChanged:
            _log.info("Another program wrote %s; it was reloaded", self.path)
        except ToolError as error:
            _log.warning("A notebook in a room was not saved: %s", error)
            if save_now:
                raise

    def _queue_save(self) -> asyncio.Task[int]:
        if self._next_save is None:
            self.pin()
            self._next_save = asyncio.create_task(self._save(), name=f"save {self.path}")
        return self._next_save

    async def _save(self) -> int:
        try:
            async with self._save_lock:
                self._next_save = None
                self._cancel_due()
                return await self._save_now(self.room)
        except LASTING:  # The next save is made when somebody edits, or before the room is closed.
            raise
        except ToolError:
            self._retry()
            raise
        finally:
            self.unpin()

    def _retry(self) -> None:
        """Save again after a delay that doubles with each failure; keep the room open until then."""
        rooms = self._extension.ywebsocket_server.rooms
        if self._requested > self._saved and rooms.get(self.room.room_id) is self.room:
            self._schedule.delay = min(self._schedule.delay * 2, MAX_DELAY)
            self._set_due()

    async def _save_now(self, room: Any) -> int:
        await self._wait_for_earlier()
        try:
            async with self._save_or_reload:
                return await self._save_content(room)
        except OutOfBandChanges:
            await self._on_reload()
            raise FileChanged from None

    async def _save_content(self, room: Any) -> int:
        if room._saving_document is not None:
            # The room's own save, which each change postpones; one that has begun is completed.
            room._saving_document.cancel()
        model = {"format": room.file_format, "type": room.file_type, "content": None}
        changes = self.notebook.changes
        with representable(self.path):
            model["content"] = await room._document.aget()
            reloads = self.reloads
        try:
            saved = await room._file.maybe_save_content(model)
        except HTTPError as error:
            raise manager_error(error, self.path) from error
        except RuntimeError as error:
            if not self._file.is_deleted:
                raise
            raise NotebookNotFound(f"Notebook {self.path} does not exist.") from error
        if saved is None:
            raise ReadOnly(f"{self.path} cannot be written.")
        self._saved = changes
        self._schedule.delay = SAVE_DELAY
        async with room._update_lock:
            room._document.dirty = False
            room._document.hash = saved["hash"]
        return reloads

    async def _on_reload(self) -> None:
        """Reload the file that another program wrote, as the room does.

        Raises:
            InvalidNotebook: Jupyter cannot read the file.
        """
        # Counted before and after: changes in between are replaced as well.
        self.reloads += 1
        self._reloading += 1
        try:
            async with self._save_or_reload:
                if not self._file.is_behind:  # Loaded meanwhile.
                    return
                await self._load_again()
                self.reloads += 1
                # Before the next save, which otherwise saves the outputs of the other program's file.
                for run in tuple(self.writing):
                    run.restore()
        finally:
            self._reloading -= 1

    async def _load_again(self) -> None:
        before, self._file.version = self._file.version, None
        replaced = self.notebook.changes
        try:
            with readable(self.path):
                await self._reload()
        except BaseException:
            self._file.version = before
            raise
        if self._file.version is None:  # The room has logged why.
            self._file.version = before
            raise InvalidNotebook(
                f"Another program wrote {self.path}, and Jupyter cannot read it as a notebook now.",
                hint="Repair the file. Until then the open notebook is not saved over it.",
                path=self.path,
            )
        self._saved = replaced

    def _on_change(self) -> None:
        self._notify(self.path)
