"""Clients of a kernel as other programs have them."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import random
import socket
from pathlib import Path
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.connect import write_connection_file
from jupyter_client.session import Session

DEADLINE = 60.0
PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")


def write_connection(path: Path) -> dict[str, Any]:
    """Writes a connection file with a new key, as a program does that launches kernels; what is in it.

    Its ports are outside of the ephemeral range: hundreds of kernels start
    before a program listens there.
    """
    ports: set[int] = set()
    while len(ports) < len(PORTS):
        with contextlib.suppress(OSError), socket.socket() as tried:
            port = random.randrange(10_000, 32_000)
            tried.bind(("127.0.0.1", port))
            ports.add(port)
    key = Session().key
    given: Any = dict(zip(PORTS, ports, strict=True))
    info: Any = write_connection_file(str(path), key=key, ip="127.0.0.1", **given)[1]
    return {**info, "key": key}


async def connect(info: Any, *, stdin: bool = True) -> Any:
    """A separate client: with its own session, hence its own identity."""
    client = AsyncKernelClient(
        session=Session(key=info["key"], signature_scheme=info["signature_scheme"])
    )
    client.load_connection_info(info)
    # The heartbeat would report a slowly starting kernel as dead.
    client.start_channels(stdin=stdin, hb=False)
    asked = 0
    async with asyncio.timeout(DEADLINE):
        is_subscribed = False
        while not is_subscribed:
            # A subscription takes effect without notice (ZMQ slow joiner): ask until a message arrives.
            client.kernel_info()
            asked += 1
            with contextlib.suppress(queue.Empty):
                await client.get_iopub_msg(timeout=0.2)
                is_subscribed = True
        for _ in range(asked):
            await client.get_shell_msg()
    return client


async def run(client: Any, code: str) -> str:
    """What code prints; the name of the error where there is one."""
    texts: list[str] = []

    def receive(message: dict[str, Any]) -> None:
        content = message["content"]
        texts.append(content.get("text") or content.get("ename") or "")

    await client.execute_interactive(code, output_hook=receive, timeout=DEADLINE, allow_stdin=False)
    return "".join(texts).strip()


async def until(client: Any, text: str) -> None:
    """Waits until something is printed on iopub."""
    async with asyncio.timeout(DEADLINE):
        while text not in (await client.get_iopub_msg())["content"].get("text", ""):
            pass
