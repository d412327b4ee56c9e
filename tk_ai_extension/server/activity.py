"""Prevents culling of a server that is working for somebody."""

from __future__ import annotations

from collections.abc import Callable
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
    """Reports running work in Jupyter's ``last_activity_times``.

    JupyterHub and `ServerApp.shutdown_no_activity_timeout` only count arriving requests and
    kernels, not a waiting call or a turn that waits for approval.

    Args:
        settings: The web application's settings.
        working: Returns the number of running operations.
    """

    def __init__(self, settings: MutableMapping[str, Any], working: Callable[[], int]) -> None:
        self._times: dict[str, datetime] = settings.setdefault("last_activity_times", {})
        self._working = working
        self._looking = PeriodicCallback(self._look, INTERVAL * 1_000)

    def start(self) -> None:
        """Start polling."""
        self._looking.start()

    def stop(self) -> None:
        """Stop polling."""
        self._looking.stop()

    def _look(self) -> None:
        if self._working():
            self._times[NAME] = utcnow()
