"""Jupyter's sessions as `kernels.base.Sessions`: which kernel people see at which notebook."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

LIVE_PREFIX = "RTC:"
"""The drive that JupyterLab names in a session's path where the document is a live one."""


class JupyterSessions:
    """The sessions of jupyter_server's `SessionManager`, looked up by a notebook's path.

    Args:
        manager: The session manager.
    """

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    async def kernel_of(self, path: str) -> str | None:
        """The kernel that a session of this notebook has, or None."""
        session = await self._session(path)
        return None if session is None else str(session["kernel"]["id"])

    async def bind(self, path: str, kernel_id: str) -> None:
        """Makes (or updates) the session of this notebook, so that JupyterLab shows it connected."""
        session = await self._session(path)
        if session is None:
            await self._manager.create_session(
                path=path, name=PurePosixPath(path).name, type="notebook", kernel_id=kernel_id
            )
        elif session["kernel"]["id"] != kernel_id:
            await self._manager.update_session(session["id"], kernel_id=kernel_id)

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
