"""Artifacts: outputs too long to show, kept in files for a while and read page by page."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import re
import secrets
import threading
import time
from base64 import urlsafe_b64encode
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Self, TypeVar
from urllib.parse import quote, unquote

from tk_ai_extension.model.errors import (
    ArtifactNotFound,
    DiskFull,
    InvalidArguments,
    LimitReached,
    NotReadable,
    SaveFailed,
    ToolError,
)
from tk_ai_extension.workspace.artifact_pages import PAGE, ArtifactPage, read_page
from tk_ai_extension.workspace.patterns import Pattern

T = TypeVar("T")

MAX_BYTES = 1_000_000_000
"""Bytes of all artifacts together."""
MAX_BYTES_EACH = 100_000_000
"""Bytes of one artifact."""
KEEP_SECONDS = 7 * 86_400.0
"""Seconds for which an artifact is kept."""
PRUNE_INTERVAL = 600.0
"""Seconds between two looks at the whole folder, while the bounds do not ask for one."""
_ID = re.compile(r"[A-Za-z0-9_-]{12}")
_MIME = re.compile(r"[A-Za-z0-9.+_*-]+/[A-Za-z0-9.+_*-]+(;[ A-Za-z0-9.+_=-]+)*")
_UNFINISHED = ".part"
_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class Artifact:
    """An output that was put aside.

    Attributes:
        id: Names it, for its user alone: a hash of what was written whole, else random.
        size: Bytes.
        lines: Lines of text; 0 for what is not text.
        mime: The MIME type.
        dropped: Bytes that went over the bound and were not kept.
    """

    id: str
    size: int
    lines: int
    mime: str
    dropped: int = 0


class Artifacts:
    """The artifacts of a server, each readable by its user alone.

    They are files of mode 0600, ``<user's hash>/<id>.<quoted MIME type>``, in a folder of mode
    0700. At the bound the oldest of the user who holds most goes first, so that one user's floods
    cost them their own.

    Args:
        folder: Where the files are; made when first needed.
        max_bytes_total: The bound on all artifacts together.
        max_bytes_each: The bound on one.
        keep_seconds: How long they are kept.
    """

    def __init__(
        self,
        folder: Path,
        max_bytes_total: int = MAX_BYTES,
        max_bytes_each: int = MAX_BYTES_EACH,
        keep_seconds: float = KEEP_SECONDS,
    ) -> None:
        self._folder = folder
        self._max_total = max_bytes_total
        self._max_each = max_bytes_each
        self._keep = keep_seconds
        self._lock = threading.Lock()
        # What is held, as far as this server knows; a look at the folder says it exactly.
        self._held = 0
        self._next_prune = 0.0

    async def write(self, user: str, content: str | bytes, *, mime: str = "text/plain") -> Artifact:
        """Keep a text or bytes; the same content of one user is one artifact, however often read.

        Raises:
            LimitReached: it is larger than one artifact may be; nothing was kept.
            DiskFull, SaveFailed: it could not be written; nothing was kept.
        """
        data = _encode(content)
        if len(data) > self._max_each:
            raise LimitReached(
                f"An artifact has at most {self._max_each:,} bytes; this has {len(data):,}.",
                hint="Write it to a file in the code itself.",
            )
        artifact_id = await asyncio.to_thread(_content_id, data, mime)
        if await asyncio.to_thread(self._renew, user, artifact_id):
            return _artifact(artifact_id, data, mime)
        async with self.writer(user, mime=mime, artifact_id=artifact_id) as writer:
            await asyncio.to_thread(writer.append, data)
            if writer.error is not None:
                raise writer.error
            return await writer.close()

    def writer(
        self, user: str, *, mime: str = "text/plain", artifact_id: str | None = None
    ) -> ArtifactWriter:
        """A writer for an output that is still coming, under a random id unless one is given."""
        folders = (self._folder, self._user_folder(user))
        name = artifact_id or secrets.token_urlsafe(9)
        return ArtifactWriter(folders, name, mime, self._max_each, self._written)

    async def read(
        self,
        user: str,
        artifact_id: str,
        *,
        offset: int = 0,
        limit: int = 1_000,
        grep: str | None = None,
        max_chars: int = PAGE,
    ) -> ArtifactPage:
        """A page of a text artifact.

        Args:
            user: Who reads.
            artifact_id: Its id.
            offset: The first line, from 0.
            limit: The most lines; with ``grep``, the most lines found.
            grep: A regular expression; only the lines that it finds are in the page.
            max_chars: The most characters, but always one line.

        Raises:
            ArtifactNotFound: there is none of that id, or it is another user's.
            InvalidArguments: a number below zero, or a pattern that is none or takes too long.
            NotReadable: it is not text.
        """
        if offset < 0 or limit < 1:
            raise InvalidArguments("`offset` counts from 0, and `limit` is at least 1.")
        pattern = None if grep is None else Pattern(grep)

        def page() -> ArtifactPage:
            path = self._find(user, artifact_id)
            if not _is_text(mime := _mime_of(path)):
                raise NotReadable(f"The artifact is {mime}, not text.", hint="Fetch it whole.")
            return read_page(path, offset=offset, limit=limit, pattern=pattern, max_chars=max_chars)

        return await self._reading(artifact_id, page)

    async def data(self, user: str, artifact_id: str) -> tuple[bytes, str]:
        """A whole artifact, and its MIME type.

        Raises:
            ArtifactNotFound: as for `read`.
        """

        def whole() -> tuple[bytes, str]:
            path = self._find(user, artifact_id)
            return path.read_bytes(), _mime_of(path)

        return await self._reading(artifact_id, whole)

    def folder_of(self, user: str) -> Path:
        """Where a user's artifacts are; for the code that runs for them."""
        folder = self._user_folder(user)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def _user_folder(self, user: str) -> Path:
        # A hash, since a user's name may be anything, and may be none of a reader's business.
        return self._folder / hashlib.blake2b(user.encode(), digest_size=12).hexdigest()

    def _find(self, user: str, artifact_id: str) -> Path:
        if _ID.fullmatch(artifact_id):
            for path in self._user_folder(user).glob(f"{artifact_id}.*"):
                if path.suffix != _UNFINISHED:
                    return path
        raise FileNotFoundError

    def _renew(self, user: str, artifact_id: str) -> bool:
        """Count an artifact as written now, where it is there."""
        try:
            os.utime(self._find(user, artifact_id))
        except FileNotFoundError:
            return False
        return True

    async def _reading(self, artifact_id: str, read: Callable[[], T]) -> T:
        """What a reader finds, unless the artifact never was or is pruned just now."""
        try:
            return await asyncio.to_thread(read)
        except FileNotFoundError:
            raise ArtifactNotFound(f"There is no artifact `{artifact_id}`.") from None

    def _written(self, path: Path, size: int) -> None:
        """Called in a worker thread after a file was finished: keeps the bounds."""
        with self._lock:
            self._held += _on_disk(size)
            if self._held > self._max_total or time.monotonic() > self._next_prune:
                self._prune(path)

    def _prune(self, newest: Path) -> None:
        """Remove what is too old, then the oldest of whoever holds most, until all fits again."""
        oldest = time.time() - self._keep
        held: defaultdict[Path, list[tuple[float, int, Path]]] = defaultdict(list)
        total = 0
        for path in self._folder.glob("*/*"):
            with suppress(FileNotFoundError):  # another server's prune came first
                stat = path.stat()
                if stat.st_mtime < oldest:
                    path.unlink()
                    continue
                total += _on_disk(stat.st_size)
                if path != newest and not path.name.endswith(_UNFINISHED):
                    held[path.parent].append((stat.st_mtime, _on_disk(stat.st_size), path))
        for files in held.values():
            files.sort(reverse=True)
        bytes_of = {folder: sum(size for _, size, _ in files) for folder, files in held.items()}
        # A little further than needed, so that not every write has to look at every file.
        goal = self._max_total if total <= self._max_total else self._max_total * 9 // 10
        while total > goal and any(held.values()):
            most = max(bytes_of, key=lambda folder: bytes_of[folder])
            _, size, path = held[most].pop()
            path.unlink(missing_ok=True)
            bytes_of[most] -= size
            total -= size
        self._held = total
        self._next_prune = time.monotonic() + PRUNE_INTERVAL


class ArtifactWriter:
    """Writes one artifact as it comes; what goes over the bound is counted and left out.

    Used by one task, as an ``async with`` whose end without `close` discards what was written.
    `append` writes into the system's buffers and returns at once.
    """

    def __init__(
        self,
        folders: tuple[Path, Path],
        artifact_id: str,
        mime: str,
        max_bytes: int,
        written: Callable[[Path, int], None],
    ) -> None:
        if not _MIME.fullmatch(mime) or len(mime) > 100:
            raise InvalidArguments(f"`{mime[:100]}` is no MIME type.")
        self.id = artifact_id
        self.error: ToolError | None = None
        """Why the file could not be written on; None while all is well."""
        self._folders = folders
        self._mime = mime
        self._max = max_bytes
        self._written = written
        self._path = folders[-1] / f"{self.id}.{quote(mime, safe='')}"
        # Two may write the same at once: each writes a file of its own, and the last one stays.
        unfinished = f"{self._path.name}.{secrets.token_hex(4)}{_UNFINISHED}"
        self._unfinished = self._path.with_name(unfinished)
        self._file: FileIO | None = None
        self._size = self._newlines = self._dropped = 0
        self._last = b"\n"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.discard()

    @property
    def size(self) -> int:
        """Bytes kept so far."""
        return self._size

    def append(self, content: str | bytes) -> None:
        """Add a piece at the end."""
        data = _encode(content)
        kept = data[: max(self._max - self._size, 0)] if self.error is None else b""
        if len(kept) < len(data):
            # Cut between characters, and once: nothing may follow a gap.
            kept = kept.decode(errors="ignore").encode() if self._is_text else kept
            self._max = self._size + len(kept)
        self._dropped += len(data) - len(kept)
        if not kept:
            return
        left = memoryview(kept)
        try:
            file = self._file or self._open()
            while left:
                written = file.write(left)
                left = left[written:]
        except OSError as error:
            self.error = _save_error(error)
            self._dropped += len(left)
        kept = kept[: len(kept) - len(left)]
        self._size += len(kept)
        self._newlines += kept.count(b"\n")
        self._last = kept[-1:] or self._last

    async def close(self) -> Artifact:
        """End the artifact, which can be read from now on.

        Raises:
            DiskFull, SaveFailed: nothing of it could be written.
        """
        await asyncio.to_thread(self._finish)
        lines = self._newlines + (self._last != b"\n")
        return Artifact(
            self.id, self._size, lines if self._is_text else 0, self._mime, dropped=self._dropped
        )

    async def discard(self) -> None:
        """Throw away what was written, unless it was closed."""
        if self._file is not None:
            await asyncio.to_thread(self._throw_away)

    @property
    def _is_text(self) -> bool:
        return _is_text(self._mime)

    def _open(self) -> FileIO:
        for folder in self._folders:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)  # Each of some systems.
        self._file = FileIO(os.open(self._unfinished, flags, 0o600), "w")
        return self._file

    def _finish(self) -> None:
        try:
            file = self._file or self._open()
            file.close()
            self._unfinished.rename(self._path)
        except OSError as error:
            raise self.error or _save_error(error) from error
        finally:
            self._file = None
        self._written(self._path, self._size)

    def _throw_away(self) -> None:
        if self._file is not None:
            self._file.close()
            self._unfinished.unlink(missing_ok=True)
            self._file = None


def _encode(content: str | bytes) -> bytes:
    # Half a surrogate pair is no text that could be kept; a `?` says that something was there.
    return content.encode(errors="replace") if isinstance(content, str) else content


def _content_id(data: bytes, mime: str) -> str:
    digest = hashlib.blake2b(data, digest_size=9, person=b"tk-ai artifact")
    digest.update(f"\0{mime}".encode())
    return urlsafe_b64encode(digest.digest()).decode()


def _artifact(artifact_id: str, data: bytes, mime: str) -> Artifact:
    lines = data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
    return Artifact(artifact_id, len(data), lines if _is_text(mime) else 0, mime)


def _mime_of(path: Path) -> str:
    return unquote(path.name.partition(".")[2])


def _is_text(mime: str) -> bool:
    kind = mime.partition(";")[0]
    return kind.startswith("text/") or kind.endswith(
        ("/json", "+json", "/xml", "+xml", "/javascript")
    )


def _on_disk(size: int) -> int:
    """What a file takes: whole blocks, so that many small ones reach the bound too."""
    return -(-size // _BLOCK) * _BLOCK


def _save_error(error: OSError) -> ToolError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DiskFull("There is no room for the artifact.", hint="Free some space.")
    return SaveFailed(f"The artifact could not be written: {error.strerror}.")
