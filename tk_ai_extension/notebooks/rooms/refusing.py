"""Notebooks whose room cannot be edited here: read from the file, and not changed.

A file that is written underneath its room is overwritten by the room. The room may be one of a
jupyter-collaboration that this extension does not know, or that of another server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from tk_ai_extension.model.cells import Json, Snapshot
from tk_ai_extension.model.errors import CollaborationUnsupported
from tk_ai_extension.model.operations import Applied, Operation
from tk_ai_extension.notebooks.base import NotebookDocument, OutputWriter


class RefusingDocument:
    """A document that can be read, and refuses to be changed where there may be such a room.

    Args:
        document: The notebook's file.
        check: Raises where it may not be changed.
    """

    def __init__(self, document: NotebookDocument, check: Callable[[], None]) -> None:
        self._document = document
        self._check = check

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
            CollaborationUnsupported, OpenElsewhere.
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


def check_unknown_rooms(path: str, settings: Mapping[str, Any], missing: Sequence[str]) -> None:
    """Refuses a notebook that has a room, or of which nobody can say whether it has one.

    Args:
        path: The notebook.
        settings: The web application's settings.
        missing: What of jupyter-collaboration is not as expected.

    Raises:
        CollaborationUnsupported.
    """
    try:
        rooms: Any = settings["jupyter_server_ydoc"].ywebsocket_server.rooms
        file_id: Any = settings["file_id_manager"].get_id(path)
        is_open = file_id is not None and any(str(room).endswith(file_id) for room in rooms)
    except (AttributeError, KeyError, TypeError):
        is_open = True
    if is_open:
        raise CollaborationUnsupported(
            f"{path} may be open in a collaboration room, which this version of "
            "jupyter-collaboration does not let the extension edit "
            f"(missing: {', '.join(missing)})."
        )
