"""What arguments mean where the schema does not say it: there a model pays for each word."""

from __future__ import annotations

from collections.abc import Mapping

EVERYWHERE: Mapping[str, str] = {
    "after": "The [address](../agents.md#cell-addresses) of the cell that it comes after.",
    "before": "The address of the cell that it comes before.",
    "cell": "A [cell address](../agents.md#cell-addresses).",
    "cell_type": "The cell's type.",
    "execution_id": "The id that the execution's answer gave.",
    "index": "A position from 0; -1 is the end.",
    "kernel_id": "A running kernel's id, instead of a notebook.",
    "kernel_name": "The name of a kernelspec, as `list_kernels` gives it.",
    "limit": "How many at most.",
    "notebook": "A path below the server's root, or a name given earlier; the current notebook if left out.",
    "path": "A path below the server's root.",
    "source": "The cell's source.",
}
"""By argument, for every tool that says nothing else."""

BY_TOOL: Mapping[tuple[str, str], str] = {
    ("NotebookEdit", "edit_mode"): "A replace one past the last cell is an insert.",
    ("clear_outputs", "all"): "Instead of `cells`: those of every cell.",
    ("create_notebook", "cells"): "The cells that it starts with.",
    ("create_notebook", "notebook"): "The path of the new notebook, below the server's root.",
    ("edit_cell", "new"): "What stands there afterwards.",
    ("edit_cell", "old"): "The text to replace, exactly as it is in the source.",
    ("edit_cell", "replace_all"): "Replaces every occurrence.",
    ("edit_cells", "operations"): "What to do, in order.",
    ("execute_cells", "stop_on_error"): "Leaves the rest out after a cell that failed.",
    ("execute_ipython", "code"): "The code, in the kernel's language.",
    ("inspect_variable", "name"): "The variable's name; dots lead to attributes.",
    ("list_cells", "start"): "The index of the first cell to list.",
    ("list_notebooks", "path"): "The folder; the root if left out.",
    ("list_notebooks", "recursive"): "Whether to look in the folders below, too.",
    ("list_variables", "pattern"): "Only names that match, with `*` and `?`.",
    ("list_files", "path"): "The folder; the root if left out.",
    ("move_cell", "to"): "The index that it has afterwards; a negative one counts from the end.",
    ("notebook", "action"): "What to do with the cell.",
    ("overwrite_cell", "cell_type"): "Another type for the cell; it keeps its own if left out.",
    ("overwrite_cell", "keep_outputs"): "Keeps the outputs and the count of a code cell.",
    ("python", "cells"): "The code, in order; a cell that fails ends the call.",
    ("read_cell", "outputs"): "Whether to show the outputs.",
    ("read_output", "artifact"): "The id that the shortened output gave.",
    ("search_cells", "where"): "Where to look.",
    ("undo", "steps"): "How many changes to take back.",
    ("unuse_notebook", "shutdown_kernel"): "Shuts its kernel down, too.",
    ("use_notebook", "kernel_id"): "A running kernel to bind to the notebook.",
    ("use_notebook", "mode"): "`create` makes the notebook where it is missing.",
    ("use_notebook", "name"): "A name for it in later calls.",
    ("use_notebook", "notebook"): "A path below the server's root, or the name given earlier.",
}
"""By tool and argument."""

FIELDS: Mapping[str, str] = {
    "address": "The versioned address of the cell.",
    "artifact": "The id for `read_output`, where output was left out.",
    "cell": "The cell's id, or a unique beginning of it.",
    "duration": "Seconds.",
    "execution_id": "For `wait_execution` and `interrupt_kernel`.",
    "index": "The cell's position, from 0.",
    "more": "How many were left out.",
    "notebook": "The notebook's path.",
    "revision": "A hash over the cells' ids, types and sources.",
    "rolled_back": "Whether all changes were taken back since a cell failed.",
    "skipped": "How many cells were not run.",
    "status": "[How it ended](errors.md#how-an-execution-ends), or `queued` or `running`.",
    "total_cells": "How many cells the notebook has now.",
    "truncated": "Whether there are more matches.",
    "uptime": "Seconds.",
    "warnings": "What is wrong with the file that does not stop it from being edited.",
}
"""By field of an answer."""


def meaning(tool: str, argument: str) -> str:
    """What an argument of a tool means; an empty string where nothing is said of it."""
    return BY_TOOL.get((tool, argument)) or EVERYWHERE.get(argument, "")
