"""Routes a path to the document that holds the notebook: a room, a tab, a file or a contents manager."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tk_ai_extension.model.errors import (
    CollaborationUnsupported,
    Conflict,
    InvalidNotebook,
    OpenElsewhere,
    OpenTwice,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.paths import aliases, has_link, open_aliases
from tk_ai_extension.notebooks.base import NotebookDocument
from tk_ai_extension.notebooks.files import NotebookFiles
from tk_ai_extension.notebooks.session import NotebookSession, SessionDocument
from tk_ai_extension.notebooks.subscriptions import ChangeSubscriptions
from tk_ai_extension.notebooks.watching import FileWatcher

if TYPE_CHECKING:
    from jupyter_server.services.contents.manager import ContentsManager

    from tk_ai_extension.notebooks.contents import ContentsNotebooks
    from tk_ai_extension.notebooks.rooms.collaboration import Rooms
    from tk_ai_extension.notebooks.rooms.leases import RoomLeases
    from tk_ai_extension.notebooks.rooms.presence import Presence
    from tk_ai_extension.notebooks.tabs.protocol import TabChannel
    from tk_ai_extension.notebooks.tabs.registry import TabRegistry

_log = logging.getLogger(__name__)


class NotebookRouter:
    """The notebooks of a Jupyter Server.

    Args:
        root: The folder that paths are relative to.
        contain: Converts a caller's path to a path below the root with forward slashes; raises
            PathRefused and NotANotebook.
        linked: Folders outside the root that links may lead to.
        contents_manager: Jupyter's contents manager; None without a server.
        settings: The web application's settings, in which jupyter-collaboration registers itself.
        event_logger: Jupyter's event logger.
        tabs: The channel to open tabs; it is used only without collaboration rooms.
        warn: Called with warnings for callers, such as that a file was recovered.
        leases: Decides which of several servers has a notebook's room.
    """

    def __init__(
        self,
        root: Path,
        contain: Callable[[str], str],
        *,
        linked: Sequence[Path] = (),
        contents_manager: ContentsManager | None = None,
        settings: Mapping[str, Any] | None = None,
        event_logger: Any = None,
        tabs: TabChannel | None = None,
        warn: Callable[[str], None] | None = None,
        leases: RoomLeases | None = None,
    ) -> None:
        self._root = root
        # Whether a link is on the way to a notebook that is open in a room.
        self._linked: dict[str, bool] = {}
        self._contain = contain
        self._settings: Mapping[str, Any] = {} if settings is None else settings
        self._leases = leases
        self._active: set[NotebookSession] = set()
        self._rooms: Rooms | None = None
        self._presence: Presence | None = None
        self._subscriptions = ChangeSubscriptions(
            event_logger, self._on_rename, self._on_room_opened
        )
        self._warn = warn = warn or _log.warning
        self._store = _make_store(root, linked, contents_manager, self._subscriptions.notify)
        self._watcher: FileWatcher | None = None
        if isinstance(self._store, NotebookFiles):
            self._watcher = FileWatcher(root, self._on_file_changed)
        self._channel = tabs
        self._tabs: TabRegistry | None = None
        if tabs is not None:
            from tk_ai_extension.notebooks.tabs.registry import TabRegistry

            self._tabs = TabRegistry(tabs, self._subscriptions.notify, self._on_moved, warn)

    @property
    def backend(self) -> str:
        """The kind of documents that this server opens: ``room``, ``file`` or ``contents``."""
        if self._live_rooms() is not None:
            return "room"
        return "file" if isinstance(self._store, NotebookFiles) else "contents"

    @property
    def presence(self) -> Presence | None:
        """Shows active agents to people in rooms; None without jupyter-collaboration."""
        rooms = self._live_rooms()
        if rooms is not None and self._presence is None:
            from tk_ai_extension.notebooks.rooms.presence import Presence

            self._presence = Presence(rooms)
        return self._presence

    @cached_property
    def _missing_of_collaboration(self) -> list[str]:
        from tk_ai_extension.notebooks.rooms.extension import missing_parts

        missing = missing_parts()
        if missing:
            _log.warning(
                "This jupyter-collaboration lacks %s: notebooks in rooms can be read, not changed",
                ", ".join(missing),
            )
        return missing

    @property
    def missing_parts(self) -> list[str]:
        """The private attributes that an enabled jupyter-collaboration lacks; determined once."""
        extension = self._settings.get("jupyter_server_ydoc")
        if extension is None or getattr(extension, "disable_rtc", False):
            return []
        return self._missing_of_collaboration

    def contain(self, path: str) -> str:
        """Return a caller's path as a path below the root; the name under which the file is open.

        One file has one live document. If people have it open under another name (a link to it, or to
        one of its folders), every caller gets that name.

        Raises:
            PathRefused, NotANotebook.
        """
        path = self._contain(path)
        return next(iter(self._open_names(path)), path)

    def _open_names(self, path: str) -> list[str]:
        """Return the names under which a notebook's file is open, the one to use first.

        Rooms that only agents opened count if nobody has the file open under another name.
        """
        if self._live_rooms() is not None:
            from tk_ai_extension.notebooks.rooms.names import open_notebooks

            opened = open_notebooks(self._settings)
            names = [path] if path in opened else []
            self._linked = {
                name: self._linked[name] if name in self._linked else has_link(self._root, name)
                for name in opened
            }
            names += open_aliases(self._root, path, self._linked)
            people = [name for name in names if opened[name] > 0]
            return people or sorted(names, key=lambda name: opened[name] < 0)[:1]
        tabs = [] if self._channel is None else self._channel.present(path)
        return sorted(dict.fromkeys(tab.path for tab in tabs), key=lambda name: name != path)

    async def open(self, path: str, *, read_only: bool = False) -> SessionDocument:
        """See `NotebookStore.open`."""
        path = self._contain(path)
        names = self._open_names(path)
        path = names[0] if names else path
        document = await self._store.open(path)
        document.session.reopen, document.session.active = self.open, self._active
        if self.missing_parts:
            document.check_editable = partial(
                _check_unknown_rooms, self._root, path, self._settings, self.missing_parts
            )
            return document
        rooms, tabs = self._live_rooms(), self._used_tabs()
        document.session.refresh = None if tabs is None else tabs.refresh
        if tabs is not None:
            from tk_ai_extension.notebooks.tabs.document import TabDocument

            return TabDocument(document, tabs)
        if rooms is None or (read_only and rooms.find(path) is None):
            return document
        if len(names) > 1:
            document.check_editable = partial(_refuse_names, names)
            return document
        if not await self._can_be_live(rooms, document):
            return document
        if self._leases is not None:
            try:
                self._leases.check(path)
            except OpenElsewhere:
                document.check_editable = partial(self._leases.check, path)
                return document
        from tk_ai_extension.notebooks.rooms.document import RoomDocument

        return RoomDocument(document, rooms, self._warn)

    def _live_rooms(self) -> Rooms | None:
        """Return jupyter-collaboration's rooms if it is enabled (it may load after this extension)."""
        if self._settings.get("jupyter_server_ydoc") is None or self.missing_parts:
            return None
        from tk_ai_extension.notebooks.rooms.extension import find_collaboration

        if self._rooms is None and find_collaboration(self._settings) is not None:
            from tk_ai_extension.notebooks.rooms.collaboration import Rooms

            self._rooms = Rooms(
                self._settings, self._subscriptions.notify, self._leases, self._is_superseded
            )
        return self._rooms

    def _is_superseded(self, path: str) -> bool:
        """Return whether people have a notebook open under another name only."""
        names = self._open_names(path)
        return bool(names) and path not in names

    async def _can_be_live(self, rooms: Rooms, document: SessionDocument) -> bool:
        """Return whether a room holds this notebook or may be opened for it.

        A room would convert and save a notebook of an old format, so that one is read from its file. So
        is an invalid notebook, for an error that names the position.
        """
        room = rooms.find(document.path)
        if room is not None and room.old_format is False:
            return True
        try:
            snapshot = await document.read()
        except InvalidNotebook:
            return room is not None
        old = snapshot.nbformat[0] != 4
        if room is not None:
            room.old_format = old
        return not old

    def _on_moved(self, path: str) -> None:
        """Have a notebook's running cells located again: a tab or a room may hold it now."""
        for session in tuple(self._active):
            name = session.path
            if name is not None and (name == path or aliases(self._root, path, [name])):
                session.moved()

    def _on_rename(self, old: str, new: str) -> None:
        self._store.renamed(old, new)
        if self._leases is not None:
            self._leases.renamed(old, new)
        if self._channel is not None:
            self._channel.renamed(old, new)
        if self._rooms is not None:
            self._rooms.retry()

    def _on_room_opened(self, path: str) -> None:
        """Handle the opening of a notebook's room."""
        if (rooms := self._live_rooms()) is None:
            return
        if self._leases is not None:
            # People cannot be refused: jupyter-collaboration does not check leases.
            self._leases.take_or_warn(path)
        rooms.hand_over(path)
        if self._subscriptions.has(path):
            rooms.find(path)
        self._on_moved(path)

    async def create(self, path: str, notebook: Json) -> SessionDocument:
        """See `NotebookStore.create`."""
        path = self._contain(path)
        tabs = self._used_tabs()
        if tabs is not None and not await self._store.exists(path):
            # The file of an open notebook was deleted.
            tab = await tabs.channel.find(path)
            if tab is not None and tab.dirty:
                raise Conflict(
                    f"A tab of JupyterLab has unsaved changes of {path}, whose file is gone.",
                    hint="Save the notebook or close it in JupyterLab, or choose another name.",
                )
        await self._store.create(path, notebook)
        return await self._open_written(path)

    async def copy(self, source: NotebookDocument, path: str) -> SessionDocument:
        """See `NotebookStore.copy`."""
        path = self._contain(path)
        if isinstance(self._store, NotebookFiles) and not (await source.read()).live:
            await self._store.copy(source.path, path)
        elif isinstance(self._store, NotebookFiles):
            await self._store.write(path, await source.raw())
        else:
            await self._store.create(path, await source.raw())
        return await self._open_written(path)

    async def _open_written(self, path: str) -> SessionDocument:
        """Open a notebook whose whole file was written; tabs that have it open read it before."""
        if (tabs := self._used_tabs()) is not None:
            await tabs.refresh(path)
        return await self.open(path)

    def _used_tabs(self) -> TabRegistry | None:
        """Return the registry of tabs; None if notebooks are not in tabs but in rooms."""
        return self._tabs if self._live_rooms() is None else None

    async def exists(self, path: str) -> bool:
        """See `NotebookStore.exists`."""
        return await self._store.exists(self._contain(path))

    def file_of(self, path: str) -> str:
        """See `NotebookStore.file_of`; a contents manager without files has one name for each."""
        return self._store.file_of(path) if isinstance(self._store, NotebookFiles) else path

    def is_open(self, path: str) -> bool:
        """See `NotebookStore.is_open`; rooms that only agents keep open do not count."""
        names = self._open_names(self._contain(path))
        if self._live_rooms() is None:
            return bool(names)
        from tk_ai_extension.notebooks.rooms.names import open_notebooks

        opened = open_notebooks(self._settings)
        return any(opened[name] > 0 for name in names)

    def subscribe(self, path: str, changed: Callable[[], None]) -> Callable[[], None]:
        """See `NotebookStore.subscribe`."""
        path = self.contain(path)
        with ExitStack() as stack:
            stack.callback(self._subscriptions.add(path, changed))
            if self._watcher is not None:
                stack.callback(self._watcher.watch(path))
            return stack.pop_all().close

    def _on_file_changed(self, path: str) -> None:
        """Notify of a change by another program; a room's save was announced by the room."""
        rooms = self._live_rooms()
        if rooms is None or rooms.find(path) is None:
            self._subscriptions.notify(path)

    async def close(self) -> None:
        """See `NotebookStore.close`."""
        self._subscriptions.close()
        if self._watcher is not None:
            await self._watcher.close()
        for session in tuple(self._active):
            await session.close()
        if self._tabs is not None:
            await self._tabs.close()
        if self._presence is not None:
            await self._presence.close()
        if self._rooms is not None:
            await self._rooms.close()
        if self._leases is not None:
            self._leases.close()
        await self._store.close()


def _make_store(
    root: Path,
    linked: Sequence[Path],
    contents_manager: ContentsManager | None,
    changed: Callable[[str], None],
) -> NotebookFiles | ContentsNotebooks:
    """Return the store of notebooks that are not open: files, or a contents manager."""
    if contents_manager is None:
        return NotebookFiles(root, None, changed, linked)
    # Imported late: these need Jupyter Server, which a plain folder does not.
    from tk_ai_extension.notebooks.contents import ContentsNotebooks
    from tk_ai_extension.notebooks.save_hooks import SaveHooks, is_on_files

    if is_on_files(contents_manager):
        return NotebookFiles(root, SaveHooks(contents_manager), changed, linked)
    return ContentsNotebooks(contents_manager, changed)


def _refuse_names(names: Sequence[str]) -> None:
    """Refuse to change a notebook that people have open in several rooms, which save over each other."""
    raise OpenTwice(
        f"People have one notebook open under {len(names)} names: {', '.join(names)}.",
        hint="Close it in JupyterLab under all names but one, then try again.",
    )


def _check_unknown_rooms(
    root: Path, path: str, settings: Mapping[str, Any], missing: Sequence[str]
) -> None:
    """Refuse to change a notebook that has a room, or may have one.

    A room overwrites changes that are written to its file.

    Args:
        root: The folder that the path is relative to.
        path: The notebook's path.
        settings: The web application's settings.
        missing: The private attributes that jupyter-collaboration lacks.

    Raises:
        CollaborationUnsupported.
    """
    try:
        rooms: Any = settings["jupyter_server_ydoc"].ywebsocket_server.rooms
        ids: Any = settings["file_id_manager"]
        paths = [ids.get_path(str(room).rpartition(":")[2]) for room in rooms]
        is_open = path in paths or bool(aliases(root, path, filter(None, paths)))
    except (AttributeError, KeyError, TypeError):
        is_open = True
    if is_open:
        raise CollaborationUnsupported(
            f"{path} may be open in a collaboration room, which cannot be edited with this version "
            f"of jupyter-collaboration (missing: {', '.join(missing)})."
        )
