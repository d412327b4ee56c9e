"""What is shown below a cell: how it grows, in what order, and that nothing in it runs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from tk_ai_extension.magics import keep_question_marks
from tk_ai_extension.magics.magic import Command
from tk_ai_extension.magics.safe_markdown import JOINER, escape_active_content
from tk_ai_extension.magics.screens import REFRESH_INTERVAL, PlainScreen, RichScreen, describe
from tk_ai_extension.magics.server_connection import TkError


class Below:
    """What stands below a cell; a clock that the test turns."""

    def __init__(self) -> None:
        self.shown: dict[str, str] = {}
        self.updates = 0
        self.now = 0.0

    def show(self, text: str, shown: str | None) -> str:
        name = shown or str(len(self.shown))
        self.updates += shown is not None
        self.shown[name] = text
        return name

    @property
    def text(self) -> list[str]:
        return [*self.shown.values()]

    def clock(self) -> float:
        return self.now


def test_a_text_that_grows_is_shown_now_and_then_and_whole_in_the_end() -> None:
    below = Below()
    screen = RichScreen(below.show, clock=below.clock)
    assert below.text == ["…"]
    screen.text(0, 0, "One")
    assert (below.text, screen.refresh_in) == (["One"], None)
    screen.text(0, 3, ", two")
    assert below.text == ["One"]
    assert screen.refresh_in == pytest.approx(REFRESH_INTERVAL)
    below.now += REFRESH_INTERVAL
    assert screen.refresh_in == 0
    screen.text(0, 8, ", three")
    assert below.text == ["One, two, three"]
    screen.text(0, 15, ".")
    screen.refresh()
    assert (below.text, below.updates) == (["One, two, three."], 3)


def test_calls_and_texts_stand_in_their_order() -> None:
    below = Below()
    screen = RichScreen(below.show, clock=below.clock)
    screen.text(0, 0, "Let me see.")
    screen.call("a", "● read_cell", ended=False)
    screen.text(1, 0, "I see.")
    screen.call("a", "✔ `read_cell`", ended=True)
    screen.note("Noted.")
    assert below.text == ["Let me see.", "`✔ 'read_cell'`", "I see.", "*Noted.*"]


def test_a_text_that_was_cut_is_replaced() -> None:
    below = Below()
    screen = RichScreen(below.show, clock=below.clock)
    screen.text(0, 0, "One, tw")
    screen.discard(0)
    screen.text(0, 0, "One, two.")
    screen.refresh()
    assert below.text == ["", "One, two."]


def test_where_displays_do_not_change_each_is_shown_once_and_whole() -> None:
    below = Below()
    screen = RichScreen(below.show, live=False, clock=below.clock)
    screen.text(0, 0, "Let me")
    screen.text(0, 6, " see.")
    assert (below.text, screen.refresh_in) == ([], None)
    screen.call("a", "● read_cell", ended=False)
    assert below.text == ["Let me see."]
    screen.call("a", "✔ read_cell", ended=True)
    screen.text(1, 0, "Void")
    screen.discard(1)
    screen.text(1, 0, "I")
    screen.note("Noted.")
    screen.text(2, 0, "I see.")
    screen.finish()
    assert below.text == ["Let me see.", "`✔ read_cell`", "I", "*Noted.*", "I see."]
    assert below.updates == 0


def test_plain_text_is_written_once_and_as_it_comes() -> None:
    written: list[str] = []
    screen = PlainScreen(written.append)
    screen.text(0, 0, "One")
    screen.text(0, 3, ", two.")
    screen.call("a", "● read_cell", ended=False)
    screen.text(1, 0, "Three")
    screen.discard(1)
    screen.text(1, 0, "Four")
    screen.finish()
    assert "".join(written) == (
        "One, two.\n● read_cell\nThree\n"
        "The connection to the model was lost. The answer starts again.\nFour\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "a <img src=http://evil/x>",
        "```\n<script>\n```",
        "$$\n```\n$$\n<img src=x onerror=y>",
        "<!-- --><b>",
        "<\n<a href='javascript:x'>",
    ],
)
def test_no_tag_survives(text: str) -> None:
    assert not any(
        after[:1].isalpha() or after[:1] in ("/", "!", "?")
        for after in escape_active_content(text).split("<")[1:]
    )
    assert escape_active_content(text).replace(JOINER, "") == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("![x](https://evil/x)", "!|[x](https://evil/x)"),
        ("![x][y]\n\n[y]: https://evil/x", "!|[x][y]\n\n[y]: https://evil/x"),
        ("[a](javascript:alert(1))", "[a]|(javascript:alert(1))"),
        ("[a](java&#115;cript:b)", "[a]|(java&#115;cript:b)"),
        ("[a]( \n data:text/html,b)", "[a]|( \n data:text/html,b)"),
        ("[a]: javascript:b", "[a]|: javascript:b"),
        ("[a](<javascript:b>)", "[a]|(<|javascript:b>)"),
        ("[a](HTTPS://b/)", "[a](HTTPS://b/)"),
        ("x[1] < y and a[2] != b", "x[1] < y and a[2] != b"),
    ],
)
def test_pictures_and_strange_links_are_text(text: str, shown: str) -> None:
    assert escape_active_content(text).replace(JOINER, "|") == shown


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"kind": "tool_call", "tool": "read_cell"}, "● read_cell"),
        ({"kind": "tool_progress", "message": "running, 3 s"}, "● running, 3 s"),
        (
            {"kind": "tool_result", "tool": "read_cell", "ok": True, "seconds": 0.26, "text": "x"},
            "✔ read_cell  0.3 s",
        ),
        (
            {
                "kind": "tool_result",
                "tool": "read_cell",
                "ok": False,
                "seconds": 0,
                "text": "No.\nx",
            },
            "✘ read_cell  0.0 s  No.",
        ),
    ],
)
def test_a_call_is_a_line(event: dict[str, Any], line: str) -> None:
    assert describe(event) == line


@pytest.mark.parametrize(
    ("typed", "message", "fields"),
    [
        ("fix", "fix", {}),
        ("--mode auto  plot it", "plot it", {"mode": "auto"}),
        ("--new --model big\nOne\n  two\n", "One\n  two", {"new": True, "model": "big"}),
        ("what does --mode do", "what does --mode do", {}),
        ("--plain", "", {}),
    ],
)
def test_options_stand_before_the_message(typed: str, message: str, fields: Any) -> None:
    command = Command.parse(typed)
    assert (command.message, command.fields) == (message, fields)


@pytest.mark.parametrize("typed", ["--mode", "--quick x"])
def test_an_option_that_is_none_is_refused(typed: str) -> None:
    with pytest.raises(TkError):
        Command.parse(typed)


def test_a_question_may_follow_another_magic() -> None:
    kept = keep_question_marks(["%load_ext tk_ai_extension.magics\n", "\n", "%tk why?\n"])
    assert kept[2] == "get_ipython().run_line_magic('tk', 'why?')\n"


@pytest.mark.parametrize("magic", ["%%writefile a.md", "%%time", "%%tk", "# Hm.\n%%html"])
def test_below_a_cell_magic_nothing_is_rewritten_but_the_code_that_it_runs(magic: str) -> None:
    body = "# Usage\n%tk what is x?\n"
    shell = TransformerManager()
    expected = shell.transform_cell(f"{magic}\n{body}")
    shell.cleanup_transforms.append(keep_question_marks)
    assert shell.transform_cell(f"{magic}\n{body}") == expected
    # IPython's %%time and the like transform what they run.
    assert "'tk', 'what is x?'" in shell.transform_cell(body)


@pytest.mark.parametrize(
    "cell",
    [["x = '''\n", "%tk why?\n", "'''\n"], ["%tk do it\n"], ["%tkx?\n"], []],
)
def test_only_a_question_to_claude_keeps_its_mark(cell: list[str]) -> None:
    assert keep_question_marks(cell) == cell


def test_the_magics_bring_nothing_into_a_kernel_but_themselves() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "import tk_ai_extension.magics.magic\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "['tk_ai_extension']"
