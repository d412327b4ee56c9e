"""State shared by commands, each of which is a process: open notebooks and seen cells."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.private_files import write_private
from tk_ai_extension.workspace.workspace import Workspace

MAX_NOTEBOOKS = 50
"""Maximum number of notebooks per caller."""
MAX_CALLERS = 100
"""Maximum number of callers; the least recently changed is dropped first."""


class CommandState:
    """File with the open notebooks and the seen cells of each caller of commands.

    Losing the file is safe: a command has to name its notebook again, or gets a conflict that shows the
    source. So errors of reading and writing are ignored.

    Args:
        file: The file, in a private folder.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._callers: dict[str, Any] = self._load()
        self._recalled: set[str] = set()

    def recall(self, workspace: Workspace, caller: Caller) -> None:
        """Restore a caller's saved state in a workspace, once."""
        if caller.identity in self._recalled:
            return
        self._recalled.add(caller.identity)
        known = self._callers.get(caller.identity, {})
        for path, cells in known.get("seen", {}).items():
            for cell, source_hash in cells.items():
                workspace.by_path.at(path).seen.mark(caller, cell, source_hash)
        for entry in known.get("notebooks", ()):
            try:
                # A kernel that was shut down since has not died.
                kernel = entry["kernel"] if entry["kernel"] in workspace.kernels.ids() else None
                workspace.notebooks.add(caller, entry["name"], entry["path"], kernel)
            except ToolError:  # the name is no longer valid
                continue

    def save(self, workspace: Workspace, caller: Caller) -> None:
        """Save a caller's state if it has changed."""
        # The current one last: the last one added becomes current.
        notebooks = sorted(workspace.notebooks.list(caller), key=lambda managed: managed.current)
        read = {each.path: each.seen.of(caller) for each in workspace.by_path}
        seen = {path: cells for path, cells in read.items() if cells}
        known = {
            "notebooks": [
                {"name": m.name, "path": m.path, "kernel": m.kernel_id} for m in notebooks
            ],
            "seen": dict(list(seen.items())[-MAX_NOTEBOOKS:]),
        }
        if known == self._callers.get(caller.identity, {"notebooks": [], "seen": {}}):
            return
        self._callers.pop(caller.identity, None)
        self._callers[caller.identity] = known
        for gone in list(self._callers)[:-MAX_CALLERS]:
            del self._callers[gone]
        with suppress(OSError):
            write_private(self._file, json.dumps(self._callers), sync=False)

    def _load(self) -> dict[str, Any]:
        try:
            loaded = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return {}
        return cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}
