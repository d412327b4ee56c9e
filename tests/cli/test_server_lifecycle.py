"""When a command starts the project's server, and what is left of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from contextlib import suppress

import pytest

from tests.cli.conftest import DEADLINE, Nb, hosts

pytestmark = pytest.mark.proves("nb:starts")


def test_code_runs_whether_or_not_a_server_runs_and_in_a_project_that_was_cloned_again(
    nb: Nb,
) -> None:
    for words in (("exec", "0"), ("add", "6 * 7")):
        shutil.rmtree(nb.root)
        nb.notebook("a.ipynb", "6 * 7")
        nb.notebook("b.ipynb", "6 * 7")
        alone = nb(*words, "-n", "a.ipynb")
        assert alone.out.rstrip().endswith("42")
        served = nb(*words, "-n", "b.ipynb")
        assert served.out.rstrip().endswith("42")
        assert served.err == alone.err == ""
        kernels = nb("ps", "--json").json["kernels"]
        assert sorted(kernel["notebooks"][0] for kernel in kernels) == ["a.ipynb", "b.ipynb"]
        assert nb.read("a.ipynb").cells[-1].outputs[0].data["text/plain"] == "42"


@pytest.mark.proves("nb:compact")
async def test_reading_and_wrong_calls_start_no_server_and_commands_that_begin_together_one(
    nb: Nb,
) -> None:
    nb.notebook("a.ipynb", "x = 1\ny = 2", "print(x)")
    assert "0 @" in nb("cells", "a.ipynb").out
    assert nb("cells", "a.ipynb", "--json").json["total_cells"] == 2
    assert "x = 1\ny = 2" in nb("cell", "0", "-n", "a.ipynb").out
    text = nb("read", "a.ipynb").out
    assert "cell_not_found" in nb("cell", "7", "-n", "a.ipynb", status=2).err
    assert nb("nonsense", status=2).err
    wrong = nb("mv", "0", "-n", "a.ipynb", "--json", status=2)
    assert wrong.json["error"]["code"] == "invalid_arguments"
    assert not (nb.root / ".nb").exists()

    for name in "bc":
        nb.notebook(f"{name}.ipynb", "6 * 7")
    together = [await nb.start("exec", "0", "-n", f"{name}.ipynb") for name in "bc"]
    for command in together:
        out, err = await asyncio.wait_for(command.communicate(), DEADLINE)
        assert b"42" in out, err
    assert len(hosts(nb)) == 1
    assert nb("read", "a.ipynb").out == text


async def test_ctrl_c_interrupts_the_cell_and_a_second_one_ends_the_command(shared: Nb) -> None:
    with suppress(FileExistsError):
        os.mkfifo(shared.root / "go")
    shared.notebook("a.ipynb", "open('go').read(); import time; time.sleep(600)")
    await asyncio.to_thread(shared, "open", "a.ipynb")
    command = await shared.start("exec", "0")
    await asyncio.to_thread((shared.root / "go").write_text, "now")
    await asyncio.sleep(0.5)  # After the first answer, which has the id of the run.
    command.send_signal(signal.SIGINT)
    out, _ = await asyncio.wait_for(command.communicate(), DEADLINE)
    assert command.returncode == 1
    assert b"interrupted" in out
    stubborn = (
        "open('go').read(); import time\n"
        "while True:\n  try: time.sleep(600)\n  except KeyboardInterrupt: pass"
    )
    await asyncio.to_thread(shared, "edit", "0", stubborn, status=2)  # It was not read yet.
    await asyncio.to_thread(shared, "edit", "0", stubborn)
    command = await shared.start("exec", "0")
    await asyncio.to_thread((shared.root / "go").write_text, "now")
    await asyncio.sleep(0.5)
    for _ in range(2):
        command.send_signal(signal.SIGINT)
        await asyncio.sleep(0.2)
    await asyncio.wait_for(command.communicate(), DEADLINE)
    assert command.returncode == 130


@pytest.mark.proves("nb:persist")
def test_a_run_goes_on_without_its_command_and_is_watched_again(shared: Nb) -> None:
    with suppress(FileExistsError):
        os.mkfifo(shared.root / "go")
    shared.notebook("a.ipynb", "open('go').read()", "print(6 * 7)")
    shared("open", "a.ipynb")
    begun = shared("exec", "0-1", "--wait", "0", "--json", status=4).json
    still = shared("watch", "--wait", "0", status=4).out.rstrip()
    assert still.endswith(f"follow it with nb watch {begun['execution_id']}.")
    (shared.root / "go").write_text("now")
    somebody = {"NB_CALLER": "somebody"}
    assert "42" in shared("watch", begun["execution_id"], env=somebody).out
    assert shared("watch", "--json").json["execution_id"] == begun["execution_id"]
    assert "no execution here" in shared("watch", status=2, env=somebody).err
