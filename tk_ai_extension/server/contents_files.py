"""Text files of a contents manager that does not store files, or that saves differently."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from tk_ai_extension.model.errors import (
    FileMissing,
    LimitReached,
    NotReadable,
    PathRefused,
    SaveFailed,
    ToolError,
    is_out_of_files,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.workspace.files import (
    MAX_BYTES,
    FileEntry,
    changed_since,
    encoded,
    names_notebook,
    writable,
)


class ContentsFiles:
    """`workspace.files.Files` over a contents manager, with its rules and hooks.

    Args:
        contents: The contents manager.
        contain: Returns the path of a file below the root; raises PathRefused.
        contain_folder: Returns the path of a folder, also the root; raises PathRefused.
    """

    def __init__(
        self, contents: Any, contain: Callable[[str], str], contain_folder: Callable[[str], str]
    ) -> None:
        self.folder: Path | None = None
        self._contents = contents
        self._contain = contain
        self._contain_folder = contain_folder
        self._writing = asyncio.Lock()

    async def list(self, path: str) -> builtins.list[FileEntry]:
        """See `Files.list`."""
        model = await self._get(self._contain_folder(path), content=True, type="directory")
        # The contents manager lists hidden files if it is configured so.
        shown = [_entry(item) for item in model["content"] if not item["name"].startswith(".")]
        return sorted(shown, key=lambda entry: entry.path)

    async def read_text(self, path: str) -> str:
        """See `Files.read_text`."""
        path = self._contain(path)
        model = await self._get(path, content=False)
        if model["type"] == "directory":
            raise NotReadable(f"`{path}` is a folder.")
        if (model.get("size") or 0) > MAX_BYTES:
            raise NotReadable(
                f"`{path}` has {model['size']:,} bytes; the limit is {MAX_BYTES:,}.",
                hint="Read it with code in a kernel.",
            )
        model = await self._get(path, content=True, type="file", format="text")
        return str(model["content"])

    def locate(self, path: str) -> str:
        """See `Files.locate`."""
        path = self._contain(path)
        return writable(path, path)

    def is_notebook(self, path: str) -> bool:
        """See `Files.is_notebook`."""
        return names_notebook(self._contain(path))

    async def replace(self, path: str, before: str | None, after: str | None) -> None:
        """See `Files.replace`; the manager does not compare, so a concurrent save by others can be lost."""
        path = self.locate(path)
        async with self._writing:
            try:
                found = await self.read_text(path)
            except FileMissing:
                found = None
            if found != before:
                raise changed_since(path)
            try:
                if after is not None:
                    encoded(path, after)
                    model = {"type": "file", "format": "text", "content": after}
                    await ensure_async(self._contents.save(model, path))
                elif found is not None:
                    await ensure_async(self._contents.delete_file(path))
            except HTTPError as error:
                raise _write_error(path, error) from None

    async def _get(self, path: str, **options: Any) -> dict[str, Any]:
        try:
            return await ensure_async(self._contents.get(path, **options))
        except HTTPError as error:
            raise _error(path, error) from None


def _entry(item: Json) -> FileEntry:
    modified: Any = item.get("last_modified")
    kind: Literal["file", "notebook", "directory"] = "file"
    if item["type"] in {"directory", "notebook"}:
        kind = item["type"]
    return FileEntry(
        path=str(item["path"]).strip("/"),
        kind=kind,
        size=item.get("size"),
        modified=modified.timestamp() if isinstance(modified, datetime) else None,
    )


def _write_error(path: str, error: HTTPError) -> ToolError:
    """Translate an error of the contents manager about a write."""
    said = error.log_message or error.reason
    if error.status_code == 404 or isinstance(error.__context__, FileNotFoundError):
        return FileMissing(f"There is no folder for `{path}`.")
    if error.status_code == 403 or isinstance(error.__context__, PermissionError):
        return PathRefused(f"Writing `{path}` is not allowed.", hint="Change its permissions.")
    return SaveFailed(f"`{path}` cannot be written: {said}.")


def _error(path: str, error: HTTPError) -> ToolError:
    """Translate an error of the contents manager."""
    shown = path or "the root"
    if is_out_of_files(error):
        return LimitReached(
            f"`{shown}` cannot be read: {error.log_message or error.reason}.",
            hint="Shut down unused kernels, or restart the server with a higher `ulimit -n`.",
        )
    if error.status_code == 404:
        return FileMissing(f"`{shown}` does not exist.")
    if error.status_code == 403:
        return PathRefused(f"Reading `{shown}` is not allowed.")
    return NotReadable(f"`{shown}` cannot be read as text: {error.log_message or error.reason}.")
