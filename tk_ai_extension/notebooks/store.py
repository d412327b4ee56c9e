"""Which document holds a notebook now: its room, or its file, or a contents manager of its own kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tk_ai_extension.model.cells import Json
from tk_ai_extension.notebooks.base import NotebookDocument
from tk_ai_extension.notebooks.changes import Subscriptions
from tk_ai_extension.notebooks.filestore import NotebookFiles
from tk_ai_extension.notebooks.hooks import SaveHooks


class ContentsNotebookStore:
    """The notebooks of a Jupyter Server.

    Args:
        root: The folder that paths are relative to.
        contain: The path below the root, with forward slashes, of what a caller named; raises
            PathRefused and NotANotebook.
        contents_manager: Jupyter's contents manager; None without a server.
        settings: The web application's settings, among which jupyter-collaboration puts itself.
        event_logger: Jupyter's event logger.
    """

    def __init__(
        self,
        root: Path,
        contain: Callable[[str], str],
        *,
        contents_manager: Any = None,
        settings: Mapping[str, Any] | None = None,
        event_logger: Any = None,
    ) -> None:
        self._contain = contain
        self._subscriptions = Subscriptions(event_logger)
        hooks = SaveHooks(contents_manager) if contents_manager is not None else None
        self._files = NotebookFiles(root, hooks, self._subscriptions.notify)

    @property
    def backend(self) -> str:
        """What holds notebooks that nothing special is known of: ``room``, ``file`` or ``contents``."""
        return "file"

    async def open(self, path: str) -> NotebookDocument:
        """See `NotebookStore.open`."""
        return self._files.open(self._contain(path))

    async def create(self, path: str, notebook: Json) -> NotebookDocument:
        """See `NotebookStore.create`."""
        path = self._contain(path)
        await self._files.create(path, notebook)
        return await self.open(path)

    async def exists(self, path: str) -> bool:
        """See `NotebookStore.exists`."""
        return self._files.exists(self._contain(path))

    def subscribe(self, path: str, changed: Callable[[], None]) -> Callable[[], None]:
        """See `NotebookStore.subscribe`."""
        return self._subscriptions.add(self._contain(path), changed)

    async def close(self) -> None:
        """Lets go of what the store holds; documents must not be used afterwards."""
        self._subscriptions.close()
        await self._files.close()
