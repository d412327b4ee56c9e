"""What JupyterLab has the server execute (jupyter_server_nbmodel), in kernels behind a gateway.

That package takes the place of JupyterLab's own executor in the page, and asks its ExecutionStack. The
stack has no client that reaches a gateway (0.2.9): without this one a person's cells would fail there.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tk_ai_extension.kernels.conversation import Conversation, Ending
from tk_ai_extension.kernels.guard import KernelGone

Hook = Callable[[dict[str, Any]], None]

SECOND_HALF = 5.0
"""Seconds to wait for idle after the reply."""


class Connections(Protocol):
    """What is needed of the service that knows the kernels."""

    async def connection(self, kernel_id: str) -> Conversation:
        """An open connection to the kernel."""
        ...


class PageClient:
    """The stack's client for one kernel: as much of an `AsyncKernelClient` as the stack uses.

    Each execution ends: with the kernel or the connection at the latest.
    """

    allow_stdin = True
    _created_context = False  # the stack destroys those that a client has made

    def __init__(self, kernel_id: str, kernels: Connections) -> None:
        self._kernel_id = kernel_id
        self._kernels = kernels
        self._asks: Callable[[str], None] | None = None
        self.shell_channel = self.stdin_channel = self

    async def wait_for_ready(self, timeout: float | None = None) -> None:
        """Nothing: each execution finds out by itself, over the connection that is kept."""

    def stop_channels(self) -> None:
        """Nothing: the connection is not this client's."""

    def msg_ready(self) -> bool:
        """Whether something came that makes an answer needless: nobody asks any more."""
        return self._asks is None

    def input(self, value: str) -> None:
        """A person's answer to the code's question."""
        if self._asks is not None:
            answer, self._asks = self._asks, None
            answer(value)

    async def execute_interactive(
        self, code: str, *, output_hook: Hook, stdin_hook: Hook | None = None, **_: Any
    ) -> dict[str, Any]:
        """Runs code to its end; the reply.

        Raises:
            KernelGone: the kernel, or the connection to it, ended.
        """
        connection = await self._kernels.connection(self._kernel_id)

        def ask(prompt: str, answer: Callable[[str], None]) -> None:
            self._asks = answer
            header = {"msg_type": "input_request", "date": dt.datetime.now(dt.UTC).isoformat()}
            if stdin_hook is not None:
                stdin_hook({"header": header, "content": {"prompt": prompt, "password": False}})

        execution = _Execution(output_hook, ask)
        content: dict[str, Any] = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": stdin_hook is not None,
            "stop_on_error": True,
        }
        msg_id = connection.submit(content, execution, ours=False)
        try:
            return {"content": await execution.reply}
        finally:
            self._asks = None
            connection.forget(msg_id)


class _Execution:
    """Listens to one request of a page's."""

    def __init__(self, output: Hook, ask: Callable[[str, Callable[[str], None]], None]) -> None:
        self.reply: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._output = output
        self._ask = ask
        self._content: Mapping[str, Any] | None = None
        self._idle = False

    def on_iopub(self, kind: str, content: Mapping[str, Any], unheard: int | None) -> None:  # noqa: ARG002 - the protocol's
        """A message of this execution."""
        if kind != "status":
            self._output({"header": {"msg_type": kind}, "content": dict(content), "metadata": {}})
        elif content.get("execution_state") == "idle":
            self._idle = True
            self._settle()

    def on_reply(self, content: Mapping[str, Any]) -> None:
        """The reply to it."""
        self._content = content
        self._settle()
        self.reply.get_loop().call_later(SECOND_HALF, self._end)

    def on_input(self, prompt: str, answer: Callable[[str], None]) -> None:
        """The code asks for input: the page shows the question."""
        self._ask(prompt, answer)

    def on_interrupt(self) -> None:
        """What it says to that is in its reply."""

    def on_end(self, ending: Ending) -> None:
        """The kernel or the connection has ended."""
        if not self.reply.done():
            self.reply.set_exception(KernelGone(ending.message))

    def _settle(self) -> None:
        if self._idle:
            self._end()

    def _end(self) -> None:
        if self._content is not None and not self.reply.done():
            self.reply.set_result(self._content)
