"""`%tk` in the kernels of a real server, answered by the real SDK; the CLI is mostly its stand-in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

from tests.magics.conftest import DEADLINE, NotebookHarness, Ran, cells_of
from tk_ai_extension.testing.scripted_model import (
    UNAUTHORIZED,
    Answer,
    Held,
    ScriptedModel,
    ToolUse,
)

CHATS = "api/tk-ai/chats"
pytestmark = pytest.mark.proves("ext:magics")

COUNTED = "**One**, two, three, four, five, six, seven, eight."


async def test_an_answer_is_shown_as_it_comes_and_stays_as_markdown(
    harness: NotebookHarness, model: ScriptedModel, notebook: str
) -> None:
    person = await harness.open(notebook)
    held = Held(Answer.of(COUNTED), after=3)
    model.add(held)
    begun: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def on_message(ran: Ran) -> None:
        if "One" in ran.text and not begun.done():
            begun.set_result(ran.text)

    asking = asyncio.create_task(
        person.run("%tk What is {6 * 7}?", cell="prints00", on_message=on_message)
    )
    async with asyncio.timeout(DEADLINE):
        assert "eight" not in await begun
    held.go_on.set()
    ran = await asking
    assert (ran.status, ran.text, ran.asked) == ("ok", COUNTED, [])
    assert [*ran.displays.values()] == [{"text/markdown": COUNTED, "text/plain": COUNTED}]
    asked = str(model.requests[0].body["messages"])
    assert "What is {6 * 7}?" in asked
    assert "Active cell" in asked


async def test_it_is_the_notebooks_chat_and_a_new_one_where_that_is_asked_for(
    harness: NotebookHarness, model: ScriptedModel, notebook: str
) -> None:
    person = await harness.open(notebook)
    model.add(Answer.of("Noted."), Answer.of("Seven."), Answer.of("No idea."))
    body = {"message": "My number is seven.", "notebook": notebook}
    mine = await harness.request("POST", "api/tk-ai/mcp/chat", body)
    elsewhere = await harness.request("POST", f"{CHATS}/{mine['chat']}/stop", {})
    assert elsewhere == {"stopped": False}

    assert (await person.run("%tk What is my number?")).text == "Seven."
    assert "My number is seven." in str(model.requests[-1].body["messages"])
    assert [each["id"] for each in (await harness.request("GET", CHATS))["chats"]] == [mine["chat"]]

    ran = await person.run("%%tk --new --mode plan\nWhat is\nmy number?")
    assert ran.text == "No idea."
    asked = str(model.requests[-1].body["messages"])
    assert "seven" not in asked
    assert "What is\\nmy number?" in asked
    assert "Permission mode: plan" in asked
    assert len((await harness.request("GET", CHATS))["chats"]) == 2


async def test_code_for_the_asking_kernel_runs_after_the_answer(
    harness: NotebookHarness, model: ScriptedModel, notebook: str, jp_root_dir: Path, extension: Any
) -> None:
    """The cell waits for Claude, and the kernel for the cell: nobody waits for ever."""
    person = await harness.open(notebook)
    model.add(
        Answer.of(
            "A plot, then.",
            ToolUse("insert_and_execute_cell", {"source": "print(6 * 7)", "wait": 3600}),
        ),
        lambda request: Answer.of(
            ToolUse(
                "wait_execution",
                {"execution_id": _execution_id(request.tool_results[0].text), "wait": 3600},
            )
        ),
        Answer.of(ToolUse("restart_kernel")),
        Answer.of("It runs now."),
    )
    ran = await person.run("%tk --mode auto Print six by seven.")
    assert (ran.status, ran.asked) == ("ok", [])
    assert ran.text.splitlines()[0] == "A plot, then."
    assert ran.text.splitlines()[-2:] == ["It runs now.", "*Running 1 cell for Claude.*"]
    first, second, third = (request.tool_results[0] for request in model.requests[1:4])
    assert "starts by itself after you answer" in first.text
    assert "starts by itself after you answer" in second.text
    assert "kernel_busy" in third.text
    for run in extension.workspace.executions.active(kernel_id=person.kernel_id):
        assert await run.wait(DEADLINE)
    assert cells_of(jp_root_dir, notebook)[-1].outputs[0].text == "42\n"


async def test_a_turn_that_was_under_way_does_not_wait_for_the_kernel_that_waits_for_it(
    harness: NotebookHarness, model: ScriptedModel, notebook: str, extension: Any
) -> None:
    """The chat's answer to somebody else comes first: it waits for nothing in the kernel, either."""
    person = await harness.open(notebook)
    held = Held(
        Answer.of("Well.", ToolUse("execute_cell", {"cell": 0, "wait": 3600})),
        after=3,
    )
    model.add(held, Answer.of("It runs later."), Answer.of("Second."))
    body = {"message": "Run it.", "notebook": notebook, "mode": "auto"}
    before = asyncio.create_task(harness.request("POST", "api/tk-ai/mcp/chat", body))
    async with asyncio.timeout(DEADLINE):
        await held.held.wait()
    waits: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def on_message(ran: Ran) -> None:
        if "ahead of this one: 1" in ran.text and not waits.done():
            waits.set_result(True)

    asking = asyncio.create_task(person.run("%tk And now.", on_message=on_message))
    async with asyncio.timeout(DEADLINE):
        assert await waits
        held.go_on.set()
        first = await before
    assert first["text"] == "It runs later."
    assert "starts by itself after you answer" in first["calls"][0]["text"]
    assert (await asking).text.splitlines()[-1] == "Second."
    for run in extension.workspace.executions.active(kernel_id=person.kernel_id):
        assert await run.wait(DEADLINE)


async def test_a_cell_that_an_agent_runs_may_ask_as_well(
    harness: NotebookHarness, model: ScriptedModel, notebook: str, jp_root_dir: Path, extension: Any
) -> None:
    """The turn is asked from a run in the server's own queue; what it queues comes after that."""
    await harness.open(notebook)
    model.add(
        Answer.of(ToolUse("insert_and_execute_cell", {"source": "print('later')"})),
        Answer.of("It runs soon."),
    )
    source = "%load_ext tk_ai_extension.magics\n%tk --mode auto Print something."
    arguments = {"notebook": notebook, "source": source, "index": 0, "wait": DEADLINE}
    path = "api/tk-ai/tools/insert_and_execute_cell?caller=agent"
    ran = await harness.request("POST", path, arguments)
    assert ran["status"] == "ok"
    for run in extension.workspace.executions.active():
        assert await run.wait(DEADLINE)
    cells = cells_of(jp_root_dir, notebook)
    assert "It runs soon." in str(cells[0].outputs)
    assert cells[-1].outputs[0].text == "later\n"


@pytest.mark.real_cli
@pytest.mark.parametrize("before", ["", "import asyncio\nawait asyncio.sleep(0)\n"])
async def test_an_interrupt_stops_the_turn_and_what_it_has_queued(
    harness: NotebookHarness,
    model: ScriptedModel,
    notebook: str,
    jp_root_dir: Path,
    extension: Any,
    *,
    before: str,
) -> None:
    person = await harness.open(notebook)
    held = Held(Answer.of("One, two, three, four."), after=4)
    model.add(
        Answer.of(ToolUse("insert_and_execute_cell", {"source": "print('never')"})),
        held,
        Answer.of("Nothing."),
    )
    asking = asyncio.create_task(person.run(f"{before}%tk --mode auto Count, and print."))
    async with asyncio.timeout(DEADLINE):
        await held.held.wait()
    (run,) = extension.workspace.executions.active(kernel_id=person.kernel_id)
    await person.interrupt()
    ran = await asking
    assert (ran.status, ran.traceback) == ("error", ["tk: stopped."])
    async with asyncio.timeout(DEADLINE):
        await held.gone.wait()
    assert await run.wait(DEADLINE)
    assert await end_of_turn(extension) == "stopped"
    assert cells_of(jp_root_dir, notebook)[-1].outputs == []
    assert (await person.run("%tk And now?")).text == "Nothing."


async def test_a_question_is_answered_below_the_cell_and_with_no_where_nobody_can_be_asked(
    harness: NotebookHarness, model: ScriptedModel, notebook: str, jp_root_dir: Path
) -> None:
    person = await harness.open(notebook)
    insert = ToolUse("insert_cell", {"source": "x = 1"})
    model.add(Answer.of(insert), Answer.of("I may not."))
    ran = await person.run("%tk Set x.")
    assert ran.status == "ok"
    assert "cannot ask for approval" in ran.text
    assert len(cells_of(jp_root_dir, notebook)) == 2

    model.add(Answer.of(insert), Answer.of("Added."))
    ran = await person.run("%tk Set x.", answer=lambda _: "y")
    assert ran.status == "ok"
    (question,) = ran.asked
    assert "+x = 1" in question
    assert question.endswith("\n\ninsert_cell: yes, always, no? ")
    assert cells_of(jp_root_dir, notebook)[-1].source == "x = 1"

    model.add(Answer.of(insert), Answer.of("Not added."))
    answers = iter(["nothing", "no"])
    ran = await person.run("%tk Set x.", answer=lambda _: next(answers))
    assert len(ran.asked) == 2
    assert model.requests[-1].tool_results[0].is_error


@pytest.mark.parametrize("elsewhere", ["approve", "stop"])
async def test_a_request_that_is_settled_elsewhere_is_not_waited_for(
    harness: NotebookHarness, model: ScriptedModel, notebook: str, jp_root_dir: Path, elsewhere: str
) -> None:
    person = await harness.open(notebook)
    model.add(Answer.of(ToolUse("insert_cell", {"source": "x = 1"})), Answer.of("Added."))
    asked = asyncio.Event()
    running = asyncio.create_task(person.run("%tk Set x.", answer=lambda _: asked.set()))
    async with asyncio.timeout(DEADLINE):
        await asked.wait()
        if elsewhere == "approve":
            (waiting,) = (await harness.request("GET", "api/tk-ai/permissions"))["permissions"]
            path = f"api/tk-ai/permissions/{waiting['id']}"
            await harness.request("POST", path, {"answer": "once"})
        else:
            (chat,) = (await harness.request("GET", CHATS))["chats"]
            await harness.request("POST", f"{CHATS}/{chat['id']}/stop", {})
        ran = await running
    assert "needs no answer any more" in ran.text
    if elsewhere == "approve":
        assert (ran.status, ran.text.splitlines()[-1]) == ("ok", "Added.")
        assert cells_of(jp_root_dir, notebook)[-1].source == "x = 1"
    else:
        assert ran.traceback == ["tk: stopped."]
    assert (await person.run("print(7)")).printed == "7\n"


async def test_an_answer_in_the_box_of_a_settled_request_is_not_for_the_next_one(
    harness: NotebookHarness, model: ScriptedModel, notebook: str, jp_root_dir: Path
) -> None:
    """The cell awaits: its input ends all the same, and the cell goes on."""
    person = await harness.open(notebook)
    model.add(
        Answer.of(ToolUse("insert_cell", {"source": "x = 1"})),
        Answer.of(ToolUse("insert_cell", {"source": "x = 2"})),
        Answer.of("One added."),
    )
    asked: asyncio.Queue[str] = asyncio.Queue()
    code = (
        "import asyncio\nawait asyncio.sleep(0)\n%tk Set x.\nawait asyncio.sleep(0)\nprint('end')"
    )
    running = asyncio.create_task(person.run(code, answer=asked.put_nowait))
    async with asyncio.timeout(DEADLINE):
        assert (await asked.get()).endswith("yes, always, no? ")
        (waiting,) = (await harness.request("GET", "api/tk-ai/permissions"))["permissions"]
        path = f"api/tk-ai/permissions/{waiting['id']}"
        await harness.request("POST", path, {"answer": "once"})
        number = (await asked.get()).rpartition("no ")[2].strip("? ")
        for typed in ("y", "always", f"yes {int(number) - 1}", "no, wrong"):
            person.type_in(person.open_boxes[0], typed)
            assert "+x = 2" in await asked.get(), typed
        person.type_in(person.open_boxes[-1], f"no {number}, not this")
        ran = await running
    assert (ran.status, ran.printed) == ("ok", "end\n")
    assert cells_of(jp_root_dir, notebook)[-1].source == "x = 1"
    assert "not this" in model.requests[-1].tool_results[0].text


async def test_fix_is_not_about_the_error_of_a_question(
    harness: NotebookHarness, model: ScriptedModel, notebook: str
) -> None:
    person = await harness.open(notebook)
    await person.run("1 / 0")
    for wrong in ("%tk --quickly fix", "%tk --mode root fix"):
        assert (await person.run(wrong)).status == "error"
    model.add(Answer.of("It divides by zero."))
    assert (await person.run("%tk fix")).status == "ok"
    sent = str(model.requests[0].body["messages"])
    assert "ZeroDivisionError" in sent
    assert "TkError" not in sent


async def test_fix_sends_the_last_error_with_its_cell(
    harness: NotebookHarness, model: ScriptedModel, notebook: str, jp_root_dir: Path
) -> None:
    person = await harness.open(notebook)
    nothing = await person.run("%tk fix")
    assert nothing.traceback[0] == "tk: No error in this kernel."
    await person.run("def half(x):\n    return x / 0\nhalf(1)")
    model.add(
        Answer.of(ToolUse("read_cell", {"cell": 1})),
        Answer.of(ToolUse("overwrite_cell", {"cell": 1, "source": "1 / 2"})),
        Answer.of("It divided by zero."),
    )
    ran = await person.run("%tk --mode edit fix")
    assert ran.text.splitlines()[-1] == "It divided by zero."
    asked = str(model.requests[0].body["messages"])
    assert "return x / 0\\nhalf(1)" in asked
    assert "ZeroDivisionError" in asked
    assert cells_of(jp_root_dir, notebook)[1].source == "1 / 2"


class TestTheTour:
    @pytest.fixture
    def chat_config(self, chat_config: Config, monkeypatch: pytest.MonkeyPatch) -> Config:
        for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
            monkeypatch.delenv(name)
        chat_config.TkAIExtensionApp.chat_model = ""
        return chat_config

    async def test_it_ends_where_what_it_runs_comes_later(
        self, harness: NotebookHarness, notebook: str
    ) -> None:
        person = await harness.open(notebook)
        ran = await person.run("%tk --mode auto Hello.")
        assert ran.status == "ok", ran.traceback
        assert "tour" in ran.text


@pytest.mark.real_cli
async def test_a_failure_is_reported_without_a_traceback(
    harness: NotebookHarness, model: ScriptedModel, notebook: str
) -> None:
    person = await harness.open(notebook)
    model.add(*[UNAUTHORIZED] * 5)
    ran = await person.run("%tk Hello.")
    assert ran.status == "error"
    assert ran.traceback[0].startswith("tk [model_unauthorized]: ")
    assert "key" in ran.traceback[1]
    assert (
        (await person.run("%tk --mode root Hello."))
        .traceback[0]
        .startswith("tk [invalid_arguments]: ")
    )
    assert (await person.run("%tk --quickly Hello.")).traceback[0] == (
        "tk: Unknown option --quickly."
    )
    assert "%tk fix" in (await person.run("%tk")).printed


async def end_of_turn(extension: Any) -> str:
    """How the first turn of the only chat ended."""
    chats = await extension.services.chats()
    user = extension.services.owner
    ((chat, _),) = await chats.list(user)
    async with asyncio.timeout(DEADLINE):
        async for event in await chats.follow(user, chat.id):
            if event.kind == "done":
                return event.data["end"]
    raise AssertionError("The chat ended before the turn.")


def _execution_id(text: str) -> str:
    return text.partition('wait_execution("')[2].partition('"')[0]
