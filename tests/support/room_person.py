"""A person in a collaboration room, editing the shared document."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from tests.support.document_bench import code


class RoomPerson:
    """Somebody who has notebooks open in JupyterLab with jupyter-collaboration.

    Args:
        extension: jupyter-collaboration's extension.
    """

    def __init__(self, extension: Any) -> None:
        self._extension = extension

    async def document(self, path: str) -> Any:
        """The shared document."""
        return await self._extension.get_document(
            path=path, content_type="notebook", file_format="json", copy=False, create=True
        )

    async def sources(self, path: str) -> list[str]:
        """See `Person.sources`."""
        return [cell["source"] for cell in (await self.document(path)).get()["cells"]]

    async def type(self, path: str, index: int, text: str) -> None:
        """See `Person.type`."""
        shared = (await self.document(path)).ycells[index]["source"]
        shared.insert(len(shared), text)

    async def insert(self, path: str, index: int, source: str) -> None:
        """See `Person.insert`."""
        document = await self.document(path)
        cell = code(source, uuid4().hex[:8]) | {"source": source}
        document.ycells.insert(index, document.create_ycell(cell))

    async def delete(self, path: str, index: int) -> None:
        """See `Person.delete`."""
        del (await self.document(path)).ycells[index]

    async def move(self, path: str, index: int, to: int) -> None:
        """See `Person.move`: JupyterLab inserts a copy."""
        document = await self.document(path)
        with document.ydoc.transaction():
            stored = document.get_cell(index)
            shared_id = document.ycells[index]["id"]
            del document.ycells[index]
            document.ycells.insert(to, document.create_ycell({**stored, "id": shared_id}))
