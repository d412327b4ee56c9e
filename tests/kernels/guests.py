"""Clients of a kernel as other programs have them."""

from __future__ import annotations

import asyncio
import contextlib
import queue
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.session import Session

DEADLINE = 60.0


async def connect(info: Any, *, stdin: bool = True) -> Any:
    """A client of its own: with its own session, hence its own identity."""
    client = AsyncKernelClient(
        session=Session(key=info["key"], signature_scheme=info["signature_scheme"])
    )
    client.load_connection_info(info)
    client.start_channels(
        stdin=stdin, hb=False
    )  # it would call a kernel dead that takes its time to start
    asked = 0
    async with asyncio.timeout(DEADLINE):
        heard = False
        while not heard:
            # Until it is heard: no one tells when a subscription takes effect.
            client.kernel_info()
            asked += 1
            with contextlib.suppress(queue.Empty):
                await client.get_iopub_msg(timeout=0.2)
                heard = True
        for _ in range(asked):
            await client.get_shell_msg()
    return client


async def run(client: Any, code: str) -> str:
    """What code prints; the name of the error where there is one."""
    said: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        content = message["content"]
        said.append(content.get("text") or content.get("ename") or "")

    await client.execute_interactive(code, output_hook=hear, timeout=DEADLINE, allow_stdin=False)
    return "".join(said).strip()


async def until(client: Any, text: str) -> None:
    """Waits until something is printed on iopub."""
    async with asyncio.timeout(DEADLINE):
        while text not in (await client.get_iopub_msg())["content"].get("text", ""):
            pass
