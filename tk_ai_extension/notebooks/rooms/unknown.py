"""Notebooks beside a jupyter-collaboration that is not the one this extension knows.

A file that is written underneath its room is overwritten by the room. Where the room cannot be
edited, the notebook is read from its file, and changed only while it surely has no room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from tk_ai_extension.model.cells import Json, Snapshot
from tk_ai_extension.model.errors import CollaborationUnsupported
from tk_ai_extension.model.operations import Applied, Operation
from tk_ai_extension.notebooks.base import NotebookDocument, OutputWriter


class BesideUnknownRooms:
    """A document that refuses to change a notebook which may have a room.

    Args:
        document: The notebook where nobody has it open.
        settings: The web application's settings.
        missing: What of jupyter-collaboration is not as expected.
    """

    def __init__(
        self, document: NotebookDocument, settings: Mapping[str, Any], missing: Sequence[str]
    ) -> None:
        self._document = document
        self._settings = settings
        self._missing = missing

    @property
    def path(self) -> str:
        """See `NotebookDocument.path`."""
        return self._document.path

    @property
    def backend(self) -> str:
        """See `NotebookDocument.backend`."""
        return self._document.backend

    async def read(self) -> Snapshot:
        """See `NotebookDocument.read`; what people typed in the last second may be missing."""
        return await self._document.read()

    async def outputs(self, cell: str) -> tuple[Json, ...]:
        """See `NotebookDocument.outputs`."""
        return await self._document.outputs(cell)

    async def raw(self) -> Json:
        """See `NotebookDocument.raw`."""
        return await self._document.raw()

    async def apply(self, operations: Sequence[Operation]) -> Applied:
        """See `NotebookDocument.apply`.

        Raises:
            CollaborationUnsupported: the notebook has a room, or nobody can say whether it has one.
        """
        self._check()
        return await self._document.apply(operations)

    def writing(self, cell: str) -> AbstractAsyncContextManager[OutputWriter]:
        """See `NotebookDocument.writing`; raises as `apply` does."""
        self._check()
        return self._document.writing(cell)

    async def flush(self) -> None:
        """See `NotebookDocument.flush`."""
        await self._document.flush()

    def _check(self) -> None:
        try:
            rooms: Any = self._settings["jupyter_server_ydoc"].ywebsocket_server.rooms
            file_id: Any = self._settings["file_id_manager"].get_id(self.path)
            is_open = file_id is not None and any(str(room).endswith(file_id) for room in rooms)
        except (AttributeError, KeyError, TypeError):
            is_open = True
        if is_open:
            raise CollaborationUnsupported(
                f"{self.path} may be open in a collaboration room, which this version of "
                "jupyter-collaboration does not let the extension edit "
                f"(missing: {', '.join(self._missing)})."
            )
