"""Reads notebooks of nbformat 1 to 3 through nbformat's conversion; they are never written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

import nbformat

from tk_ai_extension.model.cells import CELL_TYPES
from tk_ai_extension.model.json_values import Json


class LegacyError(ValueError):
    """A notebook of an old format that nbformat cannot convert."""


@dataclass(frozen=True, slots=True)
class Converted:
    """An old notebook converted to nbformat 4.

    Attributes:
        cells: The cells, without ids.
        metadata: The notebook's metadata.
        nbformat: The version in which it is stored.
        faults: Its problems, including the old version.
    """

    cells: tuple[Json, ...]
    metadata: Json
    nbformat: tuple[int, int]
    faults: tuple[str, ...]


def read_legacy(notebook: Json) -> Converted:
    """Convert an old notebook.

    Raises:
        LegacyError.
    """
    version = _version(notebook)
    captured: Json = {}
    try:
        read: Any = nbformat.reads
        converted: Any = read(json.dumps(notebook), as_version=4, capture_validation_error=captured)
        cells: list[Json] = [dict(cell) for cell in converted.cells]
    except Exception as error:
        # nbformat's conversion does not check types and raises any exception, AssertionError included.
        raise LegacyError(
            f"a notebook of nbformat {version[0]} that cannot be converted "
            f"({type(error).__name__}: {error})"
        ) from error
    for number, cell in enumerate(cells):
        cell.pop("id", None)  # Each conversion makes up other ids.
        if cell.get("cell_type") not in CELL_TYPES:
            raise LegacyError(f"cell {number} has the cell_type {cell.get('cell_type')!r}")
    faults = [f"nbformat {version[0]} can be read, not written"]
    if "ValidationError" in captured:
        faults.append(str(captured["ValidationError"]).partition("\n")[0])
    metadata: Any = converted.metadata
    return Converted(
        tuple(cells),
        cast("Json", metadata) if isinstance(metadata, dict) else {},
        version,
        tuple(faults),
    )


def _version(notebook: Json) -> tuple[int, int]:
    major: Any = notebook.get("nbformat", 1)
    minor: Any = notebook.get("nbformat_minor", 0)
    return (
        major if isinstance(major, int) else 1,
        minor if isinstance(minor, int) else 0,
    )
