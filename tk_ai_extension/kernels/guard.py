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
from tk_ai_extension.kernels.sockets import MAX_RECEIVED


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


class GuardedClient:
    """The stack's client for one kernel: as much of an `AsyncKernelClient` as the stack uses.

    What we submit goes over our own connection, and its outputs to our own collector. What others
    submit (JupyterLab's extension) goes the stack's usual way, over sockets that hold a flood
    (`MAX_RECEIVED`), and ends when the kernel does.
    """

    allow_stdin = True
    _created_context = False  # the stack destroys those that a client has made

    def __init__(self, kernel_id: str, kernels: Connections) -> None:
        self._kernel_id = kernel_id
        self._kernels = kernels
        self._usual: AsyncKernelClient | None = None
        self._usual_for: KernelConnection | None = None

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

    def stop_channels(self) -> None:
        """Closes the sockets for what others submit."""
        if self._usual is not None:
            self._usual.stop_channels()
            self._usual.context.destroy(linger=0)
            self._usual = self._usual_for = None

    def __getattr__(self, name: str) -> Any:
        """What answers a question for input (``input``, the channels), for others' code."""
        if self._usual is None:
            raise AttributeError(f"nothing was executed that could ask for {name}")
        return getattr(self._usual, name)

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
        if self._usual is None or self._usual_for is not connection:
            # The kernel was restarted since, perhaps on other ports.
            self.stop_channels()
            self._usual = usual = self._new_client()
            self._usual_for = connection
            await usual.wait_for_ready()
        client: Any = self._usual
        execution = asyncio.ensure_future(client.execute_interactive(code, **options))
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

    def _new_client(self) -> AsyncKernelClient:
        context = zmq.asyncio.Context()
        context.setsockopt(zmq.RCVHWM, MAX_RECEIVED)
        client: Any = AsyncKernelClient(context=context, session=Session())
        client.load_connection_info(self._kernels.connection_info(self._kernel_id))
        return client
