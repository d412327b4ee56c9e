"""List of the notebooks below the root, which many requests want at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tk_ai_extension.workspace.files import Files, Walk

MAX_NOTEBOOKS = 2_000
"""Maximum number of listed notebooks; unlisted ones can be read as well."""
KEEP = 1.0
"""How long a list is used again, in seconds: a client completes a name with each key."""


class NotebookList:
    """The paths of the notebooks below the root, by one walk for all clients.

    Args:
        files: The files below the root.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._walk: asyncio.Task[Sequence[str]] | None = None

    async def get(self, *, recent: bool) -> Sequence[str]:
        """Return the paths, at most `MAX_NOTEBOOKS`.

        Args:
            recent: Whether a list that was begun before this call is enough.

        Raises:
            ToolError: the root cannot be listed.
        """
        if not recent and (before := self._walk) is not None:
            await asyncio.wait((before,))
            self._forget(before)
        if self._walk is None:
            self._walk = asyncio.create_task(self._found(), name="tk-ai list of notebooks")
            self._walk.add_done_callback(self._ended)
        return await asyncio.shield(self._walk)

    async def close(self) -> None:
        """End a walk."""
        if self._walk is not None:
            self._walk.cancel()
            await asyncio.wait((self._walk,))

    async def _found(self) -> Sequence[str]:
        found: list[str] = []
        async for entry in Walk(self._files, "", recursive=True):
            if entry.kind == "notebook":
                found.append(entry.path)
            if len(found) >= MAX_NOTEBOOKS:
                break
        return found

    def _ended(self, walk: asyncio.Task[Sequence[str]]) -> None:
        if walk.cancelled() or walk.exception() is not None:
            self._walk = None
        else:
            walk.get_loop().call_later(KEEP, self._forget, walk)

    def _forget(self, walk: asyncio.Task[Sequence[str]]) -> None:
        if self._walk is walk:
            self._walk = None
