"""The executor that submits through jupyter_server_nbmodel's ExecutionStack."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from tk_ai_extension.kernels.direct import (
    MAX_SUBMISSIONS,
    DirectExecutor,
    execute_content,
    log_end,
    log_start,
)
from tk_ai_extension.kernels.guard import Submission
from tk_ai_extension.kernels.nbmodel import GuardedStack, Result
from tk_ai_extension.kernels.run import Run
from tk_ai_extension.model.errors import KernelDied
from tk_ai_extension.model.executions import Execution, ExecutionEvent, ExecutionRequest

log = logging.getLogger(__name__)

_DROPPED = ("Execution cancelled", "Superseded")
"""How the stack's error begins for a request that it has thrown out of its queue."""


class StackExecutor:
    """Puts code into the queue that JupyterLab's server-side execution uses too.

    What fails before the kernel has got the code is run by the direct executor; what the stack
    drops because another's request failed is put in again.

    Args:
        stack: The ExecutionStack.
        direct: Takes over where the stack fails; it also makes the listeners.
    """

    name = "stack"

    def __init__(self, stack: GuardedStack, direct: DirectExecutor) -> None:
        self._stack = stack
        self._direct = direct

    async def execute(
        self, kernel_id: str, request: ExecutionRequest
    ) -> AsyncGenerator[ExecutionEvent]:
        """Runs one request; see `kernels.base.Executor`."""
        problem = "it is busy with what was asked of it before this extension was there"
        for _ in range(MAX_SUBMISSIONS):
            await self._direct.kernels.connection(kernel_id)
            if not await self._stack.prepare(kernel_id):
                break
            run = self._direct.new_run(kernel_id, request, self.name)
            submission = Submission.of(run, execute_content(request))
            attempt = _Attempt(run, submission)
            log_start(kernel_id, self.name)
            self._stack.put(kernel_id, submission, attempt.ended)
            async with aclosing(run.events()) as events:
                async for event in events:
                    if run.aborted and isinstance(event, Execution):
                        continue
                    if isinstance(event, Execution):
                        log_end(kernel_id, event)
                    yield event
            if not run.aborted:
                return
            if attempt.problem:
                problem = attempt.problem
                break
        else:
            raise KernelDied(f"The request was dropped {MAX_SUBMISSIONS} times.")
        log.warning("The execution stack cannot serve kernel %s (%s): direct", kernel_id, problem)
        async with aclosing(self._direct.execute(kernel_id, request)) as events:
            async for event in events:
                yield event


class _Attempt:
    """One passage of a request through the stack."""

    def __init__(self, run: Run, submission: Submission) -> None:
        self.problem = ""
        self._run = run
        self._submission = submission

    def ended(self, result: Result) -> None:
        """The stack has done with it: if the kernel never got the code, nothing else ends it."""
        if self._run.done or self._submission.sent:
            return
        error = str(result.get("error") or "it gave no result")
        if not error.startswith(_DROPPED):
            self.problem = error
        self._run.drop(error)
