"""The paths under which notebooks are open in collaboration rooms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tk_ai_extension.notebooks.rooms.extension import NOTEBOOK_ROOM, find_collaboration
from tk_ai_extension.notebooks.rooms.live import Pin


def open_notebooks(settings: Mapping[str, Any]) -> dict[str, int]:
    """Return the notebooks with an open room.

    Args:
        settings: The web application's settings.

    Returns:
        The number of people in each room, by the notebook's path; -1 if only agents keep it open.
    """
    opened: dict[str, int] = {}
    extension = find_collaboration(settings)
    rooms: Mapping[str, Any] = {} if extension is None else extension.ywebsocket_server.rooms
    for room_id, room in rooms.items():
        if room_id.startswith(NOTEBOOK_ROOM):
            people = sum(not isinstance(client, Pin) for client in room.clients)
            opened[room._document.path] = people or -bool(room.clients)  # noqa: SLF001
    return opened
