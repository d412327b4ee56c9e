"""Jupyter's sessions as `kernels.base.Sessions`: which kernel belongs to which notebook."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from jupyter_core.utils import ensure_async

from tk_ai_extension.model.errors import SaveFailed
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.paths import moved

logger = logging.getLogger(__name__)

LIVE_PREFIX = "RTC:"
"""The drive in a session's path if JupyterLab has the notebook in a collaboration room."""


class _Session(NamedTuple):
    """A stored session.

    Attributes:
        path: The path as it is stored, with the drive.
        name: The name as it is stored: the file's, or a console's title.
        type: ``notebook``, ``console`` or another.
    """

    id: str
    path: str
    name: str | None
    type: str
    kernel_id: str

    def moved(self, old: str, new: str) -> _Session | None:
        """Return it after a file or a folder was renamed; None if that does not concern it."""
        local = _local(self.path)
        path = moved(local, old, new)
        if path is None or path == local:
            return None if path is None else self
        prefix = LIVE_PREFIX if self.path.startswith(LIVE_PREFIX) else ""
        is_named_so = self.name == PurePosixPath(local).name
        name = PurePosixPath(path).name if is_named_so else self.name
        return self._replace(path=prefix + path, name=name)


@dataclass(eq=False)
class _Notebook:
    """A notebook that is being bound to a kernel; its path follows renames."""

    path: str

    def names(self, asked: _Session) -> Json:
        """Return the path and name of the session that a client asked for, as they are after renames."""
        now = asked.moved(_local(asked.path), self.path) or asked
        return {"path": now.path, "name": now.name}


class JupyterSessions:
    """The sessions of jupyter_server's `SessionManager`, looked up by a notebook's path.

    The manager's ``create_session`` is replaced: between its handler's look for a session and the new
    one, a kernel starts, which takes a second. Another caller that looks meanwhile would start a second one.

    Args:
        manager: The session manager.
        bound: Called with a notebook's path and its new kernel's id.
    """

    def __init__(
        self, manager: Any, bound: Callable[[str, str], Awaitable[None]] | None = None
    ) -> None:
        self._manager = manager
        self._bound = bound
        # Unused locks are garbage collected.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._create_session = manager.create_session
        manager.create_session = self._join_or_create
        # By path, the kernels of notebooks that have no session because none could be stored.
        self._unsaved: dict[str, str] = {}
        # By id, sessions that a rename or deletion changed, until that is stored; None: removed.
        self._changed: dict[str, _Session | None] = {}
        self._being_bound: set[_Notebook] = set()

    def lock(self, path: str) -> asyncio.Lock:
        """Return the lock under which a notebook's kernel is started; others wait to join it.

        It stays the notebook's lock if the notebook is renamed.
        """
        return self._locks.setdefault(path.strip("/"), asyncio.Lock())

    async def kernel_of(self, path: str) -> str | None:
        """Return the id of the notebook's kernel, or None.

        Raises:
            SaveFailed: the session database cannot be read.
        """
        _, kernels = await self._notebooks()
        return kernels.get(path.strip("/"))

    async def bind(self, path: str, kernel_id: str, *, replace: bool = False) -> str:
        """Create or update the notebook's session; see `kernels.base.Sessions.bind`.

        Raises:
            SaveFailed: the session database cannot be written. If the notebook has no session, the
                binding lasts until this process ends; otherwise the session is unchanged.
        """
        with self._following(path) as notebook:
            sessions, kernels = await self._notebooks()
            bound = kernel_id if replace else kernels.get(notebook.path, kernel_id)
            session = sessions.get(notebook.path)
            with self._storing(notebook, bound, session):
                if session is None:
                    await self._create_session(
                        path=notebook.path,
                        name=PurePosixPath(notebook.path).name,
                        type="notebook",
                        kernel_id=bound,
                    )
                elif session.kernel_id != bound:
                    await self._manager.update_session(session.id, kernel_id=bound)
            if self._bound is not None and bound == kernel_id:
                await self._bound(notebook.path, kernel_id)
            return bound

    async def paths_of(self, kernel_id: str) -> list[str]:
        """Return the paths of the notebooks that have this kernel.

        Raises:
            SaveFailed: the session database cannot be read.
        """
        _, kernels = await self._notebooks()
        return [path for path, kernel in kernels.items() if kernel == kernel_id]

    def renamed(self, old: str, new: str) -> None:
        """Update paths after a notebook or a folder was renamed.

        A client updates the session only of a notebook that it has open, and later. Without awaiting:
        the next notebook of the old name must not find the session.
        """
        for notebook in self._being_bound:
            notebook.path = moved(notebook.path, old, new) or notebook.path
        for by_path in (self._locks, self._unsaved):
            _move_keys(by_path, old, new)
        sessions = self._read_all()
        changed = {each.id: now for each in sessions if (now := each.moved(old, new)) is not None}
        taken = {_local(now.path) for now in changed.values() if now.type == "notebook"}
        for each in sessions:
            # A notebook that had one of these paths is gone.
            if each.type == "notebook" and each.id not in changed and _local(each.path) in taken:
                self._changed[each.id] = None
        self._changed |= changed
        self._store_changes()

    def deleted(self, path: str) -> None:
        """Remove the sessions of a deleted notebook, or of those in a deleted folder.

        Their kernels run until they are shut down. A new notebook with this path must not join them, and
        JupyterLab joins whichever session has a notebook's path.
        """
        for known in list(self._unsaved):
            if moved(known, path, path) is not None:
                del self._unsaved[known]
        for session in self._read_all():
            local = _local(session.path)
            if local.endswith(".ipynb") and moved(local, path, path) is not None:
                self._changed[session.id] = None
        self._store_changes()

    async def _join_or_create(
        self,
        path: str | None = None,
        name: str | None = None,
        type: str | None = None,  # noqa: A002 - the manager's
        kernel_name: str | None = None,
        kernel_id: str | None = None,
    ) -> Json:
        """Create a session for a client, as the manager does; join a kernel that is starting."""
        given: Json = {"type": type, "kernel_name": kernel_name}
        if path is None or type != "notebook":
            return await self._create_session(path=path, name=name, kernel_id=kernel_id, **given)
        asked = _Session("", path, name, type, "")
        with self._following(path) as notebook:
            async with self.lock(notebook.path):
                sessions, kernels = await self._notebooks()
                if not kernel_id and (present := kernels.get(notebook.path)) is not None:
                    if notebook.path in self._unsaved:
                        await self.bind(notebook.path, present)
                        sessions, _ = await self._notebooks()
                    return await self._manager.get_session(session_id=sessions[notebook.path].id)
                # Started before there is a session: where none can be stored, the next request joins it.
                kernel = kernel_id or await self._manager.start_kernel_for_session(
                    self._manager.new_session_id(), **given, **notebook.names(asked)
                )
                with self._storing(notebook, kernel, sessions.get(notebook.path)):
                    return await self._create_session(
                        **given, **notebook.names(asked), kernel_id=kernel
                    )

    async def _notebooks(self) -> tuple[dict[str, _Session], dict[str, str]]:
        """Return the stored sessions of all notebooks, and their kernels, by path.

        Raises:
            SaveFailed: the session database cannot be read.
        """
        sessions: dict[str, _Session] = {}
        self._store_changes()
        try:
            culled = {
                kernel_id
                for kernel_id in {each.kernel_id for each in self._read()}
                if await ensure_async(self._manager.kernel_culled(kernel_id))
            }
            # Again, without awaiting: one may have been renamed meanwhile.
            stored = self._read()
        except sqlite3.Error as error:
            raise SaveFailed(f"The session database cannot be read: {error}.") from error
        for each in stored:
            if each.type == "notebook" and each.kernel_id not in culled:
                sessions.setdefault(_local(each.path), each)
        kernels = {path: session.kernel_id for path, session in sessions.items()}
        for path, kernel_id in list(self._unsaved.items()):
            if path in kernels or kernel_id not in self._manager.kernel_manager:
                del self._unsaved[path]
            else:
                kernels[path] = kernel_id
        return sessions, kernels

    def _read(self) -> list[_Session]:
        """Return all sessions.

        Not `list_sessions`: it deletes sessions without a kernel, which a full disk refuses.

        Raises:
            sqlite3.Error: the session database cannot be read.
        """
        rows = self._manager.cursor.execute(
            "SELECT session_id, path, name, type, kernel_id FROM session WHERE path IS NOT NULL"
        ).fetchall()
        stored = [_Session(*row) for row in rows]
        found = [self._changed.get(each.id, each) for each in stored]
        return [each for each in found if each is not None]

    def _read_all(self) -> list[_Session]:
        """Return all sessions; none, with a warning, if they cannot be read."""
        try:
            return self._read()
        except sqlite3.Error as error:
            logger.warning("The sessions do not follow a rename or deletion: %s", error)
            return []

    def _store_changes(self) -> None:
        """Store what renames and deletions changed; later if the database cannot be written."""
        manager = self._manager
        with suppress(sqlite3.Error):
            for session_id, session in list(self._changed.items()):
                if session is None:
                    manager.cursor.execute("DELETE FROM session WHERE session_id=?", (session_id,))
                else:
                    # Not `update_session`: it awaits, and fails if the kernel has ended.
                    manager.cursor.execute(
                        "UPDATE session SET path=?, name=? WHERE session_id=?",
                        (session.path, session.name, session_id),
                    )
                    self._update_environment(session)
                del self._changed[session_id]

    def _update_environment(self, session: _Session) -> None:
        """Give the kernel the session's new name when it restarts, as `update_session` does."""
        kernels, name = self._manager.kernel_manager, "JPY_SESSION_NAME"
        if hasattr(kernels, "update_env"):
            environment = self._manager.get_kernel_env(session.path, session.name)
            kernels.update_env(kernel_id=session.kernel_id, env={name: environment[name]})

    @contextmanager
    def _following(self, path: str) -> Generator[_Notebook]:
        """Have a path follow renames while its notebook is bound to a kernel."""
        notebook = _Notebook(_local(path))
        self._being_bound.add(notebook)
        try:
            yield notebook
        finally:
            self._being_bound.remove(notebook)

    @contextmanager
    def _storing(
        self, notebook: _Notebook, kernel_id: str, session: _Session | None
    ) -> Generator[None]:
        """Keep a notebook's kernel in memory if there is no session and none can be stored."""
        try:
            yield
        except sqlite3.Error as error:
            if session is None:
                self._unsaved[notebook.path] = kernel_id
            raise SaveFailed(f"The session of {notebook.path} cannot be saved: {error}.") from error
        self._unsaved.pop(notebook.path, None)


def _move_keys(by_path: MutableMapping[str, Any], old: str, new: str) -> None:
    for path in list(by_path):
        value = by_path.get(path)
        if value is not None and (now := moved(path, old, new)) is not None:
            del by_path[path]
            by_path[now] = value


def _local(path: str) -> str:
    return path.removeprefix(LIVE_PREFIX).strip("/")
