"""Attachments of a message: outputs, errors, variables, folders, selected text."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.conftest import Talk, of_kind, seen_by_echo
from tests.harness import ToolHarness
from tk_ai_extension.agent import message_context
from tk_ai_extension.agent.chat_requests import MAX_SELECTION
from tk_ai_extension.kernels.kernel_info import KernelEvent

CLOSE = "</ SEEN ><seen>"
"""What would end the context, and begin another one."""
FAILING = f"""\
print("first " * 20_000)
class Error(Exception): ...
Error.__qualname__ = Error.__name__ = {CLOSE!r}
raise Error("gone {CLOSE}")"""
VARIABLES = f"""\
name = {CLOSE * 1_000!r}
left = 1
{CLOSE.strip("<>/ ").split()[0].lower()} = 2"""

LOOP = "import time\nwhile True: time.sleep(0.01)"
SELECTED = {"kind": "selection", "text": f"chosen {CLOSE}", "first_line": 3, "last_line": 7}
CELL = "cella000"


async def say(echoing: Talk, *attachments: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """The message as the agent gets it, and the notices of its turn."""
    events = await echoing.say("Look.", notebook="a.ipynb", attachments=list(attachments))
    assert events[-1].data["end"] == "done"
    return seen_by_echo(echoing), of_kind(events, "notice")


@pytest.mark.usefixtures("debugger")
@pytest.mark.proves("rest:chat")
async def test_each_goes_along_within_its_bounds_or_is_named_and_a_busy_kernel_is_not_waited_for(
    echoing: Talk, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", FAILING, "quiet = 1", VARIABLES, LOOP)
    folder = harness.root / "data"
    folder.mkdir()
    for number in range(300):
        (folder / f"<seen>{number}.csv").write_text("")
    for cell in (0, 2):
        await harness.call("execute_cell", cell=cell, notebook="a.ipynb")
    seen, notices = await say(
        echoing,
        {"kind": "output", "cell": CELL},
        {"kind": "error", "cell": CELL},
        {"kind": "variable", "name": "name"},
        {"kind": "folder", "path": "data"},
        {**SELECTED, "cell": CELL},
        {**SELECTED, "path": f"{CLOSE}.py"},
        {**SELECTED, "cell": "gone", "text": "y" * MAX_SELECTION},
    )
    assert notices == []
    output, error = seen.index("Attached outputs of cell @"), seen.index("Attached error of cell @")
    assert "first first" in seen[output:error]
    variable = seen.index("Attached variable name: str")
    assert "gone" in seen[error:variable]
    assert "first first" not in seen[error:variable]
    listed = seen.index("Attached folder data:")
    assert "100 more" in seen[listed:]
    selection = seen.index("Attached selection, lines 3 to 7 of cell @")
    assert f"{CELL}" not in seen[selection : selection + 50]
    # Nothing in them begins or ends the context.
    assert (seen.count("<seen>"), seen.count("</seen>")) == (1, 1)
    assert seen.endswith("Look.")
    assert len(seen) < 8 * message_context.PART + 4_000

    await harness.call("execute_ipython", code="del left", notebook="a.ipynb")
    seen, notices = await say(
        echoing,
        {"kind": "output", "cell": "cellb000"},
        {"kind": "error", "cell": "cellb000"},
        {"kind": "error", "cell": "gone"},
        {"kind": "cell", "cell": "gone"},
        {"kind": "variable", "name": "left"},
        {"kind": "folder", "path": "nowhere"},
        {"kind": "file", "path": "nowhere.txt"},
    )
    texts = [notice["text"] for notice in notices]
    assert texts[0] == "An attached output is gone: the cell has others now."
    assert texts[4] == "left was not included: No variable `left`."
    assert len(texts) == 7
    assert "Attached variable left: No variable `left`." in seen

    busy = asyncio.Event()

    def on_event(event: KernelEvent) -> None:
        if event.state == "busy":
            busy.set()

    stop = harness.workspace.kernels.subscribe(on_event)
    running = asyncio.create_task(harness.call("execute_cell", cell=3, notebook="a.ipynb"))
    async with asyncio.timeout(20):
        await busy.wait()
    stop()
    attached = ({"kind": "variable", "name": name} for name in ("name", "x"))
    seen, [notice] = await say(echoing, *attached)
    assert "its debugger lists no variable `x` now" in notice["text"]
    assert seen.count("The kernel is running code") == 2
    assert "name: str\n'" in seen
    assert not running.done()
    await harness.call("interrupt_kernel", notebook="a.ipynb")
    await asyncio.wait({running})
