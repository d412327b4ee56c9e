"""Outputs that are not their cell's alone: displays that later code updates, and Output widgets."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.cli.conftest import DEADLINE, Nb
from tests.kernels.guests import connect, connection_info, run
from tests.servers import StartServer, start_server

__all__ = ["start_server"]

SHOW = "handle = display('before', display_id='d')\nprint('beside')"
UPDATE = "display('after', display_id='d', update=True);"
MANY = "import time\nfor n in range(300):\n    handle.update(n)\n    time.sleep(.005)\nprint('end')"

WIDGET = """\
from comm import create_comm

class Output:
    \"\"\"As much of ipywidgets' Output as concerns what it captures.\"\"\"
    def __init__(self):
        state = {"_model_module": "@jupyter-widgets/output", "_model_name": "OutputModel", "msg_id": ""}
        self.outputs = []
        self.comm = create_comm(target_name="jupyter.widget", data={"state": state})
        self.comm.on_msg(self.set)
    def set(self, message):
        self.outputs = message["content"]["data"]["state"]["outputs"]
    def capture(self, msg_id):
        import sys
        sys.stdout.flush(), sys.stderr.flush()
        self.comm.send({"method": "update", "state": {"msg_id": msg_id}})
    def __enter__(self):
        self.capture(get_ipython().kernel.get_parent()["header"]["msg_id"])
    def __exit__(self, kind, error, traceback):
        if kind:
            get_ipython().showtraceback((kind, error, traceback), tb_offset=0)
        self.capture("")
        return True

o, p = Output(), Output()"""

CAPTURED = """\
print("before")
with o:
    print("inside")
    display("shown")
    with p:
        print("deeper")
    1 / 0
print("behind")"""


def outputs(nb: Nb, number: int) -> list[str]:
    """The outputs of a cell as the file has them, each as its text."""
    found = nb.read("a.ipynb").cells[number].outputs
    return [output.get("text") or output["data"]["text/plain"] for output in found]


@pytest.mark.proves("exec:display-elsewhere")
@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "in one run"])
def test_a_display_that_a_later_cell_updates_is_updated_where_it_stands(
    nb: Nb, at_once: bool
) -> None:
    nb.notebook("a.ipynb", SHOW, SHOW.replace("before", "again"), UPDATE)
    if at_once:
        nb("exec", "--all", "-n", "a.ipynb")
    else:
        for number in "012":
            nb("exec", number, "-n", "a.ipynb")
    for number in (0, 1):
        assert outputs(nb, number) == ["'after'", "beside\n"]
    assert outputs(nb, 2) == []
    assert nb.read("a.ipynb").cells[0].execution_count == 1
    # All ways to read it give the same.
    for shown in (
        nb("cell", "0", "-n", "a.ipynb").out,
        nb.typed("cell", "0", "-n", "a.ipynb"),
        nb("cell", "0", "-n", "a.ipynb", "--json").json["output"],
    ):
        assert "'after'\nbeside" in shown


@pytest.mark.proves("exec:display-elsewhere")
def test_code_beside_the_notebook_updates_a_display_too_and_ends_with_the_newest(
    shared: Nb,
) -> None:
    shared.notebook("a.ipynb", SHOW)
    shared("exec", "0", "-n", "a.ipynb")
    assert shared("run", MANY, "-n", "a.ipynb", "--json").json["runs"][0]["output"] == "end"
    assert outputs(shared, 0) == ["299", "beside\n"]


@pytest.mark.proves("exec:display-elsewhere")
@pytest.mark.parametrize("between", [["clear", "0"], ["restart"]], ids=" ".join)
def test_outputs_that_are_others_by_now_are_left_alone(shared: Nb, between: list[str]) -> None:
    shared.notebook("a.ipynb", SHOW, UPDATE)
    shared("open", "a.ipynb")
    shared("exec", "0")
    shared(*between)
    before = outputs(shared, 0)
    shared("exec", "1")
    assert outputs(shared, 0) == before


@pytest.mark.proves("exec:output-widget")
def test_output_that_a_widget_captures_is_not_the_cells(shared: Nb) -> None:
    shared.notebook(
        "a.ipynb", WIDGET, CAPTURED, "with o: print('more')", "print(o.outputs, p.outputs)"
    )
    answer = shared("exec", "--all", "-n", "a.ipynb", "--json").json
    assert outputs(shared, 1) == ["before\nbehind\n"]
    assert outputs(shared, 2) == []
    assert [run["output"] for run in answer["runs"]][1:3] == ["before\nbehind", ""]
    # The kernel has them, as from any front end.
    for part in ("inside", "'shown'", "ZeroDivisionError", "more", "deeper"):
        assert part in answer["runs"][3]["output"]
    for shown in (
        shared("exec", "1", "-n", "a.ipynb").out,
        shared.typed("exec", "1", "-n", "a.ipynb"),
    ):
        assert "before\nbehind" in shown
        assert "inside" not in shown


OWN_CONTENTS = """
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

class OwnManager(AsyncLargeFileManager):
    async def save(self, model, path=""):
        return await super().save(model, path)

c.ServerApp.contents_manager_class = OwnManager
c.ServerApp.jpserver_extensions["jupyter_server_ydoc"] = False
"""
"""A contents manager that saves in a way of its own."""


async def run_as_person(connection_files: Path, code: str) -> None:
    """Run code in the only kernel as JupyterLab does, with a client that `nb` knows nothing of."""
    (file,) = connection_files.glob("kernel-*.json")  # noqa: ASYNC240 - a small folder
    person = await connect(connection_info(file))
    try:
        await run(person, code)
    finally:
        person.stop_channels()


async def check_a_persons_updates(nb: Nb, connection_files: Path) -> None:
    """A display of an executed cell follows what a person's cells make of it; no other cell does."""
    await run_as_person(connection_files, UPDATE.replace("after", "by a person"))
    words = ("cell", "0", "-n", "a.ipynb")
    end = time.monotonic() + DEADLINE
    while "'by a person'" not in (shown := (await asyncio.to_thread(nb, *words)).out):
        assert time.monotonic() < end, shown
    # Not every contents manager writes a file at once: it is read when it is whole.
    await asyncio.to_thread(nb, "save", "a.ipynb")
    assert outputs(nb, 0) == ["'by a person'", "beside\n"]
    for shown in (
        (await asyncio.to_thread(nb, *words)).out,
        await asyncio.to_thread(nb.typed, *words),
        (await asyncio.to_thread(nb, *words, "--json")).json["output"],
    ):
        assert "'by a person'\nbeside" in shown


@pytest.mark.proves("exec:display-elsewhere")
async def test_a_person_in_jupyterlab_updates_a_display_of_a_cell_that_nb_ran(nb: Nb) -> None:
    nb.notebook("a.ipynb", SHOW)
    await asyncio.to_thread(nb, "exec", "0", "-n", "a.ipynb")
    await check_a_persons_updates(nb, nb.root / ".nb" / "kernels")


@pytest.mark.proves("exec:display-elsewhere", "exec:output-widget")
async def test_a_contents_manager_that_saves_in_its_own_way_has_the_same_outputs(
    nb: Nb, start_server: StartServer
) -> None:
    server = await start_server(config=OWN_CONTENTS)
    nb.root = server.root
    nb.environment["JUPYTER_RUNTIME_DIR"] = str(server.home / "runtime")
    nb.notebook("a.ipynb", SHOW, UPDATE, WIDGET, CAPTURED)
    await asyncio.to_thread(nb, "exec", "--all", "-n", "a.ipynb")
    assert outputs(nb, 0) == ["'after'", "beside\n"]
    assert outputs(nb, 1) == []
    assert outputs(nb, 3) == ["before\nbehind\n"]
    await check_a_persons_updates(nb, server.home / "runtime")
