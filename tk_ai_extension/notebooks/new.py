"""A new notebook's JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tk_ai_extension.model.cells import CellType, Json


def new_cell_id() -> str:
    """A fresh cell id: eight hexadecimal characters with a letter in front, as nbformat allows.

    The letter keeps an id from being read as an index.
    """
    digits = os.urandom(4).hex()
    return "abcdef"[int(digits[0], 16) % 6] + digits[1:]


def new_cell(cell_type: CellType, source: str, cell_id: str | None = None) -> Json:
    """A cell of nbformat 4.5; code cells have an empty count and no outputs, others neither."""
    cell: Json = {
        "cell_type": cell_type,
        "id": cell_id or new_cell_id(),
        "metadata": {},
        "source": source.splitlines(keepends=True),
    }
    if cell_type == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell


def empty_notebook(
    cells: Sequence[tuple[CellType, str]] = (), *, kernelspec: dict[str, str] | None = None
) -> Json:
    """A notebook of nbformat 4.5 with these cells (type and source)."""
    metadata: Json = {}
    if kernelspec is not None:
        metadata = {"kernelspec": kernelspec, "language_info": {"name": kernelspec["language"]}}
    return {
        "cells": [new_cell(cell_type, source) for cell_type, source in cells],
        "metadata": metadata,
        "nbformat": 4,
        "nbformat_minor": 5,
    }
