"""jupyter-collaboration's rooms, for a notebook that is written as a file while a room still has it.

A room reads what others wrote to its file within a second, and replaces what it has by that. What people
typed since its last save would be lost, and so would what a page typed offline and brings meanwhile.
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any

from jupyter_server.utils import ensure_async

from tk_ai_extension.model.json_values import Json

_log = logging.getLogger(__name__)


class Rooms:
    """The rooms of a server, over the public parts of jupyter-collaboration.

    Args:
        contents_manager: Jupyter's contents manager.
    """

    def __init__(self, contents_manager: Any) -> None:
        self._manager = contents_manager

    async def save(self, path: str) -> None:
        """Have a notebook's room save what is not in the file: call this before a write."""
        try:
            if (loader := self._loader(path)) is None:
                return
            # Of what others wrote and what it has, a room keeps the file.
            await loader.maybe_notify()
            document = await self._collaboration.get_document(
                path=path, content_type="notebook", file_format="json", copy=False
            )
            if document is None:
                return
            content = await document.aget()
            stored = await ensure_async(self._manager.get(path, content=True, type="notebook"))
            if _without_trust(content) != _without_trust(stored["content"]):
                model = {"type": "notebook", "format": "json", "content": content}
                await loader.maybe_save_content(model)
        except Exception:  # noqa: BLE001 - the notebook is written all the same
            _log.exception("The room of %s was not saved", path)

    async def read(self, path: str) -> None:
        """Have a notebook's room read the file: call this after a write."""
        try:
            if (loader := self._loader(path)) is not None:
                await loader.maybe_notify()
        except Exception:  # noqa: BLE001 - the notebook is written all the same
            _log.exception("The room of %s did not read the file", path)

    @cached_property
    def _collaboration(self) -> Any:
        """jupyter-collaboration's extension; None if it is not enabled."""
        manager = getattr(self._manager.parent, "extension_manager", None)
        apps = manager.extension_apps.get("jupyter_server_ydoc", ()) if manager else ()
        return next((app for app in apps if hasattr(app, "file_loaders")), None)

    def _loader(self, path: str) -> Any:
        """Return what reads and writes the file of a notebook's room; None without a room."""
        if (collaboration := self._collaboration) is None:
            return None
        loaders = collaboration.file_loaders
        file_id = loaders.file_id_manager.get_id(path)
        return loaders[file_id] if file_id in loaders else None  # noqa: SIM401 - no `dict`


def _without_trust(content: Json) -> Json:
    """Return a notebook without what Jupyter adds when it reads one."""
    cells = [
        {**cell, "metadata": {**cell["metadata"], "trusted": None}} for cell in content["cells"]
    ]
    return {**content, "cells": cells}
