"""Jupyter's sessions as `kernels.base.Sessions`: which kernel belongs to which notebook."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import PurePosixPath
from typing import Any
from weakref import WeakValueDictionary

from tk_ai_extension.model.errors import SaveFailed
from tk_ai_extension.model.json_values import Json

LIVE_PREFIX = "RTC:"
"""The drive in a session's path if JupyterLab has the notebook in a collaboration room."""


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
        # Bindings that could not be written to the session database.
        self._unsaved: dict[str, str] = {}

    def lock(self, path: str) -> asyncio.Lock:
        """Return the lock under which a notebook's kernel is started; others wait to join it."""
        return self._locks.setdefault(path.strip("/"), asyncio.Lock())

    async def kernel_of(self, path: str) -> str | None:
        """Return the id of the kernel in this notebook's session, or None."""
        if path in self._unsaved:
            return self._unsaved[path]
        session = await self._session(path)
        return None if session is None else str(session["kernel"]["id"])

    async def bind(self, path: str, kernel_id: str, *, replace: bool = False) -> str:
        """Create or update the notebook's session; see `kernels.base.Sessions.bind`.

        Raises:
            SaveFailed: the session database cannot be written; the binding lasts until this process
                ends.
        """
        session = await self._session(path)
        replace = replace or self._unsaved.get(path) == kernel_id  # chosen earlier, saved now
        try:
            if session is None:
                await self._create_session(
                    path=path, name=PurePosixPath(path).name, type="notebook", kernel_id=kernel_id
                )
                bound = kernel_id
            else:
                bound = str(session["kernel"]["id"])
                if replace and bound != kernel_id:
                    await self._manager.update_session(session["id"], kernel_id=kernel_id)
                    bound = kernel_id
        except sqlite3.OperationalError as error:
            self._unsaved[path] = kernel_id
            raise SaveFailed(f"The session of {path} cannot be saved: {error}.") from error
        self._unsaved.pop(path, None)
        if self._bound is not None and bound == kernel_id:
            await self._bound(path, kernel_id)
        return bound

    async def paths_of(self, kernel_id: str) -> list[str]:
        """Return the paths of the notebooks whose sessions have this kernel."""
        return [
            _path(session)
            for session in await self._manager.list_sessions()
            if session["type"] == "notebook" and session["kernel"]["id"] == kernel_id
        ]

    async def _join_or_create(
        self,
        path: str | None = None,
        name: str | None = None,
        type: str | None = None,  # noqa: A002 - the manager's
        kernel_name: str | None = None,
        kernel_id: str | None = None,
    ) -> Json:
        """Create a session for a client, as the manager does; join a kernel that is starting."""
        create = partial(
            self._create_session,
            path=path,
            name=name,
            type=type,
            kernel_name=kernel_name,
            kernel_id=kernel_id,
        )
        if path is None or type != "notebook":
            return await create()
        notebook = _local(path)
        async with self.lock(notebook):
            found = None if kernel_id else await self._session(notebook)
            return found or await create()

    async def _session(self, path: str) -> Json | None:
        sessions = await self._manager.list_sessions()  # drops sessions without a kernel
        for session in sessions:
            if session["type"] == "notebook" and _path(session) == path.strip("/"):
                return session
        return None


def _path(session: Json) -> str:
    return _local(str(session["path"]))


def _local(path: str) -> str:
    return path.removeprefix(LIVE_PREFIX).strip("/")
