"""Notebooks of nbformat 1 to 3: read, by nbformat's own conversion, and never written."""

from __future__ import annotations

import json
from typing import Any, cast

import nbformat

from tk_ai_extension.model.cells import CELL_TYPES, Json, cell_keys
from tk_ai_extension.notebooks.reading import NotebookIndex, read_cell


class LegacyError(ValueError):
    """A notebook of an old format that nbformat cannot convert."""


def read_legacy(notebook: Json) -> NotebookIndex:
    """The cells of an old notebook as nbformat 4 has them; they have no ids.

    Raises:
        LegacyError.
    """
    version = _version(notebook)
    captured: dict[str, Any] = {}
    try:
        read: Any = nbformat.reads  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        converted: Any = read(json.dumps(notebook), as_version=4, capture_validation_error=captured)
        cells: list[Json] = [dict(cell) for cell in converted.cells]
    except Exception as error:
        # nbformat's conversion takes every field to be of its right type, and asserts what it likes.
        raise LegacyError(
            f"a notebook of nbformat {version[0]} that cannot be converted "
            f"({type(error).__name__}: {error})"
        ) from error
    for number, cell in enumerate(cells):
        cell.pop("id", None)  # Made up anew by each conversion.
        if cell.get("cell_type") not in CELL_TYPES:
            raise LegacyError(f"cell {number} has the cell_type {cell.get('cell_type')!r}")
    faults = [f"nbformat {version[0]} can be read, not written"]
    if "ValidationError" in captured:
        faults.append(str(captured["ValidationError"]).partition("\n")[0])
    metadata: Any = converted.metadata
    return NotebookIndex(
        cells=tuple(
            read_cell(cell, index, key, None)
            for index, (cell, key) in enumerate(
                zip(cells, cell_keys([None] * len(cells)), strict=True)
            )
        ),
        metadata=cast("Json", metadata) if isinstance(metadata, dict) else {},
        nbformat=version,
        faults=tuple(faults),
        converted=tuple(cells),
    )


def _version(notebook: Json) -> tuple[int, int]:
    major: Any = notebook.get("nbformat", 1)
    minor: Any = notebook.get("nbformat_minor", 0)
    return (
        major if isinstance(major, int) else 1,
        minor if isinstance(minor, int) else 0,
    )
