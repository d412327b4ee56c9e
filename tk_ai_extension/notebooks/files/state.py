"""A server's state of a notebook file: its index, its session, and its running cells."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary
from zlib import crc32

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import (
    InvalidNotebook,
    NotANotebook,
    NotebookNotFound,
    NotReadable,
    SaveFailed,
    TooManyOpenFiles,
    is_out_of_files,
)
from tk_ai_extension.model.sentences import Sentence
from tk_ai_extension.notebooks.base import FileChanged
from tk_ai_extension.notebooks.files.indexer import Indexer
from tk_ai_extension.notebooks.files.indexing import (
    FileVersion,
    IndexedFile,
    index_file,
    is_racy,
    read_consistent,
)
from tk_ai_extension.notebooks.files.opening import open_descriptor, open_regular
from tk_ai_extension.notebooks.files.recovery import find_copy, recover
from tk_ai_extension.notebooks.files.saving import read_span, replace_file, typed_errors
from tk_ai_extension.notebooks.files.splicing import Frame, Read, Splice
from tk_ai_extension.notebooks.reading import NotebookIndex, read_notebook
from tk_ai_extension.notebooks.running_outputs import RunningOutputs
from tk_ai_extension.notebooks.session import NotebookSession

if TYPE_CHECKING:
    from tk_ai_extension.notebooks.files.hooks import SaveHooks

INLINE = 2 << 20
"""Bytes up to which a file is read in a thread: json's C code blocks the loop about 10 ms per MB."""

_TRIES = 5
_WRITER_DELAYS = (0.05, 0.1, 0.2, 0.4)
"""Seconds to wait between attempts to read a file while another program is writing it."""

_MAX_PATH = 1024
"""Maximum bytes of the result of macOS's F_GETPATH."""

T = TypeVar("T")


class NotebookFile:
    """A notebook file, shared by all its documents in a server.

    Args:
        file: The file, not a link.
        indexer: Reads large files.
        hooks: The contents manager's save hooks, or None.
        moved: Called with this and the new path when another program moved the file while cells run;
            returns whether the new path is used.
        warn: Called with warnings for people.

    Attributes:
        file: The current path.
        session: The notebook's session; its lock is held while the file is written.
        frames: The frames of running cells, each with the indexed cell that it belongs to.
        names: The paths under which it was opened, and their current names.
    """

    def __init__(
        self,
        file: Path,
        indexer: Indexer,
        hooks: SaveHooks | None,
        moved: Callable[[NotebookFile, Path], bool],
        warn: Callable[[str], None],
    ) -> None:
        self.file = file
        self.session = NotebookSession()
        self.frames: WeakKeyDictionary[RunningOutputs, tuple[Cell, Frame]] = WeakKeyDictionary()
        self.names: dict[str, str] = {}
        self._indexer = indexer
        self._hooks = hooks
        self._moved = moved
        self._warn = warn
        self._anchor = _Anchor()
        self._reading = asyncio.Lock()
        self._known: IndexedFile | None = None
        self._shown: tuple[NotebookIndex, Snapshot] | None = None

    @property
    def weight(self) -> int:
        """Characters of source in memory."""
        return self._known.index.weight if self._known is not None else 0

    # --- reading

    async def index(self, path: str, *, settled: bool = True) -> IndexedFile:
        """Return the file's current index; costs a stat if nothing changed.

        Args:
            path: The notebook's path, for messages.
            settled: Whether to compare a racy index (see `is_racy`) with the content now; otherwise
                `_opened` does it, in the thread that reads the file anyway.

        Raises:
            NotebookNotFound, NotANotebook, NotReadable, InvalidNotebook.
        """
        known = self._current_index(path)
        if known is not None and (known.checksum is None or not settled):
            return known
        async with self._reading:
            known = self._current_index(path)
            if known is None or not await self._is_unchanged(path, known):
                known = await self._read(path)
                self._remember(known)
            return known

    def _remember(self, indexed: IndexedFile) -> None:
        known, self._known = self._known, indexed
        replaced = known is None or known.version.inode != indexed.version.inode
        if self.session.saver is not None and replaced:
            self._anchor.hold(self.file)

    def _current_index(self, path: str) -> IndexedFile | None:
        """Return the known index if the file still has its version."""
        known, version = self._known, self._version(path)
        return None if known is None or known.version != version else known

    def _version(self, path: str) -> FileVersion:
        with _read_errors(path):
            try:
                return FileVersion.of(self.file.stat())
            except FileNotFoundError:
                if not self.find_moved():
                    raise
                return FileVersion.of(self.file.stat())

    async def _is_unchanged(self, path: str, known: IndexedFile) -> bool:
        """Return whether a file with a racy version still has the known content."""
        if known.checksum is None:
            return True
        now = time.time_ns()
        with _read_errors(path):
            version, data = await asyncio.to_thread(read_consistent, self.file)
        if (version, crc32(data)) != (known.version, known.checksum):
            return False
        if not is_racy(version, now):
            self._known = replace(known, checksum=None)
        return True

    async def _read(self, path: str) -> IndexedFile:
        for delay in (*_WRITER_DELAYS, None):
            try:
                return await self._read_once(path)
            except InvalidNotebook as error:
                if delay is None or not await asyncio.to_thread(self._is_being_written):
                    return await self._read_recovered(path, error)
            await asyncio.sleep(delay)
        raise AssertionError

    async def _read_recovered(self, path: str, error: InvalidNotebook) -> IndexedFile:
        """Return the index after recovering the file from Jupyter's copy beside it.

        Raises:
            InvalidNotebook: there is no copy, or a person must decide; the error names the copy.
        """
        recovered = await asyncio.to_thread(recover, self.file)
        if recovered is not None:
            self._warn(Sentence("recovered", path=path, copy=recovered.name))
            return await self._read_once(path)
        copy = await asyncio.to_thread(find_copy, self.file)
        if copy is None:
            raise error
        raise InvalidNotebook(
            error.message,
            hint=f"{copy.name} beside it is a complete notebook, which Jupyter keeps until a save has "
            "ended. That save may still be in progress: try again later. If it was interrupted, "
            f"compare the copy, and rename it to {self.file.name} if it has what you need.",
            **error.details,
            copy=copy.name,
        ) from error

    async def _read_once(self, path: str) -> IndexedFile:
        now = time.time_ns()
        with _read_errors(path):
            if self._version(path).size > INLINE:
                return await self._indexer.read(self.file, path, now)
            return await asyncio.to_thread(index_file, self.file, path, now)

    def _is_being_written(self) -> bool:
        """Return whether a program that does not save atomically may be writing the file."""
        copy = self.file.with_name(f".~{self.file.name}")
        try:
            return copy.exists() or time.time() - self.file.stat().st_mtime < 1.0
        except FileNotFoundError:
            return True

    # --- tracking moves

    def track(self) -> None:
        """Track the file while cells run, in case another program moves it."""
        if self._anchor.is_free:
            self._anchor.hold(self.file)

    def untrack(self) -> None:
        """Stop tracking: no cell runs and everything is saved."""
        self._anchor.release()

    def find_moved(self) -> bool:
        """Switch to the new path of a file that another program moved; return whether it was found."""
        place = self._anchor.place()
        return place is not None and place != self.file and self._moved(self, place)

    # --- queries

    def stored(self, index: NotebookIndex, path: str) -> Snapshot:
        """Return the snapshot for an index, without the outputs of running cells."""
        # Called from worker threads and the event loop at once: use a local, not the attribute.
        shown = self._shown
        if shown is None or shown[0] is not index or shown[1].path != path:
            shown = self._shown = (index, index.snapshot(path))
        return shown[1]

    async def query(self, path: str, look: Callable[[NotebookIndex, Read], T]) -> T:
        """Return the result of ``look`` for the file, in a thread.

        Raises:
            As `index`.
        """

        async def work(indexed: IndexedFile) -> T:
            def in_thread() -> T:
                with self._opened(indexed) as file:
                    return look(indexed.index, lambda span: read_span(file, span))

            with _read_errors(path):
                return await asyncio.to_thread(in_thread)

        # Settled: otherwise each query would compare the whole content again.
        return await self._retry_if_changed(path, work, settled=True)

    async def _retry_if_changed(
        self, path: str, work: Callable[[IndexedFile], Awaitable[T]], *, settled: bool
    ) -> T:
        """Return the result of ``work``, retried while other programs write or move the file."""
        for _ in range(_TRIES):
            indexed = await self.index(path, settled=settled)
            try:
                return await work(indexed)
            except FileChanged:
                self._known = None
            except NotebookNotFound:
                if not self.find_moved():
                    raise
        raise SaveFailed(f"{path} cannot be saved: other programs keep writing it.")

    # --- writing

    async def rewrite(
        self, path: str, make: Callable[[NotebookIndex, Read], Splice | None]
    ) -> NotebookIndex:
        """Rewrite the file. Hold the lock.

        Args:
            path: The notebook's path.
            make: Returns the new file, in a thread; None changes nothing. Called again if another
                program wrote the file meanwhile.

        Returns:
            The index of the file afterwards.

        Raises:
            As `index`, what ``make`` raises, ReadOnly, DiskFull, SaveFailed.
        """

        async def work(indexed: IndexedFile) -> tuple[IndexedFile, bool]:
            with typed_errors(path):
                if self._hooks is not None and self._hooks.before:
                    written = await self._write_hooked(path, indexed, make, self._hooks)
                else:
                    written = await asyncio.to_thread(self._write, indexed, make)
            return written, written is not indexed

        written, is_new = await self._retry_if_changed(path, work, settled=False)
        if is_new:
            self._remember(written)
            if self._hooks is not None:
                await self._hooks.saved(path, self.file)
        return written.index

    def _write(
        self, indexed: IndexedFile, make: Callable[[NotebookIndex, Read], Splice | None]
    ) -> IndexedFile:
        with self._opened(indexed) as file:
            splice = make(indexed.index, lambda span: read_span(file, span))
            if splice is None:
                return indexed
            version, checksum = replace_file(self.file, splice.pieces, file, indexed.version)
        return _indexed(version, splice.index, checksum)

    async def _write_hooked(
        self,
        path: str,
        indexed: IndexedFile,
        make: Callable[[NotebookIndex, Read], Splice | None],
        hooks: SaveHooks,
    ) -> IndexedFile:
        def content() -> bytes | None:
            with self._opened(indexed) as file:
                splice = make(indexed.index, lambda span: read_span(file, span))
                if splice is None:
                    return None
                parts = (p if isinstance(p, bytes) else read_span(file, p) for p in splice.pieces)
                return b"".join(parts)

        data = await asyncio.to_thread(content)
        if data is None:
            return indexed
        hooked = await hooks.pre_save(path, data)

        def write() -> IndexedFile:
            index = read_notebook(hooked, path)
            version, checksum = replace_file(self.file, [hooked], None, indexed.version)
            return _indexed(version, index, checksum)

        return await asyncio.to_thread(write)

    @contextmanager
    def _opened(self, indexed: IndexedFile) -> Generator[FileIO]:
        """Open the file that an index describes.

        Raises:
            FileChanged: the file has another version.
        """
        with open_regular(self.file) as file:
            if FileVersion.of(os.fstat(file.fileno())) != indexed.version:
                raise FileChanged
            if indexed.checksum is not None:
                data = read_span(file, (0, indexed.version.size))
                if crc32(data) != indexed.checksum:
                    raise FileChanged
            yield file


def _indexed(version: FileVersion, index: NotebookIndex, checksum: int) -> IndexedFile:
    return IndexedFile(version, index, checksum if is_racy(version, time.time_ns()) else None)


@contextmanager
def _read_errors(path: str) -> Generator[None]:
    """Convert OSErrors of reading to typed errors."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotebookNotFound(f"Notebook {path} does not exist.") from error
    except IsADirectoryError as error:
        raise NotANotebook(f"{path} is a folder.") from error
    except OSError as error:
        kind = TooManyOpenFiles if is_out_of_files(error) else NotReadable
        raise kind(f"{path} cannot be read: {error.strerror or error}.") from error


class _Anchor:
    """A descriptor of a file, by which the file is found after another program moved it.

    If the system cannot report a descriptor's path, `place` returns None.
    """

    def __init__(self) -> None:
        self._fd: int | None = None

    @property
    def is_free(self) -> bool:
        """Whether no file is open."""
        return self._fd is None

    def hold(self, file: Path) -> None:
        """Open this file instead of the previous one; none if it does not exist."""
        self.release()
        try:
            self._fd = open_descriptor(file)
        except OSError:
            self._fd = None

    def release(self) -> None:
        """Close the descriptor."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def place(self) -> Path | None:
        """Return the file's current path; None if it was deleted or the path is unknown."""
        if self._fd is None or (text := _path_of(self._fd)) is None:
            return None
        place = Path(text)
        try:
            found = FileVersion.of(place.stat())
        except OSError:
            return None
        return place if found == FileVersion.of(os.fstat(self._fd)) else None


def _path_of(fd: int) -> str | None:
    try:
        if sys.platform == "darwin":
            import fcntl  # Not on Windows.

            return os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(_MAX_PATH)).rstrip(b"\0"))
        return str(Path(f"/proc/self/fd/{fd}").readlink())
    except OSError:
        return None
