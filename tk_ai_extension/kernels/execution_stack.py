"""The queue of jupyter_server_nbmodel's ExecutionStack, which JupyterLab's server-side execution uses.

Code waits for its turn there and then runs over this server's client: see ADR 8.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from tk_ai_extension.kernels.kernel import Kernel

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


async def wait_for_turn(stack: Any, kernel: Kernel) -> None:
    """Wait until the kernel has run what an ExecutionStack had for it, or the stack is stuck."""
    ahead = _pending(stack, kernel.id)
    while ahead := ahead & _pending(stack, kernel.id):
        kernel.changed.clear()
        try:
            async with asyncio.timeout(None if kernel.state == "busy" else IDLE_LIMIT):
                await kernel.changed.wait()
        except TimeoutError:
            log.warning("The execution stack is stuck: not waiting for %s", ahead)
            return
        await asyncio.sleep(NEXT_STEP)


def _pending(stack: Any, kernel_id: str) -> set[str]:
    return {each["request_id"] for each in stack.pending(kernel_id)}
