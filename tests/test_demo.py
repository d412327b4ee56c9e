"""`make demo`: what a person sees, and what is left when it has ended."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.proofs import ROOT


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    """A terminal of its own, and a folder for what is temporary."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    plain = {
        name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS"}
    }
    # JupyterLab asks node, where there is one, which keeps there what it has compiled.
    plain["NODE_DISABLE_COMPILE_CACHE"] = "1"
    return {**plain, "TMPDIR": str(folder), "TERM": "xterm", **more}


def left_behind(tmp_path: Path) -> list[str]:
    """Files and processes that have to do with that folder."""
    folder = tmp_path / "tmp"
    processes = [
        f"process {process.pid}"
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in part for part in process.info["cmdline"] or ())
    ]
    return [path.name for path in folder.iterdir()] + processes


def with_another_example(tmp_path: Path) -> Path:
    """The script beside an example that has lost its last cell."""
    scripts, examples = tmp_path / "scripts", tmp_path / "examples"
    examples.mkdir()
    shutil.copytree(ROOT / "scripts", scripts)
    notebook = json.loads((ROOT / "examples" / "coffee.ipynb").read_text(encoding="utf-8"))
    del notebook["cells"][-1]
    (examples / "coffee.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    return scripts / "demo.py"


async def on_a_terminal(script: Path, env: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of a script whose output is a terminal."""
    ours, theirs = os.openpty()
    printed = bytearray()
    closed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # what Linux says when the other end is closed
            piece = b""
        printed.extend(piece)
        if not piece:
            loop.remove_reader(ours)
            closed.set()

    process = await asyncio.create_subprocess_exec(
        sys.executable, script, stdout=theirs, stderr=theirs, env=env
    )
    os.close(theirs)
    loop.add_reader(ours, read)
    try:
        async with asyncio.timeout(60):
            code = await process.wait()
            await closed.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
        loop.remove_reader(ours)
        os.close(ours)
    return code, printed.decode()


async def test_demo_does_the_main_job_and_leaves_nothing_behind(tmp_path: Path) -> None:
    demo = await asyncio.create_subprocess_exec(
        sys.executable,
        ROOT / "scripts" / "demo.py",
        env=environment(tmp_path),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(90):
            output, _ = await demo.communicate()
    finally:
        if demo.returncode is None:
            demo.terminate()
            await demo.wait()
    printed = output.decode()

    assert demo.returncode == 0, printed
    assert max(map(len, printed.splitlines())) <= 100
    assert "\x1b" not in printed
    for shown in (
        "Using coffee.ipynb (6 cells)",
        "16 readings over 30 minutes",
        "image/png, ",
        "TypeError",
        "conflict",
        "Undone",
    ):
        assert shown in printed
    assert re.search(r": [\d,]+ characters read by the agent, [\d.]+ s", printed.splitlines()[-1])
    assert left_behind(tmp_path) == []


async def test_demo_fails_where_an_answer_is_not_what_it_should_be(tmp_path: Path) -> None:
    script = with_another_example(tmp_path)
    code, printed = await on_a_terminal(script, environment(tmp_path))
    assert code == 1
    assert "should say 'Using coffee.ipynb (6 cells)'" in printed
    assert "Traceback" not in printed
    assert "\x1b[" in printed
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
    ids=["terminal", "NO_COLOR", "dumb"],
)
def test_colours_are_for_terminals_that_have_them(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variables: dict[str, str],
    is_coloured: bool,
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.syspath_prepend(ROOT / "scripts")
    screen: Any = importlib.import_module("demo").Screen()
    screen.line("text", screen.BOLD)
    assert ("\x1b[" in capsys.readouterr().out) is is_coloured
