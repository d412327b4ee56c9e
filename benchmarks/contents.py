"""Notebooks to measure with."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import nbformat

KERNELSPEC = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}

LINES = 10_000
LINE = 1_000
"""Characters of a line, its end among them: 10 MB in all."""


def printing(lines: int = LINES) -> str:
    """Code that prints numbered lines of `LINE` characters, each flushed."""
    return f"for n in range({lines}):\n    print(f'{{n:06d}} '.ljust({LINE - 1}, 'x'), flush=True)"


def write(path: Path, sources: list[str]) -> Path:
    """A notebook with these code cells; the id of cell 12 is ``cell-00012``."""
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": KERNELSPEC})
    for index, source in enumerate(sources):
        cell = nbformat.v4.new_code_cell(source)
        cell["id"] = cell_id(index)
        notebook.cells.append(cell)
    nbformat.write(notebook, path)
    return path


def cell_id(index: int) -> str:
    """The id of a cell of these notebooks."""
    return f"cell-{index:05d}"


def write_large(path: Path, cells: int, size: int) -> Path:
    """A notebook of so many cells whose outputs make up its size in bytes, as Jupyter writes it.

    It is ten seconds old: what was just written is looked at twice.
    """
    line = "0123456789 " * 8 + "\n"
    each = max(size // cells - 300, 0) // (len(line) + 8)
    notebook = {
        "cells": [
            {
                "cell_type": "code",
                "execution_count": index + 1,
                "id": cell_id(index),
                "metadata": {},
                "outputs": [
                    {"name": "stdout", "output_type": "stream", "text": [line] * each},
                ]
                if each
                else [],
                "source": [f"value_{index} = {index}\n", f"print(value_{index})"],
            }
            for index in range(cells)
        ],
        "metadata": {"kernelspec": KERNELSPEC, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    with path.open("w", encoding="utf-8") as file:
        json.dump(notebook, file, indent=1, ensure_ascii=False)
        file.write("\n")
    now = time.time()
    os.utime(path, (now, now - 10))
    return path


def cells_of(path: Path) -> list[Any]:
    """The cells of a notebook on disk."""
    return nbformat.read(path, as_version=4).cells


def printed_lines(outputs: Iterable[Mapping[str, Any]]) -> int:
    """How many of the numbered lines are in the outputs of a cell, whole."""
    texts = (each["text"] for each in outputs if each["output_type"] == "stream")
    text = "".join("".join(each) for each in texts)
    numbers = {line[:6] for line in text.split("\n") if len(line) == LINE - 1}
    return sum(number.isdecimal() for number in numbers)
