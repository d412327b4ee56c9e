"""An agent and a person in one live notebook: both see everything, and nothing is lost."""

import asyncio

import nbformat
import pytest

from tests.harness import BOB
from tk_ai_extension.model.errors import Conflict
from tk_ai_extension.notebooks.rooms.room import LiveRoom
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.notebook_runs import run_notebook
from tk_ai_extension.tools.registry import Registry


@pytest.fixture
def documents():
    return "room"


@pytest.fixture
async def live(harness):
    """The notebook, open in a person's browser."""
    harness.write("n.ipynb", "a = 1", ("markdown", "# Title"), "print('old')")
    return await harness.room("n.ipynb")


def sources(live):
    return [cell["source"] for cell in live.source["cells"]]


@pytest.mark.proves("ext:rtc")
async def test_an_agents_edits_and_outputs_are_in_the_open_notebook_at_once(harness, live):
    await harness.call(
        "insert_and_execute_cell", notebook="n.ipynb", source="print(6 * 7)", index=0
    )
    assert sources(live)[0] == "print(6 * 7)"
    outputs = live.source["cells"][0]["outputs"]
    assert [output["text"] for output in outputs] in (["42\n"], [["42\n"]])
    assert live.source["cells"][0]["execution_count"] == 1
    assert live.ycells[0].get("execution_state") == "idle"


@pytest.mark.proves("ext:rtc")
async def test_a_persons_typing_in_the_same_cell_survives_an_agents_edit(harness, live):
    await harness.call("read_notebook", notebook="n.ipynb")
    text = live.ycells[2]["source"]
    await harness.call("edit_cell", notebook="n.ipynb", cell=2, old="old", new="new")
    text.insert(len(str(text)), "  # typed")
    assert sources(live)[2] == "print('new')  # typed"
    with pytest.raises(Conflict) as raised:
        await harness.call("overwrite_cell", notebook="n.ipynb", cell=2, source="lost?")
    assert raised.value.details["cells"][0]["source"] == "print('new')  # typed"
    assert sources(live)[2] == "print('new')  # typed"


@pytest.mark.proves("ext:rtc")
async def test_unsaved_typing_is_what_the_agent_reads_and_runs(harness, live):
    live.ycells[2]["source"].insert(0, "print('typed first')\n")
    read = await harness.call("read_cell", notebook="n.ipynb", cell=2)
    assert read.source == "print('typed first')\nprint('old')"
    result = await harness.call("execute_cell", notebook="n.ipynb", cell=2)
    assert result.runs[0].output == "typed first\nold"


@pytest.mark.proves("exec:saved")
async def test_a_running_cell_is_saved_within_two_seconds_though_it_prints_all_the_time(
    harness, live
):
    code = "import time\nfor i in range(60):\n    print('tick', i, flush=True)\n    time.sleep(0.1)"
    await harness.call("use_notebook", notebook="n.ipynb")
    running = await harness.call("insert_and_execute_cell", source=code, wait=3.5)
    assert running.status == "running"
    stored = harness.on_disk("n.ipynb").cells[-1].outputs
    assert int(stored[0].text.split()[-1]) >= 8
    await harness.call("interrupt_kernel", execution_id=running.execution_id)


async def test_typing_goes_on_while_a_cell_runs(harness, live):
    await harness.call("use_notebook", notebook="n.ipynb")
    code = "import time\nfor i in range(10):\n    print(i, flush=True)\n    time.sleep(0.1)"
    running = await harness.call("insert_and_execute_cell", source=code, index=0, wait=0.2)
    for letter in "typed":
        text = live.ycells[1]["source"]
        text.insert(len(str(text)), letter)
        await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(_tick())), 1)
    ended = await harness.call("wait_execution", execution_id=running.execution_id)
    assert ended.status == "ok"
    assert sources(live)[1] == "a = 1typed"
    output = live.source["cells"][0]["outputs"][0]["text"]
    assert "".join(output) == "".join(f"{i}\n" for i in range(10))


async def _tick():
    return None


@pytest.mark.proves("edit:history")
async def test_undo_in_a_room_leaves_a_persons_later_work(harness, live):
    await harness.call("read_notebook", notebook="n.ipynb")
    await harness.call("overwrite_cell", notebook="n.ipynb", cell=0, source="a = 2")
    await harness.call("insert_cell", notebook="n.ipynb", source="b = 3")
    live.ycells[0]["source"].insert(0, "# typed\n")
    result = await harness.call("undo", notebook="n.ipynb", steps=2)
    assert sources(live) == ["# typed\na = 2", "# Title", "print('old')"]
    assert result.refused


async def test_two_agents_and_a_person_insert_at_once(harness, live):
    async def insert(caller, number):
        await harness.call(
            "insert_cell", caller=caller, notebook="n.ipynb", source=f"{number}", index=1
        )

    await asyncio.gather(*(insert(BOB if n % 2 else None, n) for n in range(10)))
    assert sorted(sources(live)[1:11]) == sorted(str(n) for n in range(10))
    assert len(sources(live)) == 13


@pytest.mark.proves("edit:linearizable")
async def test_parallel_inserts_at_one_index_each_answer_with_and_run_their_own_cell(harness, live):
    await harness.call("use_notebook", notebook="n.ipynb")
    results = await asyncio.gather(
        *(
            harness.call("insert_and_execute_cell", source=f"print('run {number}')", index=0)
            for number in range(8)
        )
    )
    ran = [result.runs[0] for result in results]
    assert [run.output for run in ran] == [f"run {number}" for number in range(8)]
    assert len({run.cell for run in ran}) == 8
    printed = {
        cell["id"]: "".join("".join(output["text"]) for output in cell["outputs"])
        for cell in live.source["cells"]
        if cell["cell_type"] == "code"
    }
    assert {run.cell: f"{run.output}\n" for run in ran}.items() <= printed.items()
    await harness.call("undo", steps=8)
    assert sources(live) == ["a = 1", "# Title", "print('old')"]


@pytest.mark.proves("edit:linearizable")
async def test_an_edit_that_another_programs_file_replaced_before_it_was_saved_is_made_again(
    harness, live, monkeypatch
):
    path = harness.root / "n.ipynb"
    save = LiveRoom.save

    async def taken_in_first(room: LiveRoom) -> int:
        monkeypatch.setattr(LiveRoom, "save", save)
        notebook = harness.on_disk("n.ipynb")
        notebook.cells.append(nbformat.v4.new_code_cell("theirs = 1"))
        path.write_text(nbformat.writes(notebook), encoding="utf-8")
        await room.reload_if_changed()
        return await room.save()

    monkeypatch.setattr(LiveRoom, "save", taken_in_first)
    answer = await harness.call("insert_cell", notebook="n.ipynb", source="ours = 1", index=0)
    stored = [cell.source for cell in harness.on_disk("n.ipynb").cells]
    assert sources(live) == stored
    assert stored[0] == "ours = 1"
    assert stored[-1] == "theirs = 1"
    assert len(stored) == 5
    assert live.source["cells"][0]["id"] == answer.changes[0].cell


async def test_a_result_is_replaced_unless_somebody_has_it_open(harness, live):
    """A room that only an agent has used stays open for a minute, and is nobody's."""
    registry, context = Registry([run_notebook]), ToolContext(harness.workspace, harness.caller)
    copied = {"notebook": "in.ipynb", "output": "out.ipynb"}
    for text in ("print('first')", "print('second')"):
        harness.write("in.ipynb", text)
        await registry.call("run_notebook", copied, context)
        read = await harness.call("read_cell", notebook="out.ipynb", cell=0)
        assert (read.source, f"print('{read.output}')") == (text, text)
    extension = harness.app.web_app.settings["jupyter_server_ydoc"]
    file_id = harness.app.web_app.settings["file_id_manager"].get_id("out.ipynb")
    room = extension.ywebsocket_server.rooms[f"json:notebook:{file_id}"]
    person = object()
    room.clients.add(person)
    with pytest.raises(Conflict, match="open in a browser"):
        await registry.call("run_notebook", copied, context)
    room.clients.discard(person)
