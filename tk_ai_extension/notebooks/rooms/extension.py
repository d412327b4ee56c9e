"""jupyter-collaboration's server extension: whether it is enabled, and what it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tk_ai_extension.model.private_api import missing_members

NOTEBOOK_ROOM = "json:notebook:"
"""What the id of a notebook's room begins with; the id of its file follows."""


def notebook_room(file_id: str) -> str:
    """Return the id of a notebook's room."""
    return f"{NOTEBOOK_ROOM}{file_id}"


def find_collaboration(settings: Mapping[str, Any]) -> Any:
    """Return jupyter-collaboration's extension if it is installed and enabled, else None.

    Rooms also need the file id manager, whose database needs a file system with locks.
    """
    extension = settings.get("jupyter_server_ydoc")
    if extension is None or extension.disable_rtc or "file_id_manager" not in settings:
        return None
    return extension


def missing_parts() -> list[str]:
    """Return the private attributes that this package uses and jupyter-collaboration lacks."""
    from jupyter_server_ydoc.app import YDocExtension
    from jupyter_server_ydoc.loaders import FileLoader
    from jupyter_server_ydoc.rooms import DocumentRoom
    from jupyter_server_ydoc.websocketserver import (
        JupyterWebsocketServer,
    )

    used = {
        YDocExtension: ("get_document", "document_cleanup_delay", "_room_locks"),
        FileLoader: (
            *("last_modified", "maybe_notify", "maybe_save_content", "number_of_subscriptions"),
            "_lock",
        ),
        JupyterWebsocketServer: ("add_room", "delete_room", "rooms"),
        DocumentRoom: (
            *("cleaner", "clients", "file_format", "file_type", "initialize", "ready"),
            *("_document", "_file", "_on_outofband_change", "_saving_document", "_update_lock"),
            *("_maybe_save_document", "_save_delay"),
        ),
    }
    return [part for kind, names in used.items() for part in missing_members(kind, names)]
