"""What anybody on this server has had the gateway do to a kernel: some kernels say nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"


class KernelActions:
    """Listens to the events that jupyter_server's kernel managers emit.

    Args:
        carried_out: Told the kernel's id and what was done: ``restart``, ``shutdown``.
    """

    def __init__(self, carried_out: Callable[[str, str], None]) -> None:
        self._carried_out = carried_out
        self._loggers: list[Any] = []

    def follow(self, event_logger: Any) -> None:
        """Listens to this one, too; all kernels of a server have the same."""
        if not any(known is event_logger for known in self._loggers):
            self._loggers.append(event_logger)
            event_logger.add_listener(schema_id=KERNEL_ACTIONS, listener=self._hear)

    def close(self) -> None:
        """Listens no more."""
        for event_logger in self._loggers:
            event_logger.remove_listener(schema_id=KERNEL_ACTIONS, listener=self._hear)
        self._loggers.clear()

    async def _hear(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:  # noqa: ARG002 - called so
        if data["status"] == "success":
            self._carried_out(str(data.get("kernel_id", "")), data["action"])
