"""Server-side execution for JupyterLab (jupyter_server_nbmodel) over this server's own connections.

That package replaces JupyterLab's own executor in the page by requests to its ExecutionStack. The stack's
own client (0.2.9) does not reach a gateway, and sends code to a kernel that was restarted since it was
submitted.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tk_ai_extension.kernels.base_connection import (
    REPLY_IDLE_GAP,
    REPLY_IDLE_LIMIT,
    BaseKernelConnection,
    Ending,
    ReplyIdleWait,
)
from tk_ai_extension.model.executions import ExecutionRequest
from tk_ai_extension.model.json_values import Json

log = logging.getLogger(__name__)

Hook = Callable[[Json], None]


class KernelEnded(Exception):
    """The kernel ended during a request. Not a RuntimeError, which would stop the stack's worker."""


class KernelConnections(Protocol):
    """What the client needs from the service that owns the kernels."""

    async def connection(self, kernel_id: str) -> BaseKernelConnection:
        """Return an open connection to the kernel."""
        ...


class PageClient:
    """The stack's client for one kernel, with the part of `AsyncKernelClient` that the stack uses.

    Each execution ends, at the latest with the kernel or the connection. Code is sent to the incarnation
    of the kernel that the connection belongs to, or not at all.
    """

    allow_stdin = True
    _created_context = False  # the stack destroys contexts that a client has created

    def __init__(self, kernel_id: str, kernels: KernelConnections) -> None:
        self._kernel_id = kernel_id
        self._kernels = kernels
        self._asks: Callable[[str], None] | None = None
        self.shell_channel = self.stdin_channel = self

    async def wait_for_ready(self, timeout: float | None = None) -> None:
        """Do nothing: each execution waits for its connection itself."""

    def stop_channels(self) -> None:
        """Do nothing: the service owns the connection."""

    def msg_ready(self) -> bool:
        """Return whether the input request is obsolete: the code no longer waits for an answer."""
        return self._asks is None

    def input(self, value: str) -> None:
        """Send a person's answer to the input request."""
        if self._asks is not None:
            answer, self._asks = self._asks, None
            answer(value)

    async def execute_interactive(
        self, code: str, *, output_hook: Hook, stdin_hook: Hook | None = None, **_: Any
    ) -> Json:
        """Run code to its end and return the reply.

        Raises:
            KernelEnded: the kernel or the connection to it ended.
        """
        # No await between this one and the submission: the connection may end meanwhile.
        connection = await self._kernels.connection(self._kernel_id)

        def ask(question: Mapping[str, Any], answer: Callable[[str], None]) -> None:
            self._asks = answer
            prompt, password = str(question.get("prompt", "")), bool(question.get("password"))
            header = {"msg_type": "input_request", "date": dt.datetime.now(dt.UTC).isoformat()}
            if stdin_hook is not None:
                stdin_hook({"header": header, "content": {"prompt": prompt, "password": password}})

        execution = _Execution(output_hook, ask)
        content: Json = {
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
    """Listens to one request of a page."""

    def __init__(
        self, output: Hook, ask: Callable[[Mapping[str, Any], Callable[[str], None]], None]
    ) -> None:
        self._wait = ReplyIdleWait(self._stop_waiting, REPLY_IDLE_GAP, REPLY_IDLE_LIMIT)
        self._ran: Json = {"status": "ok"}  # the reply as far as outputs show it
        self.reply: asyncio.Future[Mapping[str, Any]]
        self.reply = asyncio.get_running_loop().create_future()
        self._output = output
        self._ask = ask
        self._content: Mapping[str, Any] | None = None
        self._idle = False

    def on_iopub(self, kind: str, content: Mapping[str, Any], missing: int | None) -> None:  # noqa: ARG002 - the protocol's
        """Pass an iopub message of this execution to the page."""
        self._wait.on_message()
        if kind != "status":
            if kind == "execute_input":
                self._ran["execution_count"] = content.get("execution_count")
            elif kind == "error":
                self._ran["status"] = "error"
            self._output({"header": {"msg_type": kind}, "content": dict(content), "metadata": {}})
        elif content.get("execution_state") == "idle":
            self._idle = True
            self._settle()

    def on_reply(self, content: Mapping[str, Any]) -> None:
        """Note the reply."""
        self._content = content
        self._settle()

    def on_input(self, content: Mapping[str, Any], answer: Callable[[str], None]) -> None:
        """Show the input request in the page."""
        self._ask(content, answer)

    def running_since(self, request: ExecutionRequest) -> None:
        """Return None: the code is a page's."""

    def on_interrupt(self) -> None:
        """Do nothing: the reply reports the interrupt."""

    def on_end(self, ending: Ending) -> None:
        """Fail: the kernel or the connection has ended."""
        self._wait.stop()
        if not self.reply.done():
            self.reply.set_exception(KernelEnded(ending.message))

    def _settle(self) -> None:
        if self._idle and self._content is not None:
            self._end()
        else:
            self._wait.start()

    def _stop_waiting(self) -> None:
        if self.reply.done():
            return
        missing = "reply" if self._content is None else "idle"
        log.warning(
            "A page's execution ends without the kernel's %s, which did not arrive", missing
        )
        self._end()

    def _end(self) -> None:
        self._wait.stop()
        if not self.reply.done():
            self.reply.set_result(self._ran if self._content is None else self._content)
