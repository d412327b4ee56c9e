"""Subscriptions to changes of notebooks, whichever program makes them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tk_ai_extension.model.json_values import Json

if TYPE_CHECKING:
    from jupyter_events import EventLogger

CONTENTS_EVENTS = "https://events.jupyter.org/jupyter_server/contents_service/v1"
"""The schema of the events that Jupyter's contents managers emit."""

_CHANGING = frozenset(("save", "create", "upload", "rename", "copy", "delete"))


class ChangeSubscriptions:
    """Listeners by path, notified by this package's documents and the contents manager's events.

    Other programs that write a file on disk emit no event: `files.watching` polls for them.

    Args:
        event_logger: Jupyter's event logger, or None.
    """

    def __init__(
        self,
        event_logger: EventLogger | None,
    ) -> None:
        self._listeners: dict[str, list[Callable[[], None]]] = {}
        self._event_logger = event_logger
        if event_logger is not None:
            event_logger.add_listener(schema_id=CONTENTS_EVENTS, listener=self._on_contents_event)

    def add(self, path: str, changed: Callable[[], None]) -> Callable[[], None]:
        """Call ``changed`` whenever the notebook changes; return a function that unsubscribes."""
        listeners = self._listeners.setdefault(path, [])
        listeners.append(changed)

        def remove() -> None:
            if changed in listeners:
                listeners.remove(changed)
            if not listeners and self._listeners.get(path) is listeners:
                del self._listeners[path]

        return remove

    def notify(self, path: str) -> None:
        """Notify the listeners of a path."""
        for changed in tuple(self._listeners.get(path, ())):
            changed()

    def close(self) -> None:
        """Drop all listeners and stop listening to Jupyter's events."""
        self._listeners.clear()
        if self._event_logger is not None:
            # The event logger raises KeyError for a schema that is not registered.
            with suppress(KeyError):
                self._event_logger.remove_listener(
                    schema_id=CONTENTS_EVENTS, listener=self._on_contents_event
                )

    async def _on_contents_event(self, logger: EventLogger, schema_id: str, data: Json) -> None:  # noqa: ARG002
        if data.get("action") in _CHANGING:
            for path in {data.get("path"), data.get("source_path")} - {None}:
                self.notify(str(path).strip("/"))
