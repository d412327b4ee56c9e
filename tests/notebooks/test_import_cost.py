"""Notebooks in files import no server, no kernel client and no validator."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.notebooks.forms import PLAIN
from tests.support.document_bench import written

READING_AND_EDITING = """
import asyncio, json, sys
from pathlib import Path

from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.operations import Insert, Replace
from tk_ai_extension.model.outputs import Append
from tk_ai_extension.notebooks.live import NotebookRouter


async def main():
    store = NotebookRouter(Path(sys.argv[1]), str)
    document = await store.open("n.ipynb")
    key = (await document.read()).cells[0].key
    await document.apply([Replace(key, "edited"), Insert(CellContent("markdown", "new"))])
    async with document.writing(key) as writer:
        await writer.start()
        await writer.finish(1)
    await store.close()


asyncio.run(main())
print(json.dumps(sorted(sys.modules)))
"""

HEAVY = {
    "IPython",
    "jsonschema",
    "jupyter_client",
    "jupyter_core",
    "jupyter_server",
    "jupyter_server_nbmodel",
    "jupyter_server_ydoc",
    "mcp",
    "nbclient",
    "nbformat",
    "pycrdt",
    "pydantic",
    "sqlite3",
    "tornado",
    "traitlets",
    "zmq",
}


def test_a_notebook_file_is_used_without_anything_of_a_server(tmp_path: Path) -> None:
    (tmp_path / "n.ipynb").write_bytes(written(PLAIN))
    ran = subprocess.run(
        [sys.executable, "-c", READING_AND_EDITING, tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert not {name.partition(".")[0] for name in json.loads(ran.stdout)} & HEAVY
