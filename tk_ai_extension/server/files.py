"""Files below the server's root, read and written through Jupyter's contents manager."""

from __future__ import annotations

import asyncio
import builtins
import os
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

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
from tk_ai_extension.notebooks.save_hooks import (
    SaveHooks,
    has_own_writing,
    is_on_files,
    may_replace,
)
from tk_ai_extension.workspace.files import (
    FileEntry,
    WriteLocks,
    changed_since,
    encoded,
    names_notebook,
    no_notebook,
)

MAX_BYTES = 20_000_000
"""Maximum size of a text file, in bytes; read a larger one by code in a kernel."""

_KINDS = {"directory": "directory", "notebook": "notebook"}


class ContentsFiles:
    """`workspace.files.Files` over a contents manager, with its rules and hooks.

    Args:
        contents: The contents manager.
        contain: Returns the path of a file below the root; raises PathRefused.
        contain_folder: Returns the path of a folder, also the root; raises PathRefused.
        max_bytes: Maximum size of a file, in bytes.
    """

    def __init__(
        self,
        contents: Any,
        contain: Callable[[str], str],
        contain_folder: Callable[[str], str],
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._contents = contents
        self._contain = contain
        self._contain_folder = contain_folder
        self._max_bytes = max_bytes
        self._writes = WriteLocks()

    async def list(self, path: str) -> builtins.list[FileEntry]:
        """List a folder, sorted by name."""
        folder = self._contain_folder(path)
        model = await self._get(folder, content=True, type="directory")
        # Checking each path for links takes long in a large folder.
        return await asyncio.to_thread(self._shown, model["content"])

    def _shown(self, items: Iterable[Json]) -> builtins.list[FileEntry]:
        # The contents manager lists hidden files if it is configured so.
        shown = [_entry(item) for item in items if self._is_shown(item)]
        return sorted(shown, key=lambda entry: entry.path)

    def _is_shown(self, item: Json) -> bool:
        """Whether an entry's path is allowed: not hidden, valid Unicode, inside the root."""
        if item["name"].startswith("."):
            return False
        try:
            self._contain(str(item["path"]))
        except PathRefused:
            return False
        return True

    async def read_text(self, path: str) -> str:
        """Read a text file."""
        path = self._contain(path)
        model = await self._get(path, content=False)
        if model["type"] == "directory":
            raise NotReadable(f"`{path}` is a folder.")
        if (model.get("size") or 0) > self._max_bytes:
            raise NotReadable(
                f"`{path}` has {model['size']:,} bytes; the limit is {self._max_bytes:,}.",
                hint="Read it with code in a kernel.",
            )
        model = await self._get(path, content=True, type="file", format="text")
        return str(model["content"])

    def locate(self, path: str) -> str:
        """Return the path of a text file below the root."""
        path = self._contain(path)
        return no_notebook(path, self._resolved(path))

    def is_notebook(self, path: str) -> bool:
        """Return whether a path is a notebook's, itself or through a link."""
        path = self._contain(path)
        return names_notebook(path, self._resolved(path))

    async def replace(self, path: str, before: str | None, after: str | None) -> None:
        """Write or remove a text file that has a known content.

        A manager that writes files in Jupyter's way has its hooks run, but the file is written here: a
        save of the manager does not compare. Whether the file is replaced is the manager's rule.
        """
        path = self.locate(path)
        if after is not None:
            encoded(path, after)
        file = self._resolved(path)
        on_files = is_on_files(self._contents) and not has_own_writing(self._contents)
        write = self._replace_file if on_files else self._replace_stored
        async with self._writes.of(file):
            try:
                await write(path, Path(file), before, after)
            except HTTPError as error:
                raise _write_error(path, error) from None

    def _resolved(self, path: str) -> str:
        """Return the file of a contained path without links; the path itself if files have no folder."""
        root = getattr(self._contents, "root_dir", "")
        return os.path.realpath(Path(root) / path) if root else path

    async def _replace_file(
        self, path: str, file: Path, before: str | None, after: str | None
    ) -> None:
        from tk_ai_extension.workspace.file_writes import replace_on_disk

        old = None if before is None else encoded(path, before)
        if after is None:
            await asyncio.to_thread(replace_on_disk, file, path, old, None)
            return
        model = _text_model(after)
        self._contents.run_pre_save_hooks(model=model, path=path)
        new = encoded(path, str(model["content"]))
        rule = partial(may_replace, self._contents)
        await asyncio.to_thread(replace_on_disk, file, path, old, new, rule)
        await SaveHooks(self._contents).saved(path, file)

    async def _replace_stored(
        self, path: str, _file: Path, before: str | None, after: str | None
    ) -> None:
        try:
            found = await self.read_text(path)
        except FileMissing:
            found = None
        if found != before:
            raise changed_since(path)
        if after is not None:
            await ensure_async(self._contents.save(_text_model(after), path))
        elif found is not None:
            await ensure_async(self._contents.delete_file(path))

    async def _get(self, path: str, **options: Any) -> dict[str, Any]:
        try:
            return await ensure_async(self._contents.get(path, **options))
        except HTTPError as error:
            raise _error(path, error) from None


def _text_model(text: str) -> dict[str, Any]:
    return {"type": "file", "format": "text", "content": text}


def _entry(item: Json) -> FileEntry:
    modified: Any = item.get("last_modified")
    return FileEntry(
        path=str(item["path"]).strip("/"),
        kind=_KINDS.get(item["type"], "file"),  # type: ignore[arg-type]
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
        return FileMissing(f"There is nothing at `{shown}`.")
    if error.status_code == 403:
        return PathRefused(f"Reading `{shown}` is not allowed.")
    return NotReadable(f"`{shown}` cannot be read as text: {error.log_message or error.reason}.")
