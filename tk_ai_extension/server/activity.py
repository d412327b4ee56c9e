"""Prevents culling of a server, and of kernels, that work for somebody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jupyter_server._tz import utcnow
from tornado.ioloop import PeriodicCallback

if TYPE_CHECKING:
    from collections.abc import MutableMapping

INTERVAL = 20.0
"""Polling interval in seconds: cullers count in minutes."""

NAME = "tk_ai_extension"


class ServerActivity:
    """Reports running work in Jupyter's ``last_activity_times``, and in the ``last_activity`` of kernels.

    JupyterHub and `ServerApp.shutdown_no_activity_timeout` only count arriving requests and
    kernels, not a waiting call or a turn that waits for approval. `MappingKernelManager.cull_idle_timeout`
    only counts what a kernel runs, not the turn that has its variables and thinks or waits.

    Args:
        settings: The web application's settings.
        manager: The server's kernel manager.
        working: Returns the number of running operations.
        kernels_in_use: Returns the kernels that running work needs, even while they run nothing.
    """

    def __init__(
        self,
        settings: MutableMapping[str, Any],
        manager: Any,
        working: Callable[[], int],
        kernels_in_use: Callable[[], Awaitable[Iterable[str]]],
    ) -> None:
        self._times: dict[str, datetime] = settings.setdefault("last_activity_times", {})
        self._manager = manager
        self._working = working
        self._kernels_in_use = kernels_in_use
        self._looking = PeriodicCallback(self._look, INTERVAL * 1_000)

    def start(self) -> None:
        """Start polling."""
        self._looking.start()

    def stop(self) -> None:
        """Stop polling."""
        self._looking.stop()

    async def _look(self) -> None:
        if not self._working():
            return
        self._times[NAME] = utcnow()
        for kernel_id in await self._kernels_in_use():
            with suppress(KeyError):  # it was shut down meanwhile
                self._manager.get_kernel(kernel_id).last_activity = utcnow()
