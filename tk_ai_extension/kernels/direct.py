"""The executor that submits code over this server's own kernel connections."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from tk_ai_extension.kernels.base_connection import BaseKernelConnection, ConnectionClosed
from tk_ai_extension.kernels.collector import MAX_OUTPUT_BYTES
from tk_ai_extension.kernels.execution_listener import KERNEL_TOO_FAST, ExecutionListener, Timeouts
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.errors import KernelBusy
from tk_ai_extension.model.executions import Execution, ExecutionEvent, ExecutionRequest
from tk_ai_extension.model.json_values import Json

log = logging.getLogger(__name__)

MAX_SUBMISSIONS = 50
"""How often a request is submitted if the kernel drops it because another client's request failed."""


class KernelAccess(Protocol):
    """What an executor needs from the service that owns the kernels."""

    async def connection(self, kernel_id: str) -> BaseKernelConnection:
        """Return an open connection to the kernel.

        Raises:
            KernelNotFound, KernelDied, KernelBusy.
        """
        ...

    def is_stopping(self, kernel_id: str) -> bool:
        """Return whether the kernel is being shut down or restarted."""
        ...

    async def interrupt(self, kernel_id: str, *, only: ExecutionRequest) -> None:
        """Interrupt the kernel if it runs this request."""
        ...


class DirectExecutor:
    """Executes code over the one connection that this server keeps for each kernel.

    Args:
        kernels: The service that owns the kernels.
        timeouts: How long to wait for messages that do not arrive.
        max_output_bytes: Limit of the outputs that are kept for one execution.
    """

    name = "direct"
    loss_reason = KERNEL_TOO_FAST

    def __init__(
        self,
        kernels: KernelAccess,
        *,
        timeouts: Timeouts | None = None,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
    ) -> None:
        self.kernels = kernels
        self._timeouts = timeouts
        self._max_output_bytes = max_output_bytes
        self._abandoned = BackgroundTasks(log)

    def new_run(self, kernel_id: str, request: ExecutionRequest, backend: str) -> ExecutionListener:
        """Return a listener for one request to one kernel."""
        return ExecutionListener(
            request,
            backend=backend,
            interrupt=lambda: self.kernels.interrupt(kernel_id, only=request),
            stopping=lambda: self.kernels.is_stopping(kernel_id),
            timeouts=self._timeouts,
            max_output_bytes=self._max_output_bytes,
            loss_reason=self.loss_reason,
        )

    async def execute(
        self, kernel_id: str, request: ExecutionRequest
    ) -> AsyncGenerator[ExecutionEvent]:
        """Run one request; see `kernels.base.Executor`."""
        for _ in range(MAX_SUBMISSIONS):
            connection = await self.kernels.connection(kernel_id)
            run = self.new_run(kernel_id, request, self.name)
            try:
                msg_id = connection.submit(execute_content(request), run)
            except ConnectionClosed:
                continue  # it closed just now, so the kernel received nothing
            log_start(kernel_id, self.name)
            try:
                async with aclosing(run.events()) as events:
                    async for event in events:
                        if isinstance(event, Execution):
                            log_end(kernel_id, event)
                        if not (isinstance(event, Execution) and run.aborted):
                            yield event
            finally:
                if run.done:
                    await _release(connection, msg_id, run)
                else:
                    self._await_in_background(connection, msg_id, run)
            if not run.aborted:
                return
        raise dropped_too_often()

    def _await_in_background(
        self, connection: BaseKernelConnection, msg_id: str, run: ExecutionListener
    ) -> None:
        """Keep listening to an abandoned execution until it ends: its timeout still applies."""

        async def until_end() -> None:
            await run.ended.wait()  # at the latest when the connection closes
            await _release(connection, msg_id, run)

        self._abandoned.spawn(until_end(), "Waiting for an abandoned execution")


def dropped_too_often() -> KernelBusy:
    """Return the error for a request that the kernel never ran."""
    return KernelBusy(
        f"The kernel dropped the request {MAX_SUBMISSIONS} times because other clients' code failed. "
        "It did not run.",
        hint="Call again.",
    )


async def _release(connection: BaseKernelConnection, msg_id: str, run: ExecutionListener) -> None:
    connection.forget(msg_id)
    await run.close()


def log_start(kernel_id: str, backend: str) -> None:
    """Log that code is submitted to a kernel."""
    log.info("Submitting execution request to kernel %s (backend %s)", kernel_id, backend)


def log_end(kernel_id: str, execution: Execution) -> None:
    """Log how an execution ended."""
    log.info(
        "Execution in kernel %s (backend %s) ended: %s after %.3f s",
        kernel_id,
        execution.backend,
        execution.status,
        execution.duration,
    )


def execute_content(request: ExecutionRequest) -> Json:
    """Return the content of the execute_request."""
    return {
        "code": request.code,
        "silent": request.silent,
        "store_history": not request.silent,
        "user_expressions": request.user_expressions,
        # Even if input() is refused: only an input_request has the prompt.
        "allow_stdin": not request.silent,
        # An error must not abort requests that other clients have queued in the kernel.
        "stop_on_error": False,
    }
