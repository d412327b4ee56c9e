"""Lists, reads and writes text files below the root, without hidden files."""

from __future__ import annotations

import asyncio
import builtins
import errno
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from tk_ai_extension.model.errors import (
    Conflict,
    FileMissing,
    InvalidArguments,
    LimitReached,
    NotReadable,
    PathRefused,
    ToolError,
    is_out_of_files,
)
from tk_ai_extension.model.paths import contain, folder_path
from tk_ai_extension.notebooks.notebook_files import (
    FileChanged,
    FolderHandle,
    folder_below,
    typed_errors,
)

if TYPE_CHECKING:
    from tk_ai_extension.notebooks.jupyter_saves import SaveHooks

MAX_BYTES = 20_000_000
"""Maximum bytes of a text file; larger ones are read by code in a kernel."""

MAX_DEPTH = 12
"""Maximum depth of folders in a `FolderWalk`."""
MAX_ENTRIES = 20_000
"""Maximum entries that a `FolderWalk` yields."""
MAX_NAMED = 5
"""Maximum names that a sentence lists."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file, notebook or folder.

    Attributes:
        path: The path relative to the root, with forward slashes.
        size: The size in bytes; None for folders or if unknown.
        modified: The time of the last change, in seconds since the epoch.
    """

    path: str
    kind: Literal["file", "notebook", "directory"]
    size: int | None = None
    modified: float | None = None


class Files(Protocol):
    """Lists folders, reads and writes text files below the root, without hidden files."""

    @property
    def folder(self) -> Path | None:
        """The root; None if it is not a folder of this machine."""
        ...

    async def list(self, path: str) -> builtins.list[FileEntry]:
        """Return the entries of a folder, sorted by name.

        Raises:
            PathRefused: The path is outside the root, hidden, or not accessible.
            FileMissing: The folder does not exist.
        """
        ...

    async def read_text(self, path: str) -> str:
        """Return the content of a text file.

        Raises:
            PathRefused: The path is outside the root, hidden, or not accessible.
            FileMissing: The file does not exist.
            NotReadable: It is a folder, binary, or too large.
        """
        ...

    def locate(self, path: str) -> str:
        """Return the path below the root of a text file, which may not exist.

        Raises:
            PathRefused: The path is outside the root, hidden, or a notebook's: only the tools
                change notebooks, cell by cell.
        """
        ...

    def is_notebook(self, path: str) -> bool:
        """Return whether a path is a notebook's, itself or through a link.

        Raises:
            PathRefused: The path is outside the root or hidden.
        """
        ...

    async def replace(self, path: str, before: str | None, after: str | None) -> None:
        """Write or remove a text file that has a known content (compare-and-set).

        If several callers expect the same content, one succeeds. Readers get the old or the new
        content, even after a crash, if the storage allows it.

        Args:
            path: The path. The folder must exist.
            before: The content that the file must have; None if it must not exist.
            after: The new content; None to remove the file.

        Raises:
            Conflict: The file has other content.
            InvalidArguments: The new content is not valid Unicode.
            PathRefused: See `locate`, or the file is not writable.
            FileMissing: The folder does not exist.
            ReadOnly, DiskFull, SaveFailed: It could not be written. Nothing was changed.
        """
        ...


async def read_as_text(files: Files, path: str) -> str:
    """Return the content of a text file that an agent asked for.

    Raises:
        NotReadable: It is a notebook, which the tools read; or see `Files.read_text`.
        PathRefused, FileMissing: See `Files.read_text`.
    """
    return await files.read_text(locate_text(files, path))


def locate_text(files: Files, path: str) -> str:
    """Return the path below the root of a file that is not a notebook.

    Raises:
        NotReadable: It is a notebook, which the tools read.
        PathRefused: See `Files.locate`.
    """
    if files.is_notebook(path):
        raise NotReadable(f"`{path}` is a notebook.", hint="Use the tool read_notebook.")
    return files.locate(path)


async def read_if_exists(files: Files, path: str) -> str | None:
    """Return the content of a text file; None if it does not exist.

    Raises:
        PathRefused, NotReadable: See `Files.read_text`.
    """
    try:
        return await files.read_text(path)
    except FileMissing:
        return None


def encoded(path: str, text: str) -> bytes:
    """Return the bytes of a text file.

    Raises:
        InvalidArguments: The text is not valid Unicode.
    """
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArguments(
            f"The text for `{path}` contains a lone surrogate, which is not a character.",
            hint="Remove it.",
        ) from None


def changed_since(path: str) -> Conflict:
    """Return the error for a file with other content than the caller expects."""
    return Conflict(f"`{path}` changed since it was read.", hint="Read it again.")


def writable(path: str, file: str) -> str:
    """Return a path unless it is a notebook's.

    Args:
        path: The path below the root.
        file: The file that it leads to.

    Raises:
        PathRefused: It is a notebook's.
    """
    if names_notebook(path, file):
        raise PathRefused(
            f"`{path}` is a notebook. It is not written as a file.",
            hint="Use the tools insert_cell, overwrite_cell and delete_cell, or create_notebook.",
        )
    return path


def names_notebook(*names: str) -> bool:
    """Return whether one of the names of a file is a notebook's."""
    return any(name.lower().endswith(".ipynb") for name in names)


class FolderFiles:
    """`Files` of a folder. No link is followed that appears after the check of a path.

    Args:
        root: The folder.
        max_bytes: Maximum bytes of a file that can be read.
        allow_hidden: Whether paths may have hidden components.
        linked: Folders outside the root that links may lead to.
        hooks: The contents manager's save hooks, or None.
        shown: Returns whether a name is listed.
    """

    def __init__(
        self,
        root: Path,
        max_bytes: int = MAX_BYTES,
        *,
        allow_hidden: bool = False,
        linked: Sequence[Path] = (),
        hooks: SaveHooks | None = None,
        shown: Callable[[str], bool] | None = None,
    ) -> None:
        self.folder = self._root = root
        self._max_bytes = max_bytes
        self._allow_hidden = allow_hidden
        self._linked = linked
        self._bases = [Path(os.path.realpath(folder)) for folder in (root, *linked)]
        self._hooks = hooks
        self._shown = shown
        self._writing = asyncio.Lock()

    async def list(self, path: str) -> builtins.list[FileEntry]:
        """See `Files.list`."""
        folder = folder_path(self._root, path, allow_hidden=self._allow_hidden, linked=self._linked)
        return await asyncio.to_thread(self._list, folder)

    async def read_text(self, path: str) -> str:
        """See `Files.read_text`."""
        return await asyncio.to_thread(self._read, self._contained(path))

    def locate(self, path: str) -> str:
        """See `Files.locate`."""
        path = self._contained(path)
        return writable(path, str(self._file(path)))

    def is_notebook(self, path: str) -> bool:
        """See `Files.is_notebook`."""
        path = self._contained(path)
        return names_notebook(path, str(self._file(path)))

    async def replace(self, path: str, before: str | None, after: str | None) -> None:
        """See `Files.replace`; the contents manager's save hooks run."""
        path = self.locate(path)
        old = None if before is None else encoded(path, before)
        new = None if after is None else encoded(path, after)
        async with self._writing:
            if self._hooks is not None and after is not None:
                new = encoded(path, self._hooks.pre_save_text(path, after))
            await asyncio.to_thread(self._replace, path, old, new)
            if self._hooks is not None and after is not None:
                await self._hooks.saved(path, self._file(path))

    def _contained(self, path: str) -> str:
        return contain(self._root, path, allow_hidden=self._allow_hidden, linked=self._linked)

    def _file(self, path: str) -> Path:
        return Path(os.path.realpath(self._root / path))

    def _folder(self, file: Path) -> FolderHandle:
        return folder_below(file.parent, self._bases)

    def _replace(self, path: str, before: bytes | None, after: bytes | None) -> None:
        file = self._file(path)
        with typed_errors(f"`{path}`", new=True):
            folder = self._folder(file)
            with suppress(FileExistsError, FileNotFoundError, FileChanged):
                if _compare_and_set(folder, file.name, before, after):
                    return
        raise changed_since(path)

    def _list(self, folder: str) -> builtins.list[FileEntry]:
        try:
            with os.scandir(self._root / folder) as entries:
                found = [_entry(folder, entry) for entry in entries if self._is_shown(entry.name)]
        except OSError as error:
            raise _refusal(folder or "the root", error) from None
        return sorted(filter(self._is_inside, found), key=lambda entry: entry.path)

    def _is_shown(self, name: str) -> bool:
        return name[0] != "." and (self._shown is None or self._shown(name))

    def _is_inside(self, entry: FileEntry) -> bool:
        try:
            self._contained(entry.path)
        except PathRefused:
            return False
        return True

    def _read(self, path: str) -> str:
        file = self._file(path)
        try:
            return self._folder(file).read(file.name, self._max_bytes)[1].decode("utf-8")
        except UnicodeDecodeError:
            raise NotReadable(f"`{path}` is not UTF-8 text.") from None
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise NotReadable(
                    f"`{path}` has more than {self._max_bytes:,} bytes.",
                    hint="Read it with code in a kernel.",
                ) from None
            raise _refusal(path, error) from None


def _compare_and_set(
    folder: FolderHandle, name: str, before: bytes | None, after: bytes | None
) -> bool:
    """Write or remove a file; return False if it has other content than ``before``.

    Raises:
        FileExistsError, FileNotFoundError, FileChanged: likewise.
        OSError.
    """
    if before is None:
        if after is None:
            return not folder.exists(name)
        folder.replace(name, after, "new")
        return True
    version, found = folder.read(name)
    if found != before:
        return False
    if after is None:
        folder.unlink(name)
    else:
        folder.replace(name, after, version)
    return True


def _entry(folder: str, entry: os.DirEntry[str]) -> FileEntry:
    path = f"{folder}/{entry.name}" if folder else entry.name
    kind: Literal["file", "notebook", "directory"] = "file"
    if entry.name.endswith(".ipynb"):
        kind = "notebook"
    try:
        if entry.is_dir():
            kind = "directory"
        found = entry.stat()
    except OSError:  # A broken link.
        return FileEntry(path, kind)
    return FileEntry(path, kind, None if kind == "directory" else found.st_size, found.st_mtime)


def _refusal(path: str, error: OSError) -> ToolError:
    if is_out_of_files(error):
        return LimitReached(
            f"`{path}` cannot be opened: {error.strerror}.",
            hint="Shut down unused kernels, or restart the server with a higher `ulimit -n`.",
        )
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return FileMissing(f"`{path}` does not exist.")
    if isinstance(error, IsADirectoryError):
        return NotReadable(f"`{path}` is a folder.")
    if error.errno == errno.EINVAL:
        return NotReadable(f"`{path}` is not a regular file.")
    return PathRefused(f"`{path}` is not accessible.")


class FolderWalk:
    """The entries below a folder, each folder before its contents, up to the limits.

    After its end, `left_out` names the omitted entries: without them, an absence does not show that
    something does not exist.

    Args:
        files: The files below the root.
        path: The folder.
        recursive: Whether to list the folders below it.
    """

    def __init__(self, files: Files, path: str, *, recursive: bool) -> None:
        self._files = files
        self._path = path.strip("/")
        self._recursive = recursive
        self._is_full = False
        self._skipped: list[str] = []

    async def __aiter__(self) -> AsyncIterator[FileEntry]:
        """Yield the entries.

        Raises:
            ToolError: The folder cannot be listed.
        """
        waiting = [(self._path, 0)]
        count = 0
        while waiting:
            folder, depth = waiting.pop()
            try:
                entries = await self._files.list(folder)
            except ToolError:
                if depth == 0:
                    raise
                self._skipped.append(folder)
                continue
            for entry in entries:
                count += 1
                if count > MAX_ENTRIES:
                    self._is_full = True
                    return
                yield entry
            below = [entry.path for entry in entries if entry.kind == "directory"]
            if depth == MAX_DEPTH:
                self._skipped += below
            elif self._recursive:
                waiting += [(each, depth + 1) for each in reversed(below)]

    @property
    def left_out(self) -> list[str]:
        """Sentences about the entries that were not listed; empty if all were."""
        sentences: list[str] = []
        if self._is_full:
            sentences.append(
                f"Only the first {MAX_ENTRIES:,} files and folders were searched: use a narrower path."
            )
        if self._skipped:
            names = some_of([f"`{each}`" for each in self._skipped])
            sentences.append(
                f"Folders that cannot be listed, or are below {MAX_DEPTH} others, were left out: {names}."
            )
        return sentences


def some_of(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    shown = ", ".join(names[:MAX_NAMED])
    more = len(names) - MAX_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
