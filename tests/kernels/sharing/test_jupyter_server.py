"""A real Jupyter Server, as JupyterLab talks to it, with a shared kernel."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest
from traitlets.config import Config

from tests.kernels.guests import DEADLINE, run
from tests.kernels.sharing.conftest import Owner

pytestmark = [pytest.mark.proves("nb:serve")]


@pytest.fixture
def jp_server_config(jp_server_config: Config) -> Config:
    # Else a server keeps the channels of a browser that has gone, even where its kernel is released
    # at the same moment: then nobody closes them.
    jp_server_config.MappingKernelManager.buffer_offline_messages = False
    return jp_server_config


async def _in_browser(jp_ws_fetch: Any, kernel_id: str, code: str) -> str:
    """What code prints, run over the WebSocket as JupyterLab does."""
    socket = await jp_ws_fetch("api", "kernels", kernel_id, "channels")
    header = {"msg_id": uuid4().hex, "msg_type": "execute_request", "version": "5.3"}
    header |= {"username": "", "session": uuid4().hex, "date": "2026-01-01T00:00:00Z"}
    content = {"code": code, "silent": False, "allow_stdin": False, "store_history": True}
    message = {"channel": "shell", "header": header, "parent_header": {}, "metadata": {}}
    await socket.write_message(json.dumps(message | {"content": content}))
    printed = ""
    async with asyncio.timeout(DEADLINE):
        while True:
            answer = json.loads(await socket.read_message())
            if answer["parent_header"].get("msg_id") != header["msg_id"]:
                continue
            printed += answer["content"].get("text", "")
            if answer["content"].get("execution_state") == "idle":
                break
    socket.close()
    async with asyncio.timeout(DEADLINE):
        while await socket.read_message() is not None:
            pass
    return printed.strip()


async def test_jupyterlab_works_in_the_shared_kernel_and_leaves_it_alive(
    owner: Owner, jp_fetch: Any, jp_ws_fetch: Any
) -> None:
    installed = owner.share()
    agent = await owner.client()
    await run(agent, "X = 42")
    specs = json.loads((await jp_fetch("api", "kernelspecs")).body)["kernelspecs"]
    assert specs[installed["kernelspec"]]["spec"]["display_name"].startswith(
        "Python (nb shared kernel): "
    )
    body = json.dumps({"name": installed["kernelspec"]})
    started = json.loads((await jp_fetch("api", "kernels", method="POST", body=body)).body)
    assert await _in_browser(jp_ws_fetch, started["id"], "print(X); Y = 43") == "42"
    assert await run(agent, "print(Y)") == "43"
    # "Restart kernel" attaches again: the variables are the agent's, too.
    await jp_fetch("api", "kernels", started["id"], "restart", method="POST", body="{}")
    assert await _in_browser(jp_ws_fetch, started["id"], "print(X)") == "42"
    await jp_fetch("api", "kernels", started["id"], method="DELETE")
    assert await run(agent, "print(X + Y)") == "85"
