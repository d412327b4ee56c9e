"""Keeps a server that works for somebody from being culled as idle."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jupyter_server._tz import utcnow
from tornado.ioloop import PeriodicCallback

if TYPE_CHECKING:
    from collections.abc import MutableMapping

INTERVAL = 20.0
"""Seconds between two looks: a culler counts by the minute."""

NAME = "tk_ai_extension"


class ServerActivity:
    """Says in Jupyter's ``last_activity_times`` that the server works while it does.

    JupyterHub and `ServerApp.shutdown_no_activity_timeout` go by requests as they arrive and by
    kernels. A call that waits, or a turn that waits for approval, is neither.

    Args:
        settings: The web application's settings.
        working: How much goes on now.
    """

    def __init__(self, settings: MutableMapping[str, Any], working: Callable[[], int]) -> None:
        self._times: dict[str, datetime] = settings.setdefault("last_activity_times", {})
        self._working = working
        self._looking = PeriodicCallback(self._look, INTERVAL * 1_000)

    def start(self) -> None:
        """Looks from now on."""
        self._looking.start()

    def stop(self) -> None:
        """Looks no more."""
        self._looking.stop()

    def _look(self) -> None:
        if self._working():
            self._times[NAME] = utcnow()
