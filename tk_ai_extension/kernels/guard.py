"""The guard around jupyter_server_nbmodel's ExecutionStack: the kernel client that it works with.

The stack asks its client to ``execute_interactive`` and waits, for ever if it must: its own client
never hears that a kernel was killed or restarted under a cell, loses the end of a flood, drops
display updates, and keeps every output a second time. With this client each wait ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

import zmq
import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.session import Session

from tk_ai_extension.kernels.connection import KernelConnection
from tk_ai_extension.kernels.run import Run


class KernelGone(Exception):
    """The kernel ended under a request. Not a RuntimeError: the stack would stop working at one."""


class Submission(str):
    """Our code on its way through the stack, which hands on the very object that it was given.

    Attributes:
        run: Listens to the execution.
        content: The execute_request.
    """

    __slots__ = ("content", "run", "sent")

    run: Run
    content: Mapping[str, Any]
    sent: bool

    @classmethod
    def of(cls, run: Run, content: Mapping[str, Any]) -> Submission:
        """Code with what is needed to run it."""
        submission = cls(content["code"])
        submission.run = run
        submission.content = content
        submission.sent = False
        return submission


class Connections(Protocol):
    """What the guard needs of the service that owns the kernels."""

    async def connection(self, kernel_id: str) -> KernelConnection:
        """An open connection to the kernel."""
        ...

    def connection_info(self, kernel_id: str) -> dict[str, Any]:
        """Where the kernel listens now."""
        ...


class GuardedClient(AsyncKernelClient):
    """The stack's client for one kernel.

    What we submit goes over our own connection, and its outputs to our own collector. What others
    submit (JupyterLab's extension) goes the stack's usual way, over sockets that drop nothing, and
    ends when the kernel does.
    """

    def __init__(self, kernel_id: str, kernels: Connections) -> None:
        super().__init__()
        self._kernel_id = kernel_id
        self._kernels = kernels
        self._connected_to: KernelConnection | None = None

    def _context_default(self) -> zmq.asyncio.Context:
        context = super()._context_default()
        context.setsockopt(zmq.RCVHWM, 0)
        return context

    async def wait_for_ready(self, timeout: float | None = None) -> None:
        """Nothing: each execution finds out by itself, over the connection that is kept."""

    async def execute_interactive(self, code: str, **options: Any) -> dict[str, Any]:
        """Runs code to its end, which always comes.

        Raises:
            KernelGone: somebody else's code, and the kernel ended.
        """
        connection = await self._kernels.connection(self._kernel_id)
        if isinstance(code, Submission):
            return await self._execute_ours(connection, code)
        return await self._execute_others(connection, code, options)

    async def _execute_ours(self, connection: KernelConnection, code: Submission) -> dict[str, Any]:
        msg_id = connection.submit(code.content, code.run)
        code.sent = True
        try:
            await code.run.ended.wait()
        finally:
            connection.forget(msg_id)
            await code.run.close()
        # Never "error": at that word the stack drops what everybody else has queued.
        return {"content": {"status": "ok" if code.run.status == "ok" else "failed"}}

    async def _execute_others(
        self, connection: KernelConnection, code: str, options: dict[str, Any]
    ) -> dict[str, Any]:
        if self._connected_to is not connection:
            self._reconnect()
            await super().wait_for_ready()
            self._connected_to = connection
        usual: Any = super()
        execution = asyncio.ensure_future(usual.execute_interactive(code, **options))
        kernel_end = asyncio.ensure_future(connection.ended.wait())
        try:
            await asyncio.wait({execution, kernel_end}, return_when=asyncio.FIRST_COMPLETED)
            if execution.done():
                return execution.result()
        finally:
            execution.cancel()
            kernel_end.cancel()
        ending = connection.ending
        raise KernelGone(ending.message if ending else "The kernel is gone.")

    def _reconnect(self) -> None:
        """Makes new sockets: the kernel was restarted since, perhaps on other ports."""
        self.stop_channels()
        self._shell_channel = self._iopub_channel = self._stdin_channel = None
        self._hb_channel = self._control_channel = None
        info = self._kernels.connection_info(self._kernel_id)
        self.session = Session(key=info["key"], signature_scheme=info["signature_scheme"])
        for name, value in info.items():
            if name.endswith("_port") or name in {"ip", "transport"}:
                setattr(self, name, value)
