"""The queue of jupyter_server_nbmodel's ExecutionStack, which JupyterLab's server-side execution uses.

Code waits for its turn there and then runs over this server's own client: see ADR 8.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from tk_ai_extension.kernels.base import KernelEvent, KernelState

log = logging.getLogger(__name__)

IDLE_LIMIT = 0.5
"""Seconds for which the kernel may be idle while the stack has requests; then it is stuck."""

NEXT_STEP = 0.01
"""Seconds in which the stack notes the end of a request after the kernel is idle."""


def find_execution_stack(extension_manager: Any) -> Any:
    """Return a Jupyter Server's ExecutionStack, or None if jupyter_server_nbmodel is not enabled.

    Args:
        extension_manager: The server's extension manager, with its extensions loaded.
    """
    apps: Any = extension_manager.extension_apps.get("jupyter_server_nbmodel") or ()
    return next((getattr(app, "_Extension__execution_stack", None) for app in apps), None)


class StackQueue:
    """Waits until the requests are done that an ExecutionStack had before.

    Args:
        stack: The server's ExecutionStack.
        subscribe: `Kernels.subscribe`.
        state_of: Returns a kernel's present state.
    """

    def __init__(
        self,
        stack: Any,
        subscribe: Callable[[Callable[[KernelEvent], None]], Callable[[], None]],
        state_of: Callable[[str], KernelState],
    ) -> None:
        self._stack = stack
        self._subscribe = subscribe
        self._state_of = state_of

    async def turn(self, kernel_id: str) -> None:
        """Wait until the kernel has run what the stack had for it, or the stack is stuck."""
        ahead = self._pending(kernel_id)
        if not ahead:
            return
        changed = asyncio.Event()
        unsubscribe = self._subscribe(
            lambda event: changed.set() if event.kernel_id == kernel_id else None
        )
        try:
            while ahead := ahead & self._pending(kernel_id):
                changed.clear()
                idle = self._state_of(kernel_id) != "busy"
                try:
                    async with asyncio.timeout(IDLE_LIMIT if idle else None):
                        await changed.wait()
                except TimeoutError:
                    log.warning("The execution stack is stuck: not waiting for %s", ahead)
                    return
                await asyncio.sleep(NEXT_STEP)
        finally:
            unsubscribe()

    def _pending(self, kernel_id: str) -> set[str]:
        return {each["request_id"] for each in self._stack.pending(kernel_id)}
