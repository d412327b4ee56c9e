"""The executor that submits through jupyter_server_nbmodel's ExecutionStack.

The stack has no completion event and waits forever for a kernel that is killed or restarted during a
cell; its client loses the end of a flood, drops display updates, and stores every output twice.
`GuardedStack` adds events and gives the stack a `GuardedClient`, whose waits always end. It needs
private attributes: if they differ from version 0.2.9, the stack is not used.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, cast

from tk_ai_extension.kernels.direct import (
    MAX_SUBMISSIONS,
    DirectExecutor,
    dropped_too_often,
    execute_content,
    log_end,
    log_start,
)
from tk_ai_extension.kernels.execution_listener import ExecutionListener
from tk_ai_extension.kernels.pages import Hook, PageClient
from tk_ai_extension.model.executions import Execution, ExecutionEvent, ExecutionRequest
from tk_ai_extension.model.json_values import Json


class Submission(str):
    """Code of this extension in the stack's queue; the stack passes the same object to its client.

    Attributes:
        run: Listens to the execution.
        content: The execute_request's content.
        sent: Whether it was sent to the kernel.
    """

    __slots__ = ("content", "run", "sent")

    run: ExecutionListener
    content: Mapping[str, Any]
    sent: bool

    @classmethod
    def of(cls, run: ExecutionListener, content: Mapping[str, Any]) -> Submission:
        """Return the code of a request, with what is needed to run it."""
        submission = cls(content["code"])
        submission.run = run
        submission.content = content
        submission.sent = False
        return submission


class GuardedClient(PageClient):
    """The stack's client for one kernel, to which this extension submits code, too.

    A `Submission` goes to its own listener; other code (JupyterLab's extension) runs as in `PageClient`.
    """

    async def execute_interactive(
        self, code: str, *, output_hook: Hook, stdin_hook: Hook | None = None, **_: Any
    ) -> Json:
        """Run code to its end; see `PageClient.execute_interactive`."""
        if not isinstance(code, Submission):
            return await super().execute_interactive(
                code, output_hook=output_hook, stdin_hook=stdin_hook
            )
        connection = await self._kernels.connection(self._kernel_id)
        msg_id = connection.submit(code.content, code.run)
        code.sent = True
        try:
            await code.run.ended.wait()
        finally:
            connection.forget(msg_id)
            await code.run.close()
        # Never "error": the stack would drop the requests that all other clients have queued.
        return {"content": {"status": "ok" if code.run.status == "ok" else "failed"}}


log = logging.getLogger(__name__)

_RESULTS = "_ExecutionStack__execution_results"
_CLIENTS = "_ExecutionStack__kernel_clients"
_WORKERS = "_ExecutionStack__workers"
_LEFT_BEHIND = ("_ExecutionStack__execution_metadata", "_ExecutionStack__pending_inputs")
_NEW_CLIENT = "_get_local_client"

CANCEL_TIMEOUT = 3.0
"""Seconds in which the stack must cancel its work for a kernel."""

Result = Json


def find_execution_stack(extension_manager: Any) -> Any:
    """Return a Jupyter Server's ExecutionStack, or None if jupyter_server_nbmodel is not enabled.

    Args:
        extension_manager: The server's extension manager, with its extensions loaded.
    """
    apps: Any = extension_manager.extension_apps.get("jupyter_server_nbmodel") or ()
    return next((getattr(app, "_Extension__execution_stack", None) for app in apps), None)


def missing_parts(stack: Any) -> list[str]:
    """Return the private attributes that this module uses and an ExecutionStack lacks."""
    missing = [
        name
        for name in (_RESULTS, _CLIENTS, _WORKERS)
        if not isinstance(getattr(stack, name, None), dict)
    ]
    if not callable(getattr(stack, _NEW_CLIENT, None)):
        missing.append(_NEW_CLIENT)
    return missing


class StackUnavailable(Exception):
    """The ExecutionStack's private attributes are not the known ones."""


class GuardedStack:
    """Wraps an ExecutionStack: adds completion events and gives it guarded clients.

    Args:
        stack: The server's ExecutionStack.
        new_client: Makes the client for a kernel id.

    Raises:
        StackUnavailable: the stack's private attributes are not the known ones.
    """

    def __init__(self, stack: Any, new_client: Callable[[str], Any]) -> None:
        if missing := missing_parts(stack):
            raise StackUnavailable(f"jupyter_server_nbmodel lacks {', '.join(missing)}")
        found: list[Any] = [getattr(stack, name) for name in (_RESULTS, _CLIENTS, _WORKERS)]
        self._stack: Any = stack
        self._watched: dict[str, Callable[[Result], None]] = {}
        self._results = _Results(found[0], self._on_result)
        self._clients = cast("Json", found[1])
        self._workers = cast("Json", found[2])
        self._left_behind = [cast("Json", getattr(stack, name, {})) for name in _LEFT_BEHIND]

        def get_client(kernel_id: str) -> Any:
            if kernel_id not in self._clients:
                self._clients[kernel_id] = new_client(kernel_id)
            return self._clients[kernel_id]

        setattr(stack, _RESULTS, self._results)
        setattr(stack, _NEW_CLIENT, get_client)

    async def prepare(self, kernel_id: str) -> bool:
        """Ensure that the stack uses a guarded client for a kernel; return False if it cannot yet.

        It cannot while it runs a request from before this extension wrapped it.
        """
        client = self._clients.get(kernel_id)
        worker = self._workers.get(kernel_id)
        fresh = kernel_id not in self._results or isinstance(
            self._results[kernel_id], _KernelResults
        )
        ours = client is None or isinstance(client, GuardedClient)
        if fresh and ours and not (worker is not None and worker.done()):
            return True
        if not fresh and self._stack.pending(kernel_id):
            return False
        await self.reset_kernel(kernel_id)
        self._results[kernel_id] = self._results.get(kernel_id, {})
        return True

    def put(self, kernel_id: str, code: Submission, on_end: Callable[[Result], None]) -> None:
        """Submit a request; call ``on_end`` once, with the stack's result."""
        uid = self._stack.put(kernel_id, code)

        def on_result(result: Result) -> None:
            if result.get("pending") is not True:
                del self._watched[uid]
                # Fetch the result, or the stack keeps it forever; it is stored after this call.
                asyncio.get_running_loop().call_soon(self._stack.get, kernel_id, uid)
                on_end(result)

        self._watched[uid] = on_result

    async def reset_kernel(self, kernel_id: str) -> None:
        """Drop the stack's worker and client of a kernel; the next request creates new ones."""
        if kernel_id not in self._workers and kernel_id not in self._clients:
            return
        log.info("Resetting the execution stack for kernel %s", kernel_id)
        # In a task of its own: the stack's CancelledError must not cancel the caller.
        task = asyncio.ensure_future(self._stack.cancel(kernel_id, CANCEL_TIMEOUT))
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("The execution stack did not cancel kernel %s: %s", kernel_id, error)

    async def forget(self, kernel_id: str) -> None:
        """Drop everything about a kernel that has ended."""
        await self.reset_kernel(kernel_id)
        for kept in (self._results, *self._left_behind):
            kept.pop(kernel_id, None)

    async def close(self) -> None:
        """End the stack's work with guarded clients and restore its attributes."""
        for kernel_id in (*self._clients, *self._workers):
            await self.reset_kernel(kernel_id)
        setattr(self._stack, _RESULTS, {key: dict(each) for key, each in self._results.items()})
        delattr(self._stack, _NEW_CLIENT)

    def _on_result(self, uid: str, result: Result) -> None:
        watcher = self._watched.get(uid)
        if watcher is not None:
            watcher(result)


class _Results(dict[str, Json]):
    """The stack's results by kernel; wraps those of kernels that are added."""

    def __init__(self, results: dict[str, Json], on_result: Callable[[str, Result], None]) -> None:
        super().__init__(results)
        self._on_result = on_result

    def __setitem__(self, kernel_id: str, results: Json) -> None:
        super().__setitem__(kernel_id, _KernelResults(results, self._on_result))


class _KernelResults(Json):
    """The stack's results of one kernel; calls ``on_result`` for each that is set."""

    def __init__(self, results: Json, on_result: Callable[[str, Result], None]) -> None:
        super().__init__(results)
        self._on_result = on_result

    def __setitem__(self, uid: str, result: Any) -> None:
        super().__setitem__(uid, result)
        if isinstance(result, dict):  # it is None while the request is queued
            self._on_result(uid, cast("Result", result))


_DROPPED = ("Execution cancelled", "Superseded")
"""Prefixes of the stack's error for a request that it dropped from its queue."""


class StackExecutor:
    """Submits code to the queue that JupyterLab's server-side execution also uses.

    If the stack fails before the kernel has the code, the direct executor runs it. If the stack drops a
    request because another client's request failed, it is submitted again.

    Args:
        stack: The ExecutionStack.
        direct: The fallback; it also creates the listeners.
    """

    name = "stack"

    def __init__(self, stack: GuardedStack, direct: DirectExecutor) -> None:
        self._stack = stack
        self._direct = direct

    async def execute(
        self, kernel_id: str, request: ExecutionRequest
    ) -> AsyncGenerator[ExecutionEvent]:
        """Run one request; see `kernels.base.Executor`."""
        problem = "it is busy with requests from before this extension started"
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
            raise dropped_too_often()
        log.warning(
            "The execution stack cannot serve kernel %s, using the direct executor: %s",
            kernel_id,
            problem,
        )
        async with aclosing(self._direct.execute(kernel_id, request)) as events:
            async for event in events:
                yield event


class _Attempt:
    """One submission of a request to the stack."""

    def __init__(self, run: ExecutionListener, submission: Submission) -> None:
        self.problem = ""
        self._run = run
        self._submission = submission

    def ended(self, result: Result) -> None:
        """Handle the stack's result; end the run here if the kernel never received the code."""
        if self._run.done or self._submission.sent:
            return
        error = str(result.get("error") or "no result")
        if not error.startswith(_DROPPED):
            self.problem = error
        self._run.drop(error)
