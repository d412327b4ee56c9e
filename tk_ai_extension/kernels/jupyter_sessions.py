"""Jupyter's sessions: which kernel belongs to which notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

from tornado.web import HTTPError

from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.paths import DELETED

LIVE_PREFIX = "RTC:"
"""The drive in a session's path if JupyterLab has the notebook in a collaboration room."""


class JupyterSessions:
    """The sessions of jupyter_server's `SessionManager`, looked up by a notebook's path.

    One notebook has one session, and so one kernel, whichever client asks for it first. Two methods of the
    manager are replaced:

    - ``create_session``: JupyterLab asks for a session with a UUID in the place of the notebook's name, and
      sets the path when its kernel has started. Here the session has the notebook's path from the start,
      and a client that asks for another one joins it, also while its kernel starts.
    - ``update_session``: a session that gets the path of another one replaces it, as after "Save As".

    Args:
        manager: The session manager.
        lock: Returns the lock under which the kernel of a path's notebook is started.
        bound: Called with a notebook's path and its new kernel's id.
    """

    def __init__(
        self,
        manager: Any,
        lock: Callable[[str], asyncio.Lock],
        bound: Callable[[str, str], Awaitable[None]] | None = None,
    ) -> None:
        self._manager = manager
        self._lock = lock
        self._bound = bound
        self._create = manager.create_session
        self._update = manager.update_session
        manager.create_session = self._create_or_join
        manager.update_session = self._update_alone

    async def kernel_of(self, path: str) -> str | None:
        """Return the id of the notebook's kernel, or None."""
        session = await self._find(path)
        return None if session is None else session["kernel"]["id"]

    async def bind(self, path: str, kernel_id: str, *, replace: bool = False) -> str:
        """Create the notebook's session unless it has one; return its kernel, the new one if ``replace``."""
        session = await self._find(path)
        if session is None:
            name = PurePosixPath(path).name
            await self._create(path=path, name=name, type="notebook", kernel_id=kernel_id)
        elif replace:
            await self._manager.update_session(session["id"], kernel_id=kernel_id)
        else:
            return session["kernel"]["id"]
        if self._bound is not None:
            await self._bound(path, kernel_id)
        return kernel_id

    async def paths_of(self, kernel_id: str) -> list[str]:
        """Return the paths of the notebooks that have this kernel."""
        sessions = await self._notebooks()
        return [path for path, session in sessions.items() if session["kernel"]["id"] == kernel_id]

    async def move(self, path: str, new: str) -> None:
        """Update a notebook's session after a rename: a client does that only if it has the notebook open."""
        if (session := await self._find(path)) is not None:
            prefix = LIVE_PREFIX if session["path"].startswith(LIVE_PREFIX) else ""
            with suppress(HTTPError):  # Its kernel has just ended.
                await self._manager.update_session(
                    session["id"], path=prefix + new, name=PurePosixPath(new).name
                )

    async def detach(self, path: str) -> None:
        """Detach a deleted notebook's session from its path: a new notebook there does not join it.

        The kernel runs until it is shut down.
        """
        await self.move(path, path + DELETED)

    async def _create_or_join(
        self,
        path: str | None = None,
        name: str | None = None,
        type: str | None = None,  # noqa: A002 - the manager's
        kernel_name: str | None = None,
        kernel_id: str | None = None,
    ) -> Json:
        """Return a client's session: a new one, or the notebook's.

        The model has the path that the client asked for: JupyterLab shuts down a session with another path.
        """
        notebook = _notebook_of(path, name) if type == "notebook" else None
        if path is None or notebook is None:
            return await self._create(path, name, type, kernel_name, kernel_id)
        async with self._lock(notebook):
            session = await self._find(notebook)
            if session is None:
                prefix = LIVE_PREFIX if path.startswith(LIVE_PREFIX) else ""
                file = PurePosixPath(notebook).name
                session = await self._create(prefix + notebook, file, type, kernel_name, kernel_id)
            elif kernel_id is not None and kernel_id != session["kernel"]["id"]:
                await self._manager.update_session(session["id"], kernel_id=kernel_id)
                session = await self._manager.get_session(session_id=session["id"])
        return {**session, "path": path}

    async def _update_alone(self, session_id: str, **changes: Any) -> None:
        """Update a session; another one with its new path is detached from it."""
        notebook = _notebook_of(changes.get("path"), None)
        other = notebook and await self._find(notebook)
        if notebook and other and other["id"] != session_id:
            await self.detach(notebook)
        await self._update(session_id, **changes)

    async def _find(self, path: str) -> Json | None:
        return (await self._notebooks()).get(path.strip("/"))

    async def _notebooks(self) -> dict[str, Json]:
        """Return the sessions of all notebooks by path."""
        sessions: dict[str, Json] = {}
        for session in await self._manager.list_sessions():
            path = _local(session["path"] or "")
            if session["type"] == "notebook" and path.endswith(".ipynb"):
                sessions.setdefault(path, session)
        return sessions


def _notebook_of(path: str | None, name: str | None) -> str | None:
    """Return the notebook of a session that a client asks for; None if it is unknown.

    JupyterLab's path is a UUID in the notebook's folder, and its name the file's name.

    >>> _notebook_of("x/5f1c", "a.ipynb")
    'x/a.ipynb'
    """
    local = _local(path or "")
    if local.endswith(".ipynb"):
        return local
    if not name or not name.endswith(".ipynb"):
        return None
    return str(PurePosixPath(local).with_name(name)) if local else name


def _local(path: str) -> str:
    return path.removeprefix(LIVE_PREFIX).strip("/")
