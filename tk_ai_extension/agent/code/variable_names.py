"""Names and types of the variables of notebooks' kernels, for completions.

A kernel is asked only after something ran in it, and never while it is busy; until then the last
answer counts. Values are not asked for: they may be secret, and types are what completion needs.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from tk_ai_extension.kernels.base import KernelEvent
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.default.variables import query_kernel
from tk_ai_extension.tools.registry import ToolContext
from tk_ai_extension.workspace.workspace import Workspace

logger = logging.getLogger(__name__)

MAX_TEXT: Final = 4_000
"""Maximum length of the names and types of a kernel, in characters."""


class VariableNames:
    """The variables of kernels as text, one `name: type shape` a line.

    Args:
        workspace: Finds the kernel of a notebook.
        user: The user in whose name kernels are asked.
    """

    def __init__(self, workspace: Workspace, user: str) -> None:
        self._workspace = workspace
        self._caller = Caller(user, interface="rest")
        self._known: dict[str, str] = {}
        # The request to each kernel since code last ran in it.
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._tasks = BackgroundTasks(logger)
        self._unsubscribe = workspace.kernels.subscribe(self._on_event)

    async def of(self, notebook: str, within: float) -> str:
        """Return the variables of a notebook's kernel; empty if they are not known yet.

        Args:
            notebook: The notebook's path.
            within: Seconds to wait for the kernel; a later answer is for the next request.

        Raises:
            PathRefused, InvalidArguments: The path is none of a notebook in the root.
        """
        path = self._workspace.contain(notebook)
        kernel_id = await self._workspace.kernel_of(path)
        if kernel_id is None:
            return ""
        if kernel_id not in self._asked:
            self._asked[kernel_id] = self._tasks.spawn(
                self._ask(kernel_id, path), f"Listing the variables of {path}"
            )
        await asyncio.wait([self._asked[kernel_id]], timeout=within)
        return self._known.get(kernel_id, "")

    async def close(self) -> None:
        """Stop asking kernels."""
        self._unsubscribe()
        await self._tasks.close()

    async def _ask(self, kernel_id: str, path: str) -> None:
        try:
            context = ToolContext(self._workspace, self._caller)
            call = {"query": "list", "pattern": None}
            found = await query_kernel(context, path, call, tool="code completion")
            self._known[kernel_id] = _listed(found["variables"])
        except ToolError as error:
            # Busy, or not Python: the last answer counts, and the next request asks again.
            self._asked.pop(kernel_id, None)
            logger.debug("No variables of %s: %s", path, error.message)

    def _on_event(self, event: KernelEvent) -> None:
        if event.kind in ("ran", "restarted", "died", "shutdown"):
            self._asked.pop(event.kernel_id, None)
        if event.kind in ("restarted", "died", "shutdown"):
            self._known.pop(event.kernel_id, None)


def _listed(variables: list[dict[str, Any]]) -> str:
    lines = [
        f"{each['name']}: {each['type']}" + (f" {each['shape']}" if each["shape"] else "")
        for each in variables
    ]
    text = "\n".join(lines)
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT].rpartition("\n")[0]
