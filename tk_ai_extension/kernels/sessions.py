"""Jupyter's sessions as `kernels.base.Sessions`: which kernel people see at which notebook."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath
from typing import Any

from tk_ai_extension.model.errors import SaveFailed

LIVE_PREFIX = "RTC:"
"""The drive that JupyterLab names in a session's path where the document is a live one."""


class JupyterSessions:
    """The sessions of jupyter_server's `SessionManager`, looked up by a notebook's path.

    Args:
        manager: The session manager.
        bound: Called with a notebook's path and the kernel that it has got.
    """

    def __init__(
        self, manager: Any, bound: Callable[[str, str], Awaitable[None]] | None = None
    ) -> None:
        self._manager = manager
        self._bound = bound
        # What the file of sessions had no room for.
        self._unkept: dict[str, str] = {}

    async def kernel_of(self, path: str) -> str | None:
        """The kernel that a session of this notebook has, or None."""
        if path in self._unkept:
            return self._unkept[path]
        session = await self._session(path)
        return None if session is None else str(session["kernel"]["id"])

    async def bind(self, path: str, kernel_id: str) -> None:
        """Makes (or updates) the session of this notebook, so that JupyterLab shows it connected.

        Raises:
            SaveFailed: the sessions are in a file that cannot be written; it is bound until this
                process ends.
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
            self._unkept[path] = kernel_id
            raise SaveFailed(f"The kernel of {path} cannot be kept: {error}.") from error
        self._unkept.pop(path, None)
        if self._bound is not None:
            await self._bound(path, kernel_id)

    async def paths_of(self, kernel_id: str) -> list[str]:
        """The notebooks whose sessions have this kernel."""
        return [
            _path(session)
            for session in await self._manager.list_sessions()
            if session["type"] == "notebook" and session["kernel"]["id"] == kernel_id
        ]

    async def _session(self, path: str) -> dict[str, Any] | None:
        sessions = await self._manager.list_sessions()  # drops those whose kernel is gone
        found = [
            session
            for session in sessions
            if session["type"] == "notebook" and _path(session) == path.strip("/")
        ]
        return found[0] if found else None


def _path(session: dict[str, Any]) -> str:
    return str(session["path"]).removeprefix(LIVE_PREFIX).strip("/")
