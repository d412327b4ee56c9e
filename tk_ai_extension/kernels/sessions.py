"""Jupyter's sessions as `kernels.base.Sessions`: which kernel belongs to which notebook."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath
from typing import Any

from tk_ai_extension.model.errors import SaveFailed
from tk_ai_extension.model.json_values import Json

LIVE_PREFIX = "RTC:"
"""The drive in a session's path if JupyterLab has the notebook in a collaboration room."""


class JupyterSessions:
    """The sessions of jupyter_server's `SessionManager`, looked up by a notebook's path.

    Args:
        manager: The session manager.
        bound: Called with a notebook's path and its new kernel's id.
    """

    def __init__(
        self, manager: Any, bound: Callable[[str, str], Awaitable[None]] | None = None
    ) -> None:
        self._manager = manager
        self._bound = bound
        # Bindings that could not be written to the session database.
        self._unsaved: dict[str, str] = {}

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
                bound = await self._create(path, kernel_id, replace=replace)
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

    async def _create(self, path: str, kernel_id: str, *, replace: bool) -> str:
        """Create a session; if another client did so at the same time, keep that one's kernel."""
        created = await self._manager.create_session(
            path=path, name=PurePosixPath(path).name, type="notebook", kernel_id=kernel_id
        )
        others = [each for each in await self._sessions(path) if each["id"] != created["id"]]
        if replace or not others:
            return kernel_id
        other = str(others[0]["kernel"]["id"])
        await self._manager.update_session(created["id"], kernel_id=other)
        return other

    async def _session(self, path: str) -> Json | None:
        found = await self._sessions(path)
        return found[0] if found else None

    async def _sessions(self, path: str) -> list[Json]:
        return [
            session
            for session in await self._manager.list_sessions()  # drops sessions without a kernel
            if session["type"] == "notebook" and _path(session) == path.strip("/")
        ]


def _path(session: Json) -> str:
    return str(session["path"]).removeprefix(LIVE_PREFIX).strip("/")
