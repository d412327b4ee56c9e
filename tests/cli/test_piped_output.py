"""What a script reads of a run: the notebook's outputs, each cell when it has ended."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.cli.conftest import Nb

PRINTS = "import time\nprint(1)\ntime.sleep(.5)\nprint(2)\nprint(3)"
PROGRESS = """import time
for done in (0, 25, 100):
    print(f"\\r{done:3}%", end="", flush=True)
    time.sleep(.4)"""
FRAMES = """import time
from IPython.display import clear_output
for frame in range(4):
    clear_output(wait=True)
    print("frame", frame)
    time.sleep(.3)"""
UPDATED = """import time
shown = display("first", display_id=True)
time.sleep(.6)
shown.update("last")"""


@pytest.mark.proves("nb:pipe-is-the-notebook")
def test_a_pipe_and_json_give_what_the_notebook_holds(shared: Nb) -> None:
    shared.notebook("a.ipynb", PRINTS, PROGRESS, FRAMES, UPDATED)
    shared("open", "a.ipynb")
    wanted = ("1\n2\n3", "100%", "frame 3", "'last'")
    for cell, text in enumerate(wanted):
        printed = shared("exec", str(cell)).out.split("\n", 1)[1].rstrip("\n")
        answer = shared("exec", str(cell), "--json").json
        assert (printed.strip(), answer["runs"][0]["output"].strip()) == (text, text)
    stored = ["".join(output.get("text", "")) for output in shared.read("a.ipynb").cells[2].outputs]
    assert stored == ["frame 3\n"]
    begun = shared("exec", "0", "--wait", "0.3", "--json", status=4).json["execution_id"]
    assert shared("watch", begun).out.rstrip().endswith("1\n2\n3")


@pytest.mark.proves("nb:pipe-is-the-notebook")
def test_a_run_that_keeps_going_after_an_error_is_waited_for(shared: Nb) -> None:
    shared.notebook("a.ipynb", "1 / 0", "import time; time.sleep(1.5)", "print('end')")
    shared("open", "a.ipynb")
    ended = shared("exec", "--all", "--keep-going", "--json", status=1).json
    assert ended["status"] == "error"
    assert [run["status"] for run in ended["runs"]] == ["error", "ok", "ok"]
    assert ended["runs"][2]["output"] == "end"
    unfinished = shared("exec", "--all", "--keep-going", "--wait", "0.7", "--json", status=4).json
    assert unfinished["status"] == "running"
    assert shared("watch", unfinished["execution_id"], "--json", status=1).json["status"] == "error"


@pytest.mark.proves("nb:pipe-is-the-notebook")
async def test_in_a_pipe_each_cell_is_printed_when_it_has_ended(shared: Nb) -> None:
    os.mkfifo(shared.root / "go")
    shared.notebook("a.ipynb", "print('first')", "x = 1", "open('go').read()", "print('last')")
    await asyncio.to_thread(shared, "open", "a.ipynb")
    process = await shared.start("exec", "--all")
    assert process.stdout is not None
    printed: list[bytes] = []
    async with asyncio.timeout(60):
        while len(printed) < 3:
            printed.append(await process.stdout.readline())
    assert printed[1] == b"first\n"
    assert b" ok " in printed[2]
    await asyncio.to_thread((shared.root / "go").write_text, "now")
    rest, _ = await process.communicate()
    whole = (b"".join(printed) + rest).decode()
    assert (whole.count("first"), whole.count("last"), whole.count(" ok ")) == (1, 1, 4)
    assert whole.endswith("last\n")
    assert process.returncode == 0


@pytest.mark.proves("nb:one-notebook")
def test_the_notebook_that_is_named_is_the_one_that_is_meant(nb: Nb) -> None:
    nb.notebook("b.ipynb", "b = 1")
    nb.notebook("a.ipynb", "a = 1")
    nb("open", "b.ipynb")
    nb("open", "a.ipynb")
    kernels = {kernel["notebooks"][0]: kernel for kernel in nb("ps", "--json").json["kernels"]}
    nb("stop", "-n", "b.ipynb")
    (left,) = nb("ps", "--json").json["kernels"]
    assert left["kernel_id"] == kernels["a.ipynb"]["kernel_id"]
    assert nb("unuse", "-n", "b.ipynb", "--json").json["notebook"] == "b.ipynb"
    managed = nb("managed", "--json").json["notebooks"]
    assert [entry["notebook"] for entry in managed] == ["a.ipynb"]
