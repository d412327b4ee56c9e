"""A message from end to end: Claude's SDK and CLI, the tools, the kernel, the notebook on disk."""

from __future__ import annotations

import nbformat
import pytest

from tests.agent.conftest import Talk, kinds, of_kind
from tests.harness import ToolHarness
from tests.support.scripted_model import Answer, Thinking, ToolUse

pytestmark = pytest.mark.real_cli


@pytest.mark.proves("ext:chat", "perm:modes", "edit:mutate-and-execute")
async def test_a_message_becomes_cells_with_outputs_and_an_answer(
    talk: Talk, harness: ToolHarness
) -> None:
    harness.write("sales.ipynb", "prices = [3, 4, 5]")
    talk.model.add(
        Answer.of(
            Thinking("A sum."),
            "I'll connect.",
            ToolUse("use_notebook", {"notebook": "sales.ipynb"}),
        ),
        Answer.of(
            ToolUse("insert_and_execute_cell", {"source": "total = sum(price)\ntotal", "index": 1})
        ),
        Answer.of(
            "A name is wrong.",
            ToolUse("overwrite_cell", {"cell": 1, "source": "total = sum([3, 4, 5])\ntotal"}),
        ),
        Answer.of(ToolUse("execute_cell", {"cell": 1})),
        Answer.of("The total is 12."),
    )
    events = await talk.say("What is the total?", notebook="sales.ipynb", mode="auto")

    called = of_kind(events, "tool_call")
    assert [call["tool"] for call in called] == [
        "use_notebook",
        "insert_and_execute_cell",
        "overwrite_cell",
        "execute_cell",
    ]
    answered = of_kind(events, "tool_result")
    assert [answer["ok"] for answer in answered] == [True, False, True, True]
    assert "NameError" in answered[1]["text"]
    assert [answer["call"] for answer in answered] == [call["call"] for call in called]
    # A kernel that starts slowly reports its progress.
    assert [kind for kind in kinds(events) if kind != "tool_progress"] == [
        *("message", "began", "thinking", "text"),
        *("tool_call", "tool_result", "tool_call", "cell_change", "tool_result", "text"),
        *("tool_call", "cell_change", "tool_result", "tool_call", "tool_result"),
        *("text", "usage", "done"),
    ]
    assert [event.id for event in events] == list(range(1, len(events) + 1))
    inserted, changed = of_kind(events, "cell_change")
    assert (inserted["action"], changed["action"]) == ("insert", "replace")
    assert "-total = sum(price)\n+total = sum([3, 4, 5])" in changed["diff"]
    assert events[-1].data == {"end": "done", "text": "The total is 12."}

    notebook = harness.on_disk("sales.ipynb")
    assert [cell.source for cell in notebook.cells] == [
        "prices = [3, 4, 5]",
        "total = sum([3, 4, 5])\ntotal",
    ]
    (output,) = notebook.cells[1].outputs
    assert output.data["text/plain"] == "12"
    nbformat.validate(notebook)
