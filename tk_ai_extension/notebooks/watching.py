"""Watches notebook files for changes by other programs."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.notebooks.atomic_file import FileVersion

INTERVAL = 1.0
"""Seconds between two polls of the watched files."""


class FileWatcher:
    """Polls the files of watched notebooks, only while there are any.

    Comparing their status works on every file system: inotify does not report changes by other machines
    on a network file system.

    Args:
        root: The folder that paths are relative to.
        changed: Called with the path of a notebook whose file has changed.
    """

    def __init__(self, root: Path, changed: Callable[[str], None]) -> None:
        self._root = root
        self._changed = changed
        self._watched: Counter[str] = Counter()
        self._versions: dict[str, FileVersion | None] = {}
        self._polling: asyncio.Task[None] | None = None
        self._tasks = BackgroundTasks(logging.getLogger(__name__))

    def watch(self, path: str) -> Callable[[], None]:
        """Start to watch a notebook's file; return a function that stops it."""
        if not self._watched[path]:
            self._versions[path] = _version(self._root / path)
        self._watched[path] += 1
        if self._polling is None:
            self._polling = self._tasks.spawn(self._poll(), "Watching the files of notebooks")
        return partial(self._release, path)

    async def close(self) -> None:
        """Stop watching."""
        self._watched.clear()
        self._versions.clear()
        await self._tasks.close()

    def _release(self, path: str) -> None:
        self._watched[path] -= 1
        if self._watched[path] <= 0:
            del self._watched[path]
            self._versions.pop(path, None)
        if not self._watched and self._polling is not None:
            self._polling.cancel()
            self._polling = None

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            for path in await self._look(list(self._versions)):
                self._changed(path)

    async def _look(self, paths: Iterable[str]) -> list[str]:
        """Poll the files once; return the paths of those that have changed."""
        files = {path: self._root / path for path in paths}
        found = await asyncio.to_thread(lambda: {path: _version(files[path]) for path in files})
        changed = [
            path
            for path, version in found.items()
            if path in self._versions and self._versions[path] != version
        ]
        self._versions.update((path, found[path]) for path in changed)
        return changed


def _version(file: Path) -> FileVersion | None:
    try:
        return FileVersion.of(file.stat())
    except (OSError, ValueError):
        return None
