"""Notebooks whose room cannot be edited here: read from the file, and not changed.

A file that is written underneath its room is overwritten by the room. The room may be one of a
jupyter-collaboration that this extension does not know, or that of another server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tk_ai_extension.model.errors import CollaborationUnsupported


def check_unknown_rooms(path: str, settings: Mapping[str, Any], missing: Sequence[str]) -> None:
    """Refuses a notebook that has a room, or of which nobody can say whether it has one.

    Args:
        path: The notebook.
        settings: The web application's settings.
        missing: What of jupyter-collaboration is not as expected.

    Raises:
        CollaborationUnsupported.
    """
    try:
        rooms: Any = settings["jupyter_server_ydoc"].ywebsocket_server.rooms
        file_id: Any = settings["file_id_manager"].get_id(path)
        is_open = file_id is not None and any(str(room).endswith(file_id) for room in rooms)
    except (AttributeError, KeyError, TypeError):
        is_open = True
    if is_open:
        raise CollaborationUnsupported(
            f"{path} may be open in a collaboration room, which this version of "
            "jupyter-collaboration does not let the extension edit "
            f"(missing: {', '.join(missing)})."
        )
