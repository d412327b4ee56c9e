"""Notebooks that go away under a run, and what others make of those that `nb` has written."""

from __future__ import annotations

import asyncio
import os
from typing import Any, TextIO

import nbformat
import pytest

from tests.cli.conftest import Nb
from tests.cli.test_attached_server import ask
from tests.servers import StartServer, start_server

__all__ = ["start_server"]


def begun(nb: Nb) -> tuple[str, TextIO]:
    """An execution whose first cell has begun, and the file that it reads until that is closed."""
    os.mkfifo(nb.root / "go")
    nb.notebook("a.ipynb", "open('go').read()\nprint(6 * 7)")
    nb("open", "a.ipynb")
    execution = nb("exec", "0", "--wait", "0", "--json", status=4).json["execution_id"]
    return execution, (nb.root / "go").open("w")  # Opens when the cell does.


def test_a_notebook_that_is_deleted_under_a_run_stays_deleted_and_that_is_reported(nb: Nb) -> None:
    execution, go = begun(nb)
    (nb.root / "a.ipynb").unlink()
    go.close()
    ended = nb("watch", execution, status=None)
    assert "42" in ended.out
    assert "a.ipynb" in ended.out + ended.err
    assert not (nb.root / "a.ipynb").exists()
    assert "notebook_not_found" in nb("cells", status=2).err


def test_a_notebook_that_is_moved_under_a_run_is_not_created_again_at_its_old_path(nb: Nb) -> None:
    execution, go = begun(nb)
    (nb.root / "a.ipynb").rename(nb.root / "b.ipynb")
    go.close()
    assert "42" in nb("watch", execution, status=None).out
    assert not (nb.root / "a.ipynb").exists()
    assert "1 cells" in nb("cells", "b.ipynb").out
    assert nb.read("b.ipynb").cells[0].source.startswith("open('go')")


@pytest.mark.proves("nb:standard-file")
async def test_a_jupyter_server_opens_what_it_has_written_as_it_is(
    nb: Nb, start_server: StartServer
) -> None:
    server = await start_server(config="c.ServerApp.jpserver_extensions['tk_ai_extension'] = False")
    nb.root = server.root
    await asyncio.to_thread(nb, "open", "a.ipynb")
    await asyncio.to_thread(nb, "edit", "0", "x = 6\nprint(x * 7)")
    await asyncio.to_thread(nb, "insert", "0", "# Title", "--cell-type", "markdown")
    await asyncio.to_thread(nb, "add", "6 * 7")
    opened: Any = await asyncio.to_thread(ask, server, "api/contents/a.ipynb")
    assert opened["type"] == "notebook"
    assert opened.get("message") is None
    nbformat.validate(nbformat.from_dict(opened["content"]))
    for cell in opened["content"]["cells"]:
        cell["metadata"].pop("trusted", None)  # what the server itself says of a cell
    assert opened["content"] == nb.read("a.ipynb")
    kinds = [cell["cell_type"] for cell in opened["content"]["cells"]]
    assert kinds == ["markdown", "code", "code"]
