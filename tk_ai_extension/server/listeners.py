"""Listeners of a server: what culls it and its kernels, and what renames and deletes its notebooks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jupyter_server._tz import utcnow
from tornado.ioloop import PeriodicCallback

from tk_ai_extension.model.json_values import Json

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from jupyter_events import EventLogger

INTERVAL = 20.0
"""Polling interval in seconds: cullers count in minutes."""

NAME = "tk_ai_extension"

CONTENTS_EVENTS = "https://events.jupyter.org/jupyter_server/contents_service/v1"
"""The schema of the events that Jupyter's contents managers emit."""


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


class PathEvents:
    """Listens for files and folders that are renamed or deleted through Jupyter's contents manager.

    Args:
        event_logger: Jupyter's event logger.
        renamed: Called with the old and the new path of a file or folder.
        deleted: Called with the path of one that was deleted.
    """

    def __init__(
        self,
        event_logger: EventLogger,
        renamed: Callable[[str, str], Awaitable[None]],
        deleted: Callable[[str], Awaitable[None]],
    ) -> None:
        self._event_logger = event_logger
        self._renamed = renamed
        self._deleted = deleted
        event_logger.add_listener(schema_id=CONTENTS_EVENTS, listener=self._on_event)

    def close(self) -> None:
        """Stop listening."""
        self._event_logger.remove_listener(schema_id=CONTENTS_EVENTS, listener=self._on_event)

    async def _on_event(self, logger: EventLogger, schema_id: str, data: Json) -> None:  # noqa: ARG002
        match data.get("action"):
            case "rename":
                old, new = data["source_path"].strip("/"), data["path"].strip("/")
                if old != new:
                    await self._renamed(old, new)
            case "delete":
                await self._deleted(data["path"].strip("/"))
            case _:
                pass
