"""A workspace on a plain folder needs no Jupyter Server, not even installed modules of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, json, sys
from functools import partial
from pathlib import Path

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.notebooks.router import NotebookRouter
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.artifacts import Artifacts
from tk_ai_extension.workspace.folder_files import FolderFiles
from tk_ai_extension.workspace.journal import Journal
from tk_ai_extension.workspace.paths import notebook_path
from tk_ai_extension.workspace.workspace import Workspace


class Without:
    \"\"\"Neither kernels nor sessions.\"\"\"

    def ids(self):
        return []

    async def kernelspecs(self):
        return []

    def subscribe(self, listener):
        return lambda: None

    async def kernel_of(self, path):
        return None

    async def close(self):
        pass


class Store(NotebookRouter):
    \"\"\"Says when it is closed.\"\"\"

    closed = False

    async def close(self):
        await super().close()
        self.closed = True


async def main():
    root, state = Path(sys.argv[1]), Path(sys.argv[2])
    contain = partial(notebook_path, root)
    workspace = Workspace(
        store=(store := Store(root, contain)),
        kernels=Without(),
        sessions=Without(),
        files=FolderFiles(root),
        journal=Journal(state / "journal.sqlite"),
        artifacts=Artifacts(state / "artifacts"),
        contain=contain,
    )
    registry, context = Registry.load(), ToolContext(workspace, Caller("ada", "k", "nb"))
    answers = []
    for tool, arguments in [
        ("create_notebook", {"notebook": "n.ipynb", "cells": [{"source": "a = 1"}]}),
        ("insert_cell", {"notebook": "n.ipynb", "source": "b = 2"}),
        ("overwrite_cell", {"notebook": "n.ipynb", "cell": 0, "source": "a = 3"}),
        ("undo", {"notebook": "n.ipynb"}),
        ("read_notebook", {"notebook": "n.ipynb"}),
        ("list_notebooks", {}),
        ("list_files", {}),
    ]:
        answers.append((await registry.call(tool, arguments, context)).as_text())
    await workspace.close()
    print(json.dumps({"answers": answers, "modules": sorted(sys.modules), "closed": store.closed}))


asyncio.run(main())
"""


def test_the_tools_work_on_a_plain_folder_without_a_jupyter_server(tmp_path: Path) -> None:
    root, state = tmp_path / "root", tmp_path / "state"
    root.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, root, state],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    *_, read, notebooks, files = answer["answers"]
    assert "a = 1" in read
    assert "b = 2" in read
    assert "n.ipynb" in notebooks
    assert "n.ipynb" in files
    assert answer["closed"]
    packages = {name.partition(".")[0] for name in answer["modules"]}
    assert not packages & {"jupyter_server", "jupyter_server_nbmodel", "mcp", "jupyter_client"}
