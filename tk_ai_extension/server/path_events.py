"""Listener for renames and deletions of notebooks and folders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tk_ai_extension.model.json_values import Json

if TYPE_CHECKING:
    from jupyter_events import EventLogger

CONTENTS_EVENTS = "https://events.jupyter.org/jupyter_server/contents_service/v1"
"""The schema of the events that Jupyter's contents managers emit."""


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
