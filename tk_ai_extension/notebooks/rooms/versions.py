"""Optimistic concurrency for a room's file: it overwrites only the version that the room has loaded.

jupyter-collaboration's loader is shared by all rooms of a file and has one `last_modified`: the version
that it saw last. Its watcher and a refused save update it before the room has loaded that version. A
queued save would then pass the loader's check and overwrite another program's change.
"""

from __future__ import annotations

from typing import Any

from jupyter_server_ydoc.loaders import FileLoader  # pyright: ignore[reportMissingTypeStubs]
from jupyter_server_ydoc.utils import (  # pyright: ignore[reportMissingTypeStubs]
    OutOfBandChanges,
)

from tk_ai_extension.model.json_values import Json


class RoomFile(FileLoader):
    """A file loader for one room, with the room's own version.

    It shares everything else (the lock, the subscriptions, the watcher) with the file's loader.

    Args:
        loader: The loader of the file.
        loaded: Whether the room has its content. Otherwise the loader is loading it, and `settle` takes
            over the loader's version.
    """

    def __init__(self, loader: FileLoader, *, loaded: bool) -> None:
        self.loader: Any = loader
        self._version: Any = self.loader.last_modified
        self._settled = loaded
        shared = {name: value for name, value in vars(loader).items() if name != "last_modified"}
        vars(self).update(shared)

    @property
    def version(self) -> Any:
        """The file's `last_modified` when the room loaded or saved it; None before."""
        return self._version if self._settled else self.loader.last_modified

    @version.setter
    def version(self, value: Any) -> None:
        self._version, self._settled = value, True

    def settle(self) -> None:
        """Fix the room's version once it is loaded: the loader sees only later ones from now on."""
        self.version = self.version

    @property
    def last_modified(self) -> Any:
        """The room's version, under the name that the loader's methods use."""
        return self.version

    @last_modified.setter
    def last_modified(self, value: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        # The watcher compares with the loader's version: otherwise it would report the room's save.
        self.version = self.loader.last_modified = value

    @property
    def is_behind(self) -> bool:
        """Whether the loader has seen a version of the file that the room has not loaded."""
        return bool(self.loader.last_modified != self.version)

    async def maybe_notify(self) -> None:
        """See `FileLoader.maybe_notify`; the room's version stays until the room has loaded it."""
        await self.loader.maybe_notify()

    async def maybe_save_content(self, model: Json) -> Json | None:
        """See `FileLoader.maybe_save_content`.

        Raises:
            OutOfBandChanges: the file's version is not the room's.
        """
        version = self.version
        try:
            return await super().maybe_save_content(model)
        except OutOfBandChanges:
            self.version = version
            raise
