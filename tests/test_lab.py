"""`make lab`: what a person sees, and what is left when they stop it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path

import psutil
import pytest
from tornado.httpclient import AsyncHTTPClient

from tests.proofs import ROOT


async def test_lab_says_how_to_connect_and_leaves_nothing_behind(tmp_path: Path) -> None:
    root = tmp_path / "playground"
    lab = await asyncio.create_subprocess_exec(
        sys.executable,
        ROOT / "scripts" / "lab.py",
        "--root",
        root,
        env={
            **{name: value for name, value in os.environ.items() if "DISPLAY" not in name},
            "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
            "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
            "JUPYTER_DATA_DIR": str(tmp_path / "data"),
        },
        stdout=asyncio.subprocess.PIPE,
    )
    assert lab.stdout is not None
    try:
        async with asyncio.timeout(60):
            said = (await lab.stdout.readuntil(b"Ctrl-C stops")).decode()
        children = psutil.Process(lab.pid).children(recursive=True)
        assert children != []
        assert (root / "coffee.ipynb").is_file()

        address = re.search(r"http://\S+/lab/tree/coffee\.ipynb\?token=(\w+)", said)
        mcp = re.search(r"MCP\s+(http://\S+/api/tk-ai/mcp)\n", said)
        assert address
        assert mcp
        assert f"claude mcp add --transport http tk-ai {mcp[1]} --header " in said

        answer = await AsyncHTTPClient().fetch(
            mcp[1].replace("/mcp", "/health"), headers={"Authorization": f"Bearer {address[1]}"}
        )
        assert json.loads(answer.body)["version"]

        lab.send_signal(signal.SIGINT)
        async with asyncio.timeout(15):
            assert await lab.wait() == 0
        assert [child for child in children if child.is_running()] == []
    finally:
        if lab.returncode is None:
            lab.terminate()
            await lab.wait()


@pytest.mark.parametrize("port", ["not-a-port", "70000"])
async def test_lab_refuses_a_port_that_is_none(tmp_path: Path, port: str) -> None:
    lab = await asyncio.create_subprocess_exec(
        sys.executable,
        ROOT / "scripts" / "lab.py",
        *("--root", tmp_path, "--port", port),
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        _, error = await lab.communicate()
    assert lab.returncode == 2
    assert b"--port" in error
