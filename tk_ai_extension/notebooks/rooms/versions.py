"""A room's file, written only over the version that the room's content derives from.

jupyter-collaboration's loader belongs to all rooms of a file and has one `last_modified`: the version
that it looked at last. Its watcher looks before a room has taken that version in, and a refused save
does, too. A save that is queued meanwhile would pass the loader's check and overwrite what another
program wrote.
"""

from __future__ import annotations

from typing import Any

from jupyter_server_ydoc.loaders import FileLoader  # pyright: ignore[reportMissingTypeStubs]
from jupyter_server_ydoc.utils import (  # pyright: ignore[reportMissingTypeStubs]
    OutOfBandChanges,
)


class RoomFile(FileLoader):
    """A loader as one room uses it, with a version of its own.

    Everything else (the lock, the subscriptions, the watcher) is the loader's.

    Args:
        loader: The loader of the file.
        loaded: Whether the room has its content. One that is just being filled is filled by the
            loader itself, whose version is taken over by `settle`.
    """

    def __init__(self, loader: FileLoader, *, loaded: bool) -> None:
        self.loader: Any = loader
        self._version: Any = self.loader.last_modified
        self._settled = loaded
        shared = {name: value for name, value in vars(loader).items() if name != "last_modified"}
        vars(self).update(shared)

    @property
    def version(self) -> Any:
        """What the file's `last_modified` was when the room loaded or saved it; None before."""
        return self._version if self._settled else self.loader.last_modified

    @version.setter
    def version(self, value: Any) -> None:
        self._version, self._settled = value, True

    def settle(self) -> None:
        """The room has its content: what the loader sees from now on is a later version."""
        self.version = self.version

    @property
    def last_modified(self) -> Any:
        """The room's version, by the name that the loader's methods use."""
        return self.version

    @last_modified.setter
    def last_modified(self, value: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        # The watcher compares with the loader's: without this it would report our own save.
        self.version = self.loader.last_modified = value

    @property
    def is_behind(self) -> bool:
        """Whether the loader has seen another version of the file than the room has."""
        return bool(self.loader.last_modified != self.version)

    async def maybe_notify(self) -> None:
        """See `FileLoader.maybe_notify`; the room's version stays until the room has loaded it."""
        await self.loader.maybe_notify()

    async def maybe_save_content(self, model: dict[str, Any]) -> dict[str, Any] | None:
        """See `FileLoader.maybe_save_content`.

        Raises:
            OutOfBandChanges: the file is of another version than the room's.
        """
        version = self.version
        try:
            return await super().maybe_save_content(model)
        except OutOfBandChanges:
            self.version = version
            raise
