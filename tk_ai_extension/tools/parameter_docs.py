"""Meanings of arguments and fields for the reference pages; schemas leave them out to save tokens."""

from __future__ import annotations

from collections.abc import Mapping

EVERYWHERE: Mapping[str, str] = {
    "after": "The [address](../agents.md#cell-addresses) of the cell to insert after.",
    "before": "The address of the cell to insert before.",
    "cell": "A [cell address](../agents.md#cell-addresses).",
    "cell_type": "The cell's type.",
    "execution_id": "The id from the execution's result.",
    "index": "A position from 0; -1 is the end.",
    "kernel_id": "A running kernel's id, instead of a notebook.",
    "kernel_name": "The name of an installed kernelspec (`list_kernels`, `nb kernels`).",
    "limit": "The maximum number of results.",
    "notebook": "A path relative to the server's root, or a name given earlier (default: the current one).",
    "path": "A path relative to the server's root.",
    "source": "The cell's source.",
}
"""By argument, for tools that have no entry in `BY_TOOL`."""

BY_TOOL: Mapping[tuple[str, str], str] = {
    ("NotebookEdit", "edit_mode"): "A replace one past the last cell is an insert.",
    ("clear_outputs", "all"): "Clear all cells, instead of `cells`.",
    (
        "create_notebook",
        "cells",
    ): "The initial cells: a list of objects with `source` and `cell_type`.",
    ("create_notebook", "notebook"): "The path of the new notebook, relative to the server's root.",
    ("edit_cell", "new"): "The replacement.",
    ("edit_cell", "old"): "The text to replace, exactly as it is in the source.",
    ("edit_cell", "replace_all"): "Replace every occurrence.",
    (
        "edit_cells",
        "operations",
    ): "The operations, in order: a list of objects, each with an `action`: "
    "insert (`source`, `index`, `after`, `before`), overwrite (`cell`, `source`), edit (`cell`, `old`, "
    "`new`), delete (`cell`) or move (`cell`, `to`); insert, overwrite and edit also take `cell_type`.",
    ("execute_cells", "stop_on_error"): "Skip the remaining cells after one fails.",
    ("execute_ipython", "code"): "The code, in the kernel's language.",
    ("inspect_variable", "name"): "The variable's name, with dots for attributes.",
    ("list_cells", "start"): "The index of the first cell to list.",
    ("list_notebooks", "path"): "The folder (default: the server's root).",
    ("list_notebooks", "recursive"): "Whether to include subfolders.",
    ("list_variables", "pattern"): "Only names that match, with `*` and `?`.",
    ("list_files", "path"): "The folder (default: the server's root).",
    ("move_cell", "to"): "The new index; a negative one counts from the end.",
    ("notebook", "action"): "What to do with the cell.",
    ("overwrite_cell", "cell_type"): "The new type of the cell (default: unchanged).",
    ("overwrite_cell", "keep_outputs"): "Keep the outputs and the execution count of a code cell.",
    ("python", "cells"): "The code, in order. The call ends after a cell that fails.",
    ("read_cell", "outputs"): "Whether to show the outputs.",
    ("read_file", "limit"): "The maximum number of lines.",
    ("read_output", "artifact"): "The id from the shortened output.",
    ("read_output", "limit"): "The maximum number of lines.",
    ("search_cells", "where"): "What to search.",
    ("undo", "steps"): "The number of changes to undo.",
    ("unuse_notebook", "shutdown_kernel"): "Shut down its kernel too.",
    ("use_notebook", "kernel_id"): "A running kernel to bind to the notebook.",
    ("use_notebook", "mode"): "`create` creates the notebook if it is missing.",
    ("use_notebook", "name"): "A name for it in later calls.",
    ("use_notebook", "notebook"): "A path relative to the server's root, or a name given earlier.",
}
"""By tool and argument."""

FIELDS: Mapping[str, str] = {
    "address": "The versioned address of the cell.",
    "artifact": "The id for `read_output`, if the output was shortened.",
    "cell": "The cell's id, or a unique prefix of it.",
    "duration": "Seconds.",
    "execution_id": "For `wait_execution` and `interrupt_kernel`.",
    "index": "The cell's position, from 0.",
    "more": "The number of results that were left out.",
    "notebook": "The notebook's path.",
    "revision": "A hash over the cells' ids, types and sources.",
    "rolled_back": "Whether all changes were undone because a cell failed.",
    "skipped": "The number of cells that were not run.",
    "status": "[How it ended](errors.md#how-an-execution-ends), or `queued` or `running`.",
    "total_cells": "The number of cells that the notebook has now.",
    "truncated": "Whether there are more matches.",
    "uptime": "Seconds.",
    "warnings": "Problems of the file that do not prevent editing.",
}
"""By field of a result."""


def meaning(tool: str, argument: str) -> str:
    """Return the meaning of an argument of a tool; empty if there is no entry."""
    return BY_TOOL.get((tool, argument)) or EVERYWHERE.get(argument, "")
