"""`make demo`: what a person sees, and what is left when it has ended."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import psutil

from tests.proofs import ROOT


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    """A separate terminal, and a temporary folder."""
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
