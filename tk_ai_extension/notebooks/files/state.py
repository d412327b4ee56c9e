"""What one server knows of a notebook file: its index, who writes it, which of its cells run."""

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
)
from tk_ai_extension.notebooks.base import FileChanged
from tk_ai_extension.notebooks.files.indexer import Indexer
from tk_ai_extension.notebooks.files.indexing import (
    FileVersion,
    IndexedFile,
    index_file,
    is_racy,
    read_consistent,
)
from tk_ai_extension.notebooks.files.recovery import find_copy, recover
from tk_ai_extension.notebooks.files.saving import read_span, replace_file, typed_errors
from tk_ai_extension.notebooks.files.splicing import Frame, Read, Splice
from tk_ai_extension.notebooks.reading import NotebookIndex, read_notebook
from tk_ai_extension.notebooks.running_outputs import RunningOutputs
from tk_ai_extension.notebooks.session import NotebookSession

if TYPE_CHECKING:
    from tk_ai_extension.notebooks.files.hooks import SaveHooks

INLINE = 2 << 20
"""Bytes up to which a file is read in a thread: json's C code holds the loop about 10 ms a MB."""

_TRIES = 5
_WRITER_DELAYS = (0.05, 0.1, 0.2, 0.4)
"""Seconds to wait, one after the other, for a writer in the middle of a file to come to its end."""

_MAX_PATH = 1024
"""Bytes that macOS's F_GETPATH fills at most."""

T = TypeVar("T")


class NotebookFile:
    """One notebook file; all documents of it in one server share this.

    Args:
        file: The file, no link.
        indexer: Reads it where it is large.
        hooks: The contents manager's, if there is one.
        moved: Called with this and where the file is now when others have moved it on disk while
            cells run; whether it may be followed there.
        warn: Called with what a person should know of the file.

    Attributes:
        file: Where it is now.
        session: The notebook's, whose lock is held by who writes the file.
        frames: Cells that run, around their outputs as they were last stored, each with the cell of the
            index that it belongs to.
        names: Under which paths it was opened, and how those are called now.
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
        """Characters of source that are kept in memory for it."""
        return self._known.index.weight if self._known is not None else 0

    # --- reading

    async def index(self, path: str, *, settled: bool = True) -> IndexedFile:
        """The file's index as it is now; a stat where nothing changed.

        Args:
            path: The notebook's path, for messages.
            settled: An index of a file that had just been written is compared with its content;
                if not, `_opened` does it, in the thread that reads the file anyway.

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
        """What is known, if the file's version is still the same."""
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
        """Return whether a file that had just been written when it was read has still that content."""
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
        """The index after a recovery from the copy beside the file.

        Raises:
            InvalidNotebook: there is none, or it is for a person to decide; the error names it.
        """
        recovered = await asyncio.to_thread(recover, self.file)
        if recovered is not None:
            self._warn(
                f"{path} was empty, as after a save that was cut off. It was recovered from "
                f"{recovered.name}, the copy that Jupyter had left beside it."
            )
            return await self._read_once(path)
        copy = await asyncio.to_thread(find_copy, self.file)
        if copy is None:
            raise error
        raise InvalidNotebook(
            error.message,
            hint=f"{copy.name} beside it is a whole notebook, as Jupyter leaves it when a save is "
            "cut off: compare it, and rename it if it is what you look for.",
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
        """Return whether a writer that is not atomic, such as Jupyter's own, may be in the middle of it."""
        copy = self.file.with_name(f".~{self.file.name}")
        try:
            return copy.exists() or time.time() - self.file.stat().st_mtime < 1.0
        except FileNotFoundError:
            return True

    # --- where it is

    def track(self) -> None:
        """Cells run: the file is followed where others move it on disk."""
        if self._anchor.is_free:
            self._anchor.hold(self.file)

    def untrack(self) -> None:
        """No cell runs any more, and all is saved."""
        self._anchor.release()

    def find_moved(self) -> bool:
        """Return whether the file is not where it was, and was found where others moved it."""
        place = self._anchor.place()
        return place is not None and place != self.file and self._moved(self, place)

    # --- what it looks like with the cells that run

    def stored(self, index: NotebookIndex, path: str) -> Snapshot:
        """The notebook as its file has it."""
        # Worker threads and the loop call this at once: what is kept may be another index's by now.
        shown = self._shown
        if shown is None or shown[0] is not index or shown[1].path != path:
            shown = self._shown = (index, index.snapshot(path))
        return shown[1]

    async def query(self, path: str, look: Callable[[NotebookIndex, Read], T]) -> T:
        """What ``look`` finds in the file, in a thread.

        Raises:
            As `index`.
        """

        async def work(indexed: IndexedFile) -> T:
            def in_thread() -> T:
                with self._opened(indexed) as file:
                    return look(indexed.index, lambda span: read_span(file, span))

            with _read_errors(path):
                return await asyncio.to_thread(in_thread)

        # Settled: else each look at the same file would compare the whole content again.
        return await self._retry_if_changed(path, work, settled=True)

    async def _retry_if_changed(
        self, path: str, work: Callable[[IndexedFile], Awaitable[T]], *, settled: bool
    ) -> T:
        """What ``work`` does with a file that nobody else writes or moves meanwhile."""
        for _ in range(_TRIES):
            indexed = await self.index(path, settled=settled)
            try:
                return await work(indexed)
            except FileChanged:
                self._known = None
            except NotebookNotFound:
                if not self.find_moved():
                    raise
        raise SaveFailed(f"{path} is written all the time by others.")

    # --- writing

    async def rewrite(
        self, path: str, make: Callable[[NotebookIndex, Read], Splice | None]
    ) -> NotebookIndex:
        """Write what ``make`` makes of the file; the lock has to be held.

        Args:
            path: The notebook's path.
            make: Makes the new file, in a thread; None leaves the file alone. Called again if
                somebody else wrote the file meanwhile.

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
        """The file that the index describes, opened.

        Raises:
            FileChanged: it describes it no more.
        """
        with self.file.open("rb", buffering=0) as file:
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
    """Turn the system's errors in reading into those of the tools."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotebookNotFound(f"There is no notebook {path}.") from error
    except IsADirectoryError as error:
        raise NotANotebook(f"{path} is a folder.") from error
    except OSError as error:
        raise NotReadable(f"{path} cannot be read: {error.strerror or error}.") from error


class _Anchor:
    """A descriptor of a file that is about to be written again and again.

    Where the system does not tell a descriptor's path, it knows nothing, and says so.
    """

    def __init__(self) -> None:
        self._fd: int | None = None

    @property
    def is_free(self) -> bool:
        """Whether no file is held."""
        return self._fd is None

    def hold(self, file: Path) -> None:
        """Hold this file from now on, in place of another one; of one that is gone, none."""
        self.release()
        try:
            self._fd = os.open(file, os.O_RDONLY)
        except OSError:
            self._fd = None

    def release(self) -> None:
        """Lets go."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def place(self) -> Path | None:
        """Where the file is now; None where it was deleted, or where that cannot be known."""
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
            import fcntl  # Windows has none.

            return os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(_MAX_PATH)).rstrip(b"\0"))
        return str(Path(f"/proc/self/fd/{fd}").readlink())
    except OSError:
        return None
