"""The context of a message: what a colleague would see, within bounds, as data."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from tests.agent.conftest import USER, Talk, of_kind, received, seen_by_echo
from tests.harness import ToolHarness
from tests.support.scripted_model import Answer
from tk_ai_extension.tools.registry import Image


async def shown(echoing: Talk, message: str = "Look.", **fields: Any) -> str:
    """The message as the agent gets it."""
    await echoing.say(message, **fields)
    return seen_by_echo(echoing)


def pictures(echoing: Talk) -> int:
    """How many pictures the agent got with the last message."""
    return sum(isinstance(part, Image) for part in received(echoing))


async def test_the_notebook_the_cells_and_the_kernel_are_seen(
    echoing: Talk, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", ("markdown", "# Title"), "prices = [1, 2]\nprices[7]", "print(1)")
    seen = await shown(echoing, notebook="a.ipynb", active_cell="cellb000")
    assert "Kernel: a.ipynb has no running kernel." in seen
    await harness.call("execute_cell", cell=1, notebook="a.ipynb")
    seen = await shown(
        echoing, notebook="a.ipynb", active_cell="cellb000", selected_cells=["cella000", "cellb000"]
    )
    assert "Notebook a.ipynb: 3 cells" in seen
    assert "# Title" in seen
    active = seen[seen.index("Active cell:") :]
    assert "prices[7]" in active
    assert "IndexError" in active
    assert "Selected cells: cella000, cellb000" in seen
    assert "no running kernel" not in seen
    assert seen.endswith("Look.")


async def test_a_cell_in_the_context_counts_as_read_unless_it_was_truncated(
    echoing: Talk, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", "a = 1\nb = 2", "x = 1\n" * 5_000)
    change = 'call overwrite_cell {"source": "a = 2", "cell": '
    events = await echoing.say(change + "0}", notebook="a.ipynb", active_cell="0", mode="auto")
    assert of_kind(events, "tool_result")[0]["ok"]
    events = await echoing.say(change + "1}", notebook="a.ipynb", active_cell="1", mode="auto")
    (answered,) = of_kind(events, "tool_result")
    assert answered["structured"]["error"]["code"] == "conflict"


async def test_attachments_are_sent(echoing: Talk, harness: ToolHarness) -> None:
    harness.write("a.ipynb", "first = 1", "second = 2\nthird = 3")
    (harness.root / "notes.txt").write_text("Remember the milk.")
    buffer = io.BytesIO()
    PIL.Image.new("RGB", (2, 2)).save(buffer, "PNG")
    seen = await shown(
        echoing,
        notebook="a.ipynb",
        attachments=[
            {"kind": "cell", "cell": "1", "title": "Cell 2"},
            {"kind": "file", "path": "notes.txt"},
            {"kind": "file", "path": "../outside.txt"},
            {
                "kind": "image",
                "mime": "image/png",
                "data": base64.b64encode(buffer.getvalue()).decode(),
            },
        ],
    )
    assert "third = 3" in seen[seen.index("Attached cell:") :]
    assert "Remember the milk." in seen
    assert "Attached file ../outside.txt: " in seen
    kept = (await echoing.chats.page(USER, (await echoing.chats.list(USER))[0][0].id))[0]
    assert of_kind(kept, "message")[0]["attachments"] == [
        *("Cell 2", "notes.txt", "../outside.txt", "picture")
    ]
    assert pictures(echoing) == 1


DRAWN = """\
import matplotlib.pyplot as plt
from IPython.display import display
print("before the plot")
figure, axes = plt.subplots(figsize=(1, 1))
display(figure)
plt.close()
print("after the plot")"""


async def test_one_output_of_a_cell_is_sent_with_its_picture(
    echoing: Talk, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", DRAWN, "second = 2")
    await harness.call("execute_cell", cell=0, notebook="a.ipynb")
    cell = harness.on_disk("a.ipynb").cells[0].id
    seen = await shown(
        echoing,
        notebook="a.ipynb",
        attachments=[
            {"kind": "output", "cell": cell, "output": 1},
            {"kind": "output", "cell": cell, "output": 2},
            {"kind": "output", "cell": cell, "output": 7},
            {"kind": "output", "cell": "gone", "output": 0},
            {"kind": "cell", "cell": cell},
        ],
    )
    plot, *_ = seen[seen.index("Attached output 1 of cell @") :].split("Attached output 2")
    assert plot.rstrip().endswith("[picture 1]")
    assert "before the plot" not in plot
    assert "after the plot" in seen[seen.index("Attached output 2 of cell @") :]
    assert "the cell has 3 outputs now" in seen
    assert "Attached output 0 of cell gone: " in seen
    assert "[picture 2]" in seen[seen.index("Attached cell:") :]
    assert pictures(echoing) == 2


async def test_to_be_shown_an_output_is_not_to_have_read_the_cell(
    echoing: Talk, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", "first = 1\nprint(first)")
    await harness.call("execute_cell", cell=0, notebook="a.ipynb")
    change = 'call overwrite_cell {"cell": 0, "source": "first = 2"}'
    attachment = {"kind": "output", "cell": "0", "output": 0}
    events = await echoing.say(change, notebook="a.ipynb", mode="auto", attachments=[attachment])
    (answered,) = of_kind(events, "tool_result")
    assert answered["structured"]["error"]["code"] == "conflict"


async def test_instructions_of_the_project_are_sent(talk: Talk, harness: ToolHarness) -> None:
    (harness.root / "CLAUDE.md").write_text("Never.")
    (harness.root / "AGENTS.md").write_text("Plots have titles.")
    talk.model.add(Answer.of("I see."))
    await talk.say("Look.")
    system = talk.model.requests[-1].system
    assert "Instructions of this project:\n\nPlots have titles." in system
    assert "Never." not in system


@pytest.mark.proves("rest:chat", "threat:path")
@pytest.mark.parametrize("what", ["folder", "link", "bytes", "FIFO"])
async def test_instructions_that_cannot_be_read_are_named_and_the_chat_works(
    echoing: Talk, harness: ToolHarness, tmp_path: Path, what: str
) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("Secret.")
    file = harness.root / "AGENTS.md"
    match what:
        case "folder":
            file.mkdir()
        case "link":
            file.symlink_to(outside)
        case "bytes":
            file.write_bytes(b"\xff\xfe\x00" * 50)
        case _:
            os.mkfifo(file)
    events = await echoing.say("Do you work?")
    assert events[-1].data["end"] == "done"
    (notice,) = of_kind(events, "notice")
    assert "AGENTS.md" in notice["text"]
    assert "Secret." not in notice["text"]


async def test_a_turn_is_bound_to_the_notebook_that_was_active_when_it_was_sent(
    echoing: Talk, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", "1")
    harness.write("b.ipynb", "2")
    insert = 'call insert_cell {"source": "new"}'
    first = await echoing.send(insert, notebook="a.ipynb", mode="auto")
    second = await echoing.send(insert, notebook="b.ipynb", mode="auto", chat=first.chat)
    for begun in (first, second):
        assert [event.data["end"] async for event in begun.events if event.kind == "done"] == [
            "done"
        ]
    assert harness.sources("a.ipynb") == ["1", "new"]
    assert harness.sources("b.ipynb") == ["2", "new"]
