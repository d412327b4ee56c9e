"""Read the stored outputs of a notebook."""

from __future__ import annotations

from collections.abc import Mapping

from tk_ai_extension.model.cells import Snapshot
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks.base import NotebookDocument


async def stored_outputs(
    document: NotebookDocument, snapshot: Snapshot
) -> Mapping[str, tuple[Json, ...]]:
    """Return the stored outputs of a notebook's code cells by key, without cells that have none."""
    return {
        cell.key: await document.outputs(cell.key)
        for cell in snapshot.cells
        if cell.type == "code" and cell.outputs.count
    }
