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

    async def bind(self, path: str, kernel_id: str) -> None:
        """Create or update the notebook's session, so that JupyterLab shows the kernel connected.

        Raises:
            SaveFailed: the session database cannot be written; the binding lasts until this process
                ends.
        """
        session = await self._session(path)
        try:
            if session is None:
                await self._manager.create_session(
                    path=path, name=PurePosixPath(path).name, type="notebook", kernel_id=kernel_id
                )
            elif session["kernel"]["id"] != kernel_id:
                await self._manager.update_session(session["id"], kernel_id=kernel_id)
        except sqlite3.OperationalError as error:
            self._unsaved[path] = kernel_id
            raise SaveFailed(f"The session of {path} cannot be saved: {error}.") from error
        self._unsaved.pop(path, None)
        if self._bound is not None:
            await self._bound(path, kernel_id)

    async def paths_of(self, kernel_id: str) -> list[str]:
        """Return the paths of the notebooks whose sessions have this kernel."""
        return [
            _path(session)
            for session in await self._manager.list_sessions()
            if session["type"] == "notebook" and session["kernel"]["id"] == kernel_id
        ]

    async def _session(self, path: str) -> Json | None:
        sessions = await self._manager.list_sessions()  # drops sessions without a kernel
        found = [
            session
            for session in sessions
            if session["type"] == "notebook" and _path(session) == path.strip("/")
        ]
        return found[0] if found else None


def _path(session: Json) -> str:
    return str(session["path"]).removeprefix(LIVE_PREFIX).strip("/")
