"""What a person sees at a terminal."""

from __future__ import annotations

import asyncio
import base64
import re

import pytest

from tk_ai_extension.cli.pictures import picture
from tk_ai_extension.cli.screen import Screen
from tk_ai_extension.cli.session import as_json
from tk_ai_extension.cli.terminal import TerminalInfo
from tk_ai_extension.model.errors import CellNotFound
from tk_ai_extension.tools.default.reading import CellLine, CellList, CellRead
from tk_ai_extension.tools.execution_results import CellRun, ExecutionResult
from tk_ai_extension.tools.results import Image


class Recorded:
    """A terminal that keeps what is printed."""

    def __init__(self, **env: str) -> None:
        self.info = TerminalInfo(
            "/", "/", columns=80, tty=True, env={"TERM": "xterm-256color", **env}
        )
        self.interrupted = asyncio.Event()
        self.gone = asyncio.Event()
        self.printed = ""

    def out(self, text: str) -> None:
        self.printed += text

    err = out

    async def read(self) -> str:
        raise AssertionError

    async def read_file(self, path: str) -> str:  # noqa: ARG002
        raise AssertionError

    async def write_file(self, path: str, text: str) -> None:  # noqa: ARG002
        raise AssertionError

    async def edit(self, text: str, name: str) -> str | None:  # noqa: ARG002
        raise AssertionError

    def browse(self, url: str) -> None:  # noqa: ARG002
        raise AssertionError

    def redirect(self, url: str, token: str, notebook: str | None = None) -> None:  # noqa: ARG002
        raise AssertionError

    async def ask(self, prompt: str) -> str | None:  # noqa: ARG002
        raise AssertionError

    @property
    def text(self) -> str:
        """Without colours."""
        return re.sub(r"\x1b\[[0-9;]*[mK]", "", self.printed)


@pytest.fixture
def terminal() -> Recorded:
    return Recorded()


@pytest.fixture
def screen(terminal: Recorded) -> Screen:
    return Screen(terminal, live=True)


def ran(**facts: object) -> ExecutionResult:
    run = CellRun(cell="318a", status="ok", execution_count=3, duration=0.5).model_copy(
        update=facts
    )
    return ExecutionResult(execution_id="e1", status=run.status, runs=[run])


def test_a_cell_that_ran_shows_its_output_and_how_it_ended(
    screen: Screen, terminal: Recorded
) -> None:
    screen.show(ran(output="42", data=[{"a": [1, 2]}]))
    assert "42\n" in terminal.text
    assert "└── a\n    ├── 0: 1\n    └── 1: 2\n" in terminal.text
    assert "✔ @318a [3] 0.50 s" in terminal.text


def test_an_error_is_boxed_with_its_cell(screen: Screen, terminal: Recorded) -> None:
    screen.show(ran(status="error", output="ZeroDivisionError: division by zero"))
    first, *_, last = terminal.text.splitlines()
    assert first.startswith("╭─ ✘ @318a [3] error 0.50 s")
    assert last.startswith("╰")
    assert "│ ZeroDivisionError: division by zero" in terminal.text


def test_a_table_leaves_out_what_says_nothing(screen: Screen, terminal: Recorded) -> None:
    lines = [
        CellLine(index=n, cell=f"id{n}", cell_type="code", first_line="x = 1", lines=1, address="a")
        for n in range(2)
    ]
    screen.show(CellList(notebook="a.ipynb", total_cells=2, start=0, cells=lines))
    heading = next(line for line in terminal.text.splitlines() if "first line" in line)
    assert heading.split() == ["index", "cell", "cell", "type", "first", "line", "lines"]
    assert "notebook: a.ipynb, total cells: 2" in terminal.text


def test_progress_is_one_line_that_gives_way(screen: Screen, terminal: Recorded) -> None:
    asyncio.run(screen.progress("cell @318a running, 3 s"))
    assert terminal.printed.endswith("cell @318a running, 3 s")
    screen.clear_progress()
    assert terminal.printed.endswith("\r\x1b[2K")


def test_a_refusal_says_what_to_do(screen: Screen, terminal: Recorded) -> None:
    screen.refuse(CellNotFound("No cell `x`."))
    assert "cell_not_found" in terminal.text
    assert "Call list_cells to see the cells and their ids." in terminal.text


@pytest.mark.parametrize("where", ["source", "output"])
def test_escape_sequences_in_a_notebook_never_reach_the_terminal(
    screen: Screen, terminal: Recorded, where: str
) -> None:
    evil = "\x1b]0;title\x07\x1b[2Jx"
    if where == "source":
        screen.show(
            CellRead(notebook="a", cell="a", index=0, address="a.b", cell_type="code", source=evil)
        )
    else:
        screen.show(ran(output=evil))
    assert "\x1b]" not in terminal.printed
    assert "\x1b[2J" not in terminal.printed
    assert "␛" in terminal.printed


def test_pictures_are_shown_where_the_terminal_can(terminal: Recorded) -> None:
    png = Image(base64.b64encode(b"x" * 6000).decode(), "image/png")
    assert picture(png, terminal.info) == "[image/png, 6,000 bytes]\n"
    kitty = picture(png, Recorded(KITTY_WINDOW_ID="1").info)
    assert kitty.startswith("\x1b_Ga=T,f=100,m=1;")
    assert kitty.endswith("\x1b\\\n")
    assert "\x1b_Gm=0;" in kitty
    assert picture(png, Recorded(TERM_PROGRAM="iTerm.app").info).startswith("\x1b]1337;")
    assert picture(png, Recorded(KITTY_WINDOW_ID="1", TMUX="x").info).startswith("[image")


def test_data_that_is_no_image_ends_no_escape_sequence() -> None:
    evil = "\x1b\\\x07\x1b]0;abc\x07"
    png = base64.b64encode(b"x" * 30).decode()
    for env in ({"KITTY_WINDOW_ID": "1"}, {"TERM_PROGRAM": "iTerm.app"}):
        shown = picture(Image(png[:20] + evil + png[20:], "image/png"), Recorded(**env).info)
        assert "\x1b]0;" not in shown
        assert shown.count("\x07") + shown.count("\x1b\\") == 1
    terminal = Recorded(KITTY_WINDOW_ID="1")
    assert picture(Image("abc", "image/png"), terminal.info) == "[image/png, not readable]\n"


def test_json_for_programs_commands_no_terminal() -> None:
    assert as_json({"text": "\x1b[2J\x9b2J\x7fé"}) == '{"text": "\\u001b[2J\\u009b2J\\u007fé"}\n'


def test_colours_are_left_out_where_they_are_not_wanted() -> None:
    terminal = Recorded(NO_COLOR="1")
    Screen(terminal, live=True).show(ran(output="42"))
    assert "\x1b[32m" not in terminal.printed
