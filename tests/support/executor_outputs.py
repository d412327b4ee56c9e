"""Conformance of executors: what is printed and shown arrives as JupyterLab shows it."""

from __future__ import annotations

import pytest

from tests.support import faults
from tests.support.executor_bench import (
    ExecutorBench,
    happens,
    kernel_events,
    run,
)
from tk_ai_extension.kernels.output_collector import OTHER_DISPLAY_MIME
from tk_ai_extension.model.executions import InputRequested, StatusDisplay

MESSAGES = 2_000
"""Of a flood: more than the 1,000 that a kernel queues for a slow client before it drops any."""


class OutputConformance:
    """What is printed and shown arrives as JupyterLab shows it."""

    @pytest.mark.proves("out:types")
    async def test_streams_displays_results_and_errors_are_outputs_in_order(
        self, bench: ExecutorBench
    ) -> None:
        code = """
import sys
from IPython.display import display, Markdown
print('one'); print('two', flush=True)
print('to stderr', file=sys.stderr, flush=True)
print('three', flush=True)
display(Markdown('**bold**'))
"""
        outcome = await run(bench, code)
        kinds = [(each["output_type"], each.get("name")) for each in outcome.outputs]
        assert kinds == [
            ("stream", "stdout"),
            ("stream", "stderr"),
            ("stream", "stdout"),
            ("display_data", None),
        ]
        assert outcome.outputs[0]["text"] == "one\ntwo\n"
        assert outcome.outputs[3]["data"]["text/markdown"] == "**bold**"
        assert "transient" not in outcome.outputs[3]

    @pytest.mark.proves("exec:display-update")
    async def test_carriage_returns_and_backspaces_are_carried_out(
        self, bench: ExecutorBench
    ) -> None:
        code = """
for percent in range(0, 101, 5):
    print(f'\\r{percent}%', end='', flush=True)
print('\\nabc\\b\\bX')
"""
        assert (await run(bench, code)).text() == "100%\naX\n"

    @pytest.mark.proves("exec:display-update")
    async def test_clear_output_clears_at_once_or_at_the_next_output(
        self, bench: ExecutorBench
    ) -> None:
        code = "from IPython.display import clear_output\nprint('old')\n"
        gone = await run(bench, code + "clear_output()")
        assert gone.outputs == ()
        replaced = await run(bench, code + "clear_output(wait=True)\nprint('new')")
        assert replaced.text() == "new\n"
        kept = await run(bench, code + "clear_output(wait=True)")
        assert kept.text() == "old\n"

    @pytest.mark.proves("exec:display-update")
    async def test_an_updated_display_is_replaced_where_it_stands(
        self, bench: ExecutorBench
    ) -> None:
        code = """
from IPython.display import display
handle = display('before', display_id='mine')
print('between')
handle.update('after')
"""
        outcome = await run(bench, code)
        assert [each["output_type"] for each in outcome.outputs] == ["display_data", "stream"]
        assert outcome.outputs[0]["data"]["text/plain"] == "'after'"

    @pytest.mark.proves("exec:display-elsewhere")
    async def test_a_persons_update_of_a_display_of_ours_is_an_event_of_the_kernel(
        self, bench: ExecutorBench
    ) -> None:
        await run(bench, "handle = display('before', display_id='ours')")
        async with (
            faults.person(bench.manager, bench.kernel_id) as person,
            kernel_events(bench) as events,
        ):
            await run(bench, "handle.update('by an agent')")
            person.execute("handle.update('by a person')")
            event = await happens(events, "display")
        assert event.display["display_id"] == "ours"
        assert event.display["output"]["data"]["text/plain"] == "'by a person'"

    @pytest.mark.proves("out:structured")
    async def test_json_and_images_are_captured_and_a_status_is_an_event(
        self, bench: ExecutorBench
    ) -> None:
        code = """
from IPython.display import display
png = 'iVBORw0KGgo='
display({'application/json': {'a': [1, None]}, 'text/plain': '<JSON>'}, raw=True)
display({'image/png': png, 'image/jpeg': 'AAAA', 'text/plain': '<image>'}, raw=True)
display({'application/x-work-status': {'done': 3}, 'text/plain': 'busy'}, raw=True)
"""
        outcome = await run(bench, code)
        assert [each["data"] for each in outcome.outputs] == [
            {"application/json": {"a": [1, None]}, "text/plain": "<JSON>"},
            {"image/png": "iVBORw0KGgo=", "image/jpeg": "AAAA", "text/plain": "<image>"},
        ]
        assert StatusDisplay("application/x-work-status", {"done": 3}) in outcome.events

    @pytest.mark.proves("out:ansi")
    async def test_colours_are_kept(self, bench: ExecutorBench) -> None:
        assert (await run(bench, "print('\\x1b[31mred\\x1b[0m')")).text() == "\x1b[31mred\x1b[0m\n"

    @pytest.mark.proves("out:sanitize")
    async def test_invalid_utf8_and_control_characters_break_nothing(
        self, bench: ExecutorBench
    ) -> None:
        code = """
import sys
from IPython.display import display
print('bell \\x07 null \\x00 end', flush=True)
print('bad \\udcff byte', flush=True)
display({'text/plain': 'bad \\udcff byte'}, raw=True)
"""
        outcome = await run(bench, code)
        assert outcome.status == "ok"
        assert "bell \x07 null \x00 end\n" in outcome.text()
        assert "bad " in outcome.text()
        for output in outcome.outputs:
            str(output).encode()  # a lone surrogate could not be written
        assert (await run(bench, "print('fine')")).text() == "fine\n"

    @pytest.mark.proves("exec:stdin")
    async def test_input_is_refused_with_its_prompt_known(self, bench: ExecutorBench) -> None:
        outcome = await run(bench, "name = input('Your name? ')")
        assert outcome.status == "error"
        assert outcome.execution.prompt == "Your name? "
        assert InputRequested("Your name? ") in outcome.events
        assert "refused" in outcome.text("stderr")
        assert (await run(bench, "1")).status == "ok"

    @pytest.mark.proves("exec:display-update")
    async def test_a_display_shown_again_and_a_result_with_an_id_show_the_newest(
        self, bench: ExecutorBench
    ) -> None:
        await run(bench, "_ = display('0 %', display_id='bar')")
        again = await run(
            bench, "_ = display('50 %', display_id='bar')\n_ = display('60 %', display_id='bar')"
        )
        assert [each["data"]["text/plain"] for each in again.outputs] == ["'60 %'", "'60 %'"]
        last = [each for each in again.events if isinstance(each, StatusDisplay)][-1]
        assert (last.mime, last.data["display_id"]) == (OTHER_DISPLAY_MIME, "bar")
        assert last.data["output"]["data"] == {"text/plain": "'60 %'"}
        result = await run(
            bench,
            "content = {'data': {'text/plain': '9'}, 'metadata': {}, 'execution_count': 1,"
            " 'transient': {'display_id': 'r'}}\nip = get_ipython()\n"
            "ip.kernel.session.send(ip.kernel.iopub_socket, 'execute_result', content,"
            " parent=ip.parent_header)\n"
            "from IPython.display import update_display\nupdate_display(10, display_id='r')",
        )
        (output,) = (each for each in result.outputs if each["output_type"] == "execute_result")
        assert output["data"]["text/plain"] == "10"


class FloodConformance:
    """A flood of output."""

    @pytest.mark.proves("fault:flood", "exec:no-block")
    async def test_a_flood_of_lines_is_kept_and_holds_nobody_up(self, bench: ExecutorBench) -> None:
        with faults.LoopMeter() as meter:
            outcome = await run(bench, faults.print_lines(100_000))
        assert outcome.status == "ok"
        lines = outcome.text().splitlines()
        assert [int(line) for line in lines] == list(range(100_000))
        assert meter.longest < 0.2

    @pytest.mark.proves("fault:flood", "exec:no-block")
    async def test_a_flood_of_messages_is_kept_and_its_end_is_seen(
        self, bench: ExecutorBench
    ) -> None:
        with faults.LoopMeter() as meter:
            outcome = await run(bench, faults.print_lines(MESSAGES, width=1000, flush=True))
        assert outcome.status == "ok"
        assert outcome.text().count("\n") == MESSAGES
        assert meter.longest < 0.2
