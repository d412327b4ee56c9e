"""Jupyter's sessions as `kernels.base.Sessions`: one session, and so one kernel, for each notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any
from weakref import WeakValueDictionary

from tornado.web import HTTPError

from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.paths import moved

LIVE_PREFIX = "RTC:"
"""The drive in a session's path if JupyterLab has the notebook in a collaboration room."""

DELETED = " (deleted)"
"""The end of the path of a deleted notebook's session, whose kernel continues."""


class JupyterSessions:
    """The sessions of jupyter_server's `SessionManager`, looked up by a notebook's path.

    It replaces the manager's ``create_session``. JupyterLab creates a session under a path with a UUID
    and renames it once the kernel has started. Meanwhile another caller would find no session of the
    notebook and start a second kernel. Here the session has the notebook's path from the start; a client
    that asks for another one joins it.

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

    def lock(self, path: str) -> asyncio.Lock:
        """Return the lock under which a notebook's kernel is started; others wait to join it."""
        return self._locks.setdefault(path.strip("/"), asyncio.Lock())

    async def kernel_of(self, path: str) -> str | None:
        """Return the id of the notebook's kernel, or None."""
        session = await self._session(path.strip("/"))
        return None if session is None else session["kernel"]["id"]

    async def bind(self, path: str, kernel_id: str, *, replace: bool = False) -> str:
        """Create or update the notebook's session; see `kernels.base.Sessions.bind`."""
        path = path.strip("/")
        session = await self._session(path)
        if session is None:
            name = PurePosixPath(path).name
            await self._create_session(path=path, name=name, type="notebook", kernel_id=kernel_id)
        elif session["kernel"]["id"] != kernel_id:
            if not replace:
                return session["kernel"]["id"]
            await self._manager.update_session(session["id"], kernel_id=kernel_id)
        if self._bound is not None:
            await self._bound(path, kernel_id)
        return kernel_id

    async def paths_of(self, kernel_id: str) -> list[str]:
        """Return the paths of the notebooks that have this kernel."""
        sessions = await self._notebooks()
        return [path for path, each in sessions.items() if each["kernel"]["id"] == kernel_id]

    async def renamed(self, old: str, new: str) -> None:
        """Update paths after a notebook or a folder was renamed; one that was at the new path is gone.

        A client updates the session only of a notebook that it has open, and later. Sessions of local
        kernels are updated before this suspends.
        """
        for path in list(self._locks):
            lock = self._locks.get(path)
            if lock is not None and (now := moved(path, old, new)) is not None:
                del self._locks[path]
                self._locks[now] = lock
        await self.deleted(new)
        for path, session in (await self._notebooks()).items():
            if (now := moved(path, old, new)) is not None:
                await self._rename(session, now)

    async def deleted(self, path: str) -> None:
        """Release the sessions of a deleted notebook or folder: a new notebook must not join them."""
        for known, session in (await self._notebooks()).items():
            if moved(known, path, path) is not None:
                await self._rename(session, f"{known}{DELETED}")

    async def _rename(self, session: Json, path: str) -> None:
        prefix = LIVE_PREFIX if session["path"].startswith(LIVE_PREFIX) else ""
        with suppress(HTTPError):  # Its kernel has just ended.
            await self._manager.update_session(
                session["id"], path=prefix + path, name=PurePosixPath(path).name
            )

    async def _join_or_create(
        self,
        path: str | None = None,
        name: str | None = None,
        type: str | None = None,  # noqa: A002 - the manager's
        kernel_name: str | None = None,
        kernel_id: str | None = None,
    ) -> Json:
        """Return a client's session: a new one, or the notebook's.

        The model has the path that the client asked for: JupyterLab shuts a session with another path down.
        """
        notebook = _notebook_of(path, name) if type == "notebook" else None
        if path is None or notebook is None:
            return await self._create_session(path, name, type, kernel_name, kernel_id)
        async with self.lock(notebook):
            session = await self._session(notebook)
            if session is None:
                prefix = LIVE_PREFIX if path.startswith(LIVE_PREFIX) else ""
                file = PurePosixPath(notebook).name
                session = await self._create_session(
                    prefix + notebook, file, type, kernel_name, kernel_id
                )
        return {**session, "path": path}

    async def _session(self, path: str) -> Json | None:
        return (await self._notebooks()).get(path)

    async def _notebooks(self) -> dict[str, Json]:
        """Return the sessions of notebooks by path; the oldest, should there be several."""
        sessions: dict[str, Json] = {}
        for session in await self._manager.list_sessions():
            path = _local(session["path"] or "")
            if session["type"] == "notebook" and path.endswith(".ipynb"):
                sessions.setdefault(path, session)
        return sessions


def _notebook_of(path: str | None, name: str | None) -> str | None:
    """Return the notebook of a session that a client asks for; None if it is unknown.

    JupyterLab's path is a UUID in the notebook's folder, and its name the file's name.
    """
    local = _local(path or "")
    if local.endswith(".ipynb"):
        return local
    if not name or not name.endswith(".ipynb"):
        return None
    return str(PurePosixPath(local).with_name(name)) if local else name


def _local(path: str) -> str:
    return path.removeprefix(LIVE_PREFIX).strip("/")
