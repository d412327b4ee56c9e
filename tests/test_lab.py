"""`make lab`: what a person sees, and what is left when they stop it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import sys
from pathlib import Path

import psutil
from tornado.httpclient import AsyncHTTPClient

from tests.proofs import ROOT
from tk_ai_extension.agent.tour_agent import read_script


async def test_lab_says_how_to_connect_and_leaves_nothing_behind(tmp_path: Path) -> None:
    root = tmp_path / "playground"
    lab = await asyncio.create_subprocess_exec(
        sys.executable,
        ROOT / "scripts" / "lab.py",
        "--root",
        root,
        env={
            # Nobody looks, and no model is connected.
            **{
                name: value
                for name, value in os.environ.items()
                if "DISPLAY" not in name and not name.startswith(("ANTHROPIC_", "CLAUDE_"))
            },
            "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
            "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
            "JUPYTER_DATA_DIR": str(tmp_path / "data"),
        },
        stdout=asyncio.subprocess.PIPE,
    )
    assert lab.stdout is not None
    try:
        async with asyncio.timeout(60):
            printed = (await lab.stdout.readuntil(b"Ctrl-C stops")).decode()
        children = psutil.Process(lab.pid).children(recursive=True)
        assert children != []
        assert (root / "coffee.ipynb").is_file()

        address = re.search(r"http://\S+/lab/tree/coffee\.ipynb\?token=(\w+)", printed)
        mcp = re.search(r"MCP\s+(http://\S+/api/tk-ai/mcp)\n", printed)
        assert address
        assert mcp
        assert f"claude mcp add --transport http tk-ai {mcp[1]} --header " in printed

        answer = await AsyncHTTPClient().fetch(
            mcp[1].replace("/mcp", "/health"), headers={"Authorization": f"Bearer {address[1]}"}
        )
        assert json.loads(answer.body)["version"]
        await check_chat(printed)

        children = psutil.Process(lab.pid).children(recursive=True)
        lab.send_signal(signal.SIGINT)
        async with asyncio.timeout(15):
            assert await lab.wait() == 0
        assert [child for child in children if child.is_running()] == []
    finally:
        if lab.returncode is None:
            lab.terminate()
            await lab.wait()


async def check_chat(printed: str) -> None:
    """The command that is printed for the chat brings the tour, in the example."""
    line = next(line for line in printed.splitlines() if line.startswith("  Chat"))
    _, curl, url, _, first, _, second, _, body = shlex.split(line)
    assert curl == "curl"
    headers = dict(header.split(": ", 1) for header in (first, second))
    response = await AsyncHTTPClient().fetch(
        url, method="POST", headers=headers, body=body, request_timeout=60
    )
    answer = json.loads(response.body)
    assert answer["end"] == "done"
    assert answer["text"] == read_script()["end"]
    assert [(call["tool"], call["ok"]) for call in answer["calls"]] == [
        *(("read_notebook", True), ("insert_cell", True)),
        *(("insert_and_execute_cell", True),) * 2,
        *(("insert_and_execute_cell", False), ("overwrite_cell", True), ("execute_cell", True)),
    ]
    # In the live document: the file follows a moment later.
    read = await AsyncHTTPClient().fetch(
        url.replace("mcp/chat", "tools/read_notebook"),
        method="POST",
        headers=headers,
        body=json.dumps({"notebook": "coffee.ipynb", "view": "reading"}),
    )
    text = json.loads(read.body)["text"]
    assert text.index("A cup of coffee cools") < text.rindex("°C in 30 minutes")
