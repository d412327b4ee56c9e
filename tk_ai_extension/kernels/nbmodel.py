"""jupyter_server_nbmodel's ExecutionStack, with what it lacks: events, and clients that end.

The stack is meant to be asked again and again how a request is doing. To be told instead, and to
give it a `GuardedClient`, its private parts are needed; they are looked at first, and where they
are not as they were in 0.2.9 the stack is not used.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast

from tk_ai_extension.kernels.guard import GuardedClient, Submission

log = logging.getLogger(__name__)

_RESULTS = "_ExecutionStack__execution_results"
_CLIENTS = "_ExecutionStack__kernel_clients"
_WORKERS = "_ExecutionStack__workers"
_LEFT_BEHIND = ("_ExecutionStack__execution_metadata", "_ExecutionStack__pending_inputs")
_NEW_CLIENT = "_get_local_client"

CANCEL_TIMEOUT = 3.0
"""Seconds in which the stack must let go of a kernel."""

Result = dict[str, Any]


def find_execution_stack(extension_manager: Any) -> Any:
    """The ExecutionStack of a Jupyter Server, or None where jupyter_server_nbmodel is not enabled.

    Args:
        extension_manager: The server's, with its extensions loaded.
    """
    apps: Any = extension_manager.extension_apps.get("jupyter_server_nbmodel") or ()
    return next((getattr(app, "_Extension__execution_stack", None) for app in apps), None)


def missing_parts(stack: Any) -> list[str]:
    """What an ExecutionStack does not have any more of what this module uses; empty if nothing."""
    missing = [
        name
        for name in (_RESULTS, _CLIENTS, _WORKERS)
        if not isinstance(getattr(stack, name, None), dict)
    ]
    if not callable(getattr(stack, _NEW_CLIENT, None)):
        missing.append(_NEW_CLIENT)
    return missing


class StackUnavailable(Exception):
    """The ExecutionStack is not one that this module knows."""


class GuardedStack:
    """An ExecutionStack that tells when a request has ended, and whose clients are guarded.

    Args:
        stack: The ExecutionStack of the server.
        new_client: Makes the client of a kernel.

    Raises:
        StackUnavailable: the stack's private parts are not as expected.
    """

    def __init__(self, stack: Any, new_client: Callable[[str], Any]) -> None:
        if missing := missing_parts(stack):
            raise StackUnavailable(f"jupyter_server_nbmodel lacks {', '.join(missing)}")
        found: list[Any] = [getattr(stack, name) for name in (_RESULTS, _CLIENTS, _WORKERS)]
        self._stack: Any = stack
        self._watched: dict[str, Callable[[Result], None]] = {}
        self._results = _Results(found[0], self._told)
        self._clients = cast("dict[str, Any]", found[1])
        self._workers = cast("dict[str, Any]", found[2])
        self._left_behind = [
            cast("dict[str, Any]", getattr(stack, name, {})) for name in _LEFT_BEHIND
        ]

        def get_client(kernel_id: str) -> Any:
            if kernel_id not in self._clients:
                self._clients[kernel_id] = new_client(kernel_id)
            return self._clients[kernel_id]

        setattr(stack, _RESULTS, self._results)
        setattr(stack, _NEW_CLIENT, get_client)

    async def prepare(self, kernel_id: str) -> bool:
        """Makes sure that the stack works for a kernel with our client; False where it cannot.

        It cannot while it runs something that was asked of it before we were there.
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
        await self.heal(kernel_id)
        self._results[kernel_id] = self._results.get(kernel_id, {})
        return True

    def put(self, kernel_id: str, code: Submission, on_end: Callable[[Result], None]) -> None:
        """Hands in a request; ``on_end`` is called once, with the stack's result."""
        uid = self._stack.put(kernel_id, code)

        def told(result: Result) -> None:
            if result.get("pending") is not True:
                del self._watched[uid]
                # A result that nobody fetches stays for ever; it is not there yet at this moment.
                asyncio.get_running_loop().call_soon(self._stack.get, kernel_id, uid)
                on_end(result)

        self._watched[uid] = told

    async def heal(self, kernel_id: str) -> None:
        """Drops what the stack keeps of a kernel, so that the next request begins afresh."""
        if kernel_id not in self._workers and kernel_id not in self._clients:
            return
        log.info("The execution stack starts afresh for kernel %s", kernel_id)
        # Cancelling raises CancelledError, which in a task of its own is not taken for ours.
        task = asyncio.ensure_future(self._stack.cancel(kernel_id, CANCEL_TIMEOUT))
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("The execution stack did not let go of kernel %s: %s", kernel_id, error)

    async def forget(self, kernel_id: str) -> None:
        """Drops everything about a kernel that is gone."""
        await self.heal(kernel_id)
        for kept in (self._results, *self._left_behind):
            kept.pop(kernel_id, None)

    async def close(self) -> None:
        """Ends the stack's work with our clients, and leaves it as it was found."""
        for kernel_id in (*self._clients, *self._workers):
            await self.heal(kernel_id)
        setattr(self._stack, _RESULTS, {key: dict(each) for key, each in self._results.items()})
        delattr(self._stack, _NEW_CLIENT)

    def _told(self, uid: str, result: Result) -> None:
        watcher = self._watched.get(uid)
        if watcher is not None:
            watcher(result)


class _Results(dict[str, dict[str, Any]]):
    """The stack's results by kernel; those of a kernel that is new to it can be watched."""

    def __init__(
        self, results: dict[str, dict[str, Any]], on_result: Callable[[str, Result], None]
    ) -> None:
        super().__init__(results)
        self._on_result = on_result

    def __setitem__(self, kernel_id: str, results: dict[str, Any]) -> None:
        super().__setitem__(kernel_id, _KernelResults(results, self._on_result))


class _KernelResults(dict[str, Any]):
    """The stack's results of one kernel: tells of each that is set."""

    def __init__(self, results: dict[str, Any], on_result: Callable[[str, Result], None]) -> None:
        super().__init__(results)
        self._on_result = on_result

    def __setitem__(self, uid: str, result: Any) -> None:
        super().__setitem__(uid, result)
        if isinstance(result, dict):  # not so while it waits in the queue
            self._on_result(uid, cast("Result", result))
