"""Jupyter's sessions as `kernels.base.Sessions`: which kernel belongs to which notebook."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from jupyter_core.utils import ensure_async

from tk_ai_extension.model.errors import SaveFailed
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.paths import moved

LIVE_PREFIX = "RTC:"
"""The drive in a session's path if JupyterLab has the notebook in a collaboration room."""


class _Session(NamedTuple):
    """A stored session of a notebook, by the ids of it and its kernel."""

    id: str
    kernel_id: str


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

    def lock(self, path: str) -> asyncio.Lock:
        """Return the lock under which a notebook's kernel is started; others wait to join it."""
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
        notebook = path.strip("/")
        sessions, kernels = await self._notebooks()
        bound = kernel_id if replace else kernels.get(notebook, kernel_id)
        session = sessions.get(notebook)
        with self._storing(notebook, bound, session):
            if session is None:
                name = PurePosixPath(path).name
                await self._create_session(path=path, name=name, type="notebook", kernel_id=bound)
            elif session.kernel_id != bound:
                await self._manager.update_session(session.id, kernel_id=bound)
        if self._bound is not None and bound == kernel_id:
            await self._bound(path, kernel_id)
        return bound

    async def paths_of(self, kernel_id: str) -> list[str]:
        """Return the paths of the notebooks that have this kernel.

        Raises:
            SaveFailed: the session database cannot be read.
        """
        _, kernels = await self._notebooks()
        return [path for path, kernel in kernels.items() if kernel == kernel_id]

    def renamed(self, old: str, new: str) -> None:
        """Update paths after a notebook or a folder was renamed; Jupyter updates stored sessions."""
        for path in list(self._unsaved):
            if (now := moved(path, old, new)) is not None:
                self._unsaved[now] = self._unsaved.pop(path)

    async def _join_or_create(
        self,
        path: str | None = None,
        name: str | None = None,
        type: str | None = None,  # noqa: A002 - the manager's
        kernel_name: str | None = None,
        kernel_id: str | None = None,
    ) -> Json:
        """Create a session for a client, as the manager does; join a kernel that is starting."""
        given: Json = {"path": path, "name": name, "type": type, "kernel_name": kernel_name}
        if path is None or type != "notebook":
            return await self._create_session(**given, kernel_id=kernel_id)
        notebook = _local(path)
        async with self.lock(notebook):
            sessions, kernels = await self._notebooks()
            if not kernel_id and notebook in kernels:
                if notebook in self._unsaved:
                    await self.bind(notebook, kernels[notebook])
                    sessions, _ = await self._notebooks()
                return await self._manager.get_session(session_id=sessions[notebook].id)
            # Started before there is a session: where none can be stored, the next request joins it.
            new = self._manager.new_session_id()
            kernel = kernel_id or await self._manager.start_kernel_for_session(new, **given)
            with self._storing(notebook, kernel, sessions.get(notebook)):
                return await self._create_session(**given, kernel_id=kernel)

    async def _notebooks(self) -> tuple[dict[str, _Session], dict[str, str]]:
        """Return the stored sessions of all notebooks, and their kernels, by path.

        Raises:
            SaveFailed: the session database cannot be read.
        """
        sessions: dict[str, _Session] = {}
        try:
            # Not `list_sessions`: it deletes sessions without a kernel, which a full disk refuses.
            rows = self._manager.cursor.execute(
                "SELECT session_id, path, kernel_id FROM session WHERE type = 'notebook'"
            ).fetchall()
        except sqlite3.Error as error:
            raise SaveFailed(f"The session database cannot be read: {error}.") from error
        for row in rows:
            if not await ensure_async(self._manager.kernel_culled(row["kernel_id"])):
                found = _Session(row["session_id"], row["kernel_id"])
                sessions.setdefault(_local(row["path"]), found)
        kernels = {path: session.kernel_id for path, session in sessions.items()}
        for path, kernel_id in list(self._unsaved.items()):
            if path in kernels or kernel_id not in self._manager.kernel_manager:
                del self._unsaved[path]
            else:
                kernels[path] = kernel_id
        return sessions, kernels

    @contextmanager
    def _storing(self, path: str, kernel_id: str, session: _Session | None) -> Generator[None]:
        """Keep a notebook's kernel in memory if there is no session and none can be stored."""
        try:
            yield
        except sqlite3.Error as error:
            if session is None:
                self._unsaved[path] = kernel_id
            raise SaveFailed(f"The session of {path} cannot be saved: {error}.") from error
        self._unsaved.pop(path, None)


def _local(path: str) -> str:
    return path.removeprefix(LIVE_PREFIX).strip("/")
