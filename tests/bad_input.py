"""Invalid calls, with the status and the code that every interface answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat

NOTEBOOK = "plan.ipynb"

BAD_CALLS: list[tuple[str, dict[str, Any], int, str]] = [
    ("list_cells", {"notebook": 7}, 400, "invalid_arguments"),
    ("list_cells", {"notebook": NOTEBOOK, "surprise": 1}, 400, "invalid_arguments"),
    ("list_cells", {}, 400, "invalid_arguments"),
    ("list_cells", {"notebook": "missing.ipynb"}, 404, "notebook_not_found"),
    ("list_cells", {"notebook": "../out.ipynb"}, 403, "path_refused"),
    ("list_cells", {"notebook": "/etc/passwd.ipynb"}, 403, "path_refused"),
    ("list_cells", {"notebook": "a\0b.ipynb"}, 403, "path_refused"),
    ("list_cells", {"notebook": ".hidden/n.ipynb"}, 403, "path_refused"),
    ("list_cells", {"notebook": "plan.txt"}, 400, "invalid_arguments"),
    ("list_cells", {"notebook": "folder.ipynb"}, 400, "invalid_arguments"),
    ("list_cells", {"notebook": "empty.ipynb"}, 422, "invalid_notebook"),
    ("list_cells", {"notebook": "mark.ipynb"}, 422, "invalid_notebook"),
    ("insert_cell", {"notebook": "old.ipynb", "source": "x"}, 422, "invalid_notebook"),
    ("read_cell", {"notebook": NOTEBOOK, "cell": "nosuchcell"}, 404, "cell_not_found"),
    ("read_cell", {"notebook": NOTEBOOK, "cell": 10**12}, 404, "cell_not_found"),
    ("delete_cell", {"notebook": NOTEBOOK, "cell": 0}, 409, "conflict"),
    ("move_cell", {"notebook": NOTEBOOK, "cell": 0, "to": 99}, 400, "invalid_arguments"),
    ("insert_cell", {"notebook": NOTEBOOK, "source": "x", "index": -99}, 400, "invalid_arguments"),
    ("insert_cell", {"notebook": NOTEBOOK, "source": "a\0b"}, 400, "invalid_arguments"),
    ("insert_cell", {"notebook": NOTEBOOK, "source": "x" * 10_000_000}, 400, "invalid_arguments"),
    ("write_notebook", {"notebook": NOTEBOOK, "text": "no marker"}, 400, "invalid_arguments"),
    ("create_notebook", {"notebook": NOTEBOOK}, 409, "notebook_exists"),
    ("undo", {"notebook": NOTEBOOK}, 409, "nothing_to_undo"),
    ("execute_ipython", {"notebook": NOTEBOOK, "code": ""}, 400, "invalid_arguments"),
    ("execute_ipython", {"notebook": NOTEBOOK, "code": "a\0b"}, 400, "invalid_arguments"),
    (
        "use_notebook",
        {"notebook": NOTEBOOK, "kernel_name": "cobol"},
        400,
        "invalid_arguments",
    ),
    ("use_notebook", {"notebook": NOTEBOOK, "kernel_id": "not-yours"}, 404, "kernel_not_found"),
    ("interrupt_kernel", {"kernel_id": "not-yours"}, 404, "kernel_not_found"),
    ("wait_execution", {"execution_id": "nope"}, 404, "not_found"),
    ("read_output", {"artifact": "nope"}, 404, "not_found"),
    ("read_file", {"path": "../../etc/passwd"}, 403, "path_refused"),
    ("search_cells", {"notebook": NOTEBOOK, "pattern": "("}, 400, "invalid_arguments"),
]


def prepare(root: Path) -> None:
    """Puts the files there that the calls are about."""
    cells = [nbformat.v4.new_code_cell("for i in range(3):\n    print(i)", id="prints00")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), root / NOTEBOOK)
    (root / "folder.ipynb").mkdir()
    (root / "empty.ipynb").write_bytes(b"")
    (root / "mark.ipynb").write_bytes(b"\xef\xbb\xbf{}")
    old = nbformat.v3.new_notebook(worksheets=[nbformat.v3.new_worksheet()])
    (root / "old.ipynb").write_text(nbformat.v3.writes_json(old))


def contents(root: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}
