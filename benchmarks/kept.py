"""The floor: one kernel client of jupyter_client, kept open, and nothing around it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import zmq
import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.session import Session


class KeptClient:
    """An `AsyncKernelClient` with a session of its own, and no bound on what it receives.

    Args:
        info: Where the kernel listens, as `KernelManager.get_connection_info` or a connection file
            has it.
    """

    def __init__(self, info: Mapping[str, Any]) -> None:
        key = info["key"]
        self._context = zmq.asyncio.Context()
        # A flood would lose messages, and its end with them.
        self._context.setsockopt(zmq.RCVHWM, 0)
        self._client: Any = AsyncKernelClient(
            context=self._context,
            session=Session(
                key=key if isinstance(key, bytes) else key.encode(),
                signature_scheme=info["signature_scheme"],
            ),
        )
        known = (
            "transport",
            "ip",
            "shell_port",
            "iopub_port",
            "stdin_port",
            "control_port",
            "hb_port",
        )
        self._client.load_connection_info({name: info[name] for name in known})  # pyrefly: ignore[bad-argument-type]
        self._client.start_channels(stdin=False, hb=False)

    async def answered(self) -> None:
        """Asks for kernel_info and waits for the reply."""
        self._client.kernel_info()
        await self._client.get_shell_msg()

    async def ready(self) -> None:
        """Waits until the kernel has answered and iopub is subscribed."""
        while True:
            await self.answered()
            try:
                async with asyncio.timeout(0.2):
                    await self._client.get_iopub_msg()
            except TimeoutError:
                continue
            await self.drain()
            return

    async def execute(self, code: str) -> int:
        """Runs code until reply and idle; returns how many characters it printed."""
        request = self._client.execute(code)
        while (await self._client.get_shell_msg())["parent_header"].get("msg_id") != request:
            pass
        printed = 0
        while True:
            message = await self._client.get_iopub_msg()
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                printed += len(content["text"])
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return printed

    async def drain(self) -> None:
        """Drops messages of others' requests, until nothing more comes."""
        channel = self._client.iopub_channel
        while await channel.socket.poll(1):
            await channel.get_msg()

    def close(self) -> None:
        """Closes the sockets."""
        self._client.stop_channels()
        self._context.destroy(linger=0)


@asynccontextmanager
async def kept(info: Mapping[str, Any]) -> AsyncGenerator[KeptClient]:
    """A client of a running kernel, ready."""
    client = KeptClient(info)
    try:
        await client.ready()
        yield client
    finally:
        client.close()


@asynccontextmanager
async def kernel_alone() -> AsyncGenerator[KeptClient]:
    """A client of a kernel that nobody else listens to."""
    manager = AsyncKernelManager(kernel_name="python3")
    await manager.start_kernel()
    try:
        async with kept(manager.get_connection_info()) as client:
            yield client
    finally:
        await manager.shutdown_kernel(now=True)
