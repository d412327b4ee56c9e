"""Artifacts: long outputs that are stored in files for a limited time and read in pages."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import io
import os
import re
import secrets
import stat
import threading
import time
from base64 import urlsafe_b64encode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader, FileIO, TextIOWrapper
from pathlib import Path
from typing import IO, Self, TypeVar
from urllib.parse import quote, unquote

from tk_ai_extension.model.background import run_to_completion
from tk_ai_extension.model.errors import (
    DiskFull,
    InvalidArguments,
    LimitReached,
    NotFound,
    NotReadable,
    SaveFailed,
    ToolError,
)
from tk_ai_extension.notebooks.atomic_file import open_regular
from tk_ai_extension.workspace.patterns import Pattern

LINE = 2_000
"""Maximum characters of a line. A longer line is read as several lines."""
PAGE = 20_000
"""Default maximum characters of a page."""


@dataclass(frozen=True, slots=True)
class ArtifactPage:
    """Some lines of an artifact or of another text.

    Attributes:
        text: The lines. With a pattern, each begins with its number and a colon.
        offset: The number of the first line, from 0.
        next_offset: The offset of the next page; None at the end.
        total_lines: The number of lines of the whole text.
        matches: The number of matching lines in the whole text; None without a pattern.
    """

    text: str
    offset: int
    next_offset: int | None
    total_lines: int
    matches: int | None = None


def read_page(
    path: Path,
    *,
    offset: int,
    limit: int,
    pattern: Pattern | None = None,
    max_chars: int = PAGE,
) -> ArtifactPage:
    """Read a page of a text file (see `Artifacts.read`) without loading the whole file.

    Raises:
        InvalidArguments: The search takes too long.
    """
    data = BufferedReader(open_regular(path))
    with TextIOWrapper(data, encoding="utf-8", errors="replace", newline="\n") as file:
        pieces = ((piece, pattern is None or pattern.found_in(piece)) for piece in _pieces(file))
        return _page(
            pieces, offset=offset, limit=limit, numbered=pattern is not None, max_chars=max_chars
        )


def page_of(
    text: str, *, offset: int, limit: int, pattern: Pattern | None = None, max_chars: int = PAGE
) -> ArtifactPage:
    """Return a page of a text. A pattern is searched in whole lines, also if they are shown as several.

    Raises:
        InvalidArguments: The search takes too long.
    """
    pieces = _found_pieces(text, pattern)
    return _page(
        pieces, offset=offset, limit=limit, numbered=pattern is not None, max_chars=max_chars
    )


def _page(
    pieces: Iterable[tuple[str, bool]], *, offset: int, limit: int, numbered: bool, max_chars: int
) -> ArtifactPage:
    """Return a page of lines, each with whether it is to be shown; all of them are read."""
    shown: list[str] = []
    size = matches = total = 0
    next_offset: int | None = None
    for number, (line, is_wanted) in enumerate(pieces):
        total = number + 1
        matches += is_wanted
        if not is_wanted or number < offset or next_offset is not None:
            continue
        text = f"{number}: {line}" if numbered else line
        if shown and (len(shown) == limit or size + len(text) > max_chars):
            next_offset = number
            continue
        shown.append(text)
        size += len(text) + 1
    return ArtifactPage(
        text="\n".join(shown),
        offset=offset,
        next_offset=next_offset,
        total_lines=total,
        matches=matches if numbered else None,
    )


def _pieces(file: IO[str]) -> Iterator[str]:
    """Yield the lines of a text without line ends; lines longer than `LINE` are split."""
    cut = False
    while piece := file.readline(LINE):
        if cut and piece == "\n":  # The end of a line whose length is a multiple of `LINE`.
            cut = False
            continue
        cut = not piece.endswith("\n")
        yield piece.removesuffix("\n")


def _found_pieces(text: str, pattern: Pattern | None) -> Iterator[tuple[str, bool]]:
    """Yield the lines as `_pieces`, each with whether it matches; at least one of a line that does."""
    for line in io.StringIO(text, newline=None):
        whole = line.removesuffix("\n")
        pieces = [whole[at : at + LINE] for at in range(0, len(whole), LINE)] or [""]
        is_found = pattern is None or pattern.found_in(whole)
        if pattern is None or len(pieces) == 1 or not is_found:
            yield from ((piece, is_found) for piece in pieces)
            continue
        found = [pattern.found_in(piece) for piece in pieces]
        found[0] = found[0] or not any(found)
        yield from zip(pieces, found, strict=True)


T = TypeVar("T")

MAX_BYTES = 1_000_000_000
"""Maximum bytes of all artifacts together."""
MAX_BYTES_EACH = 100_000_000
"""Maximum bytes of one artifact."""
KEEP_SECONDS = 7 * 86_400.0
"""Seconds for which an artifact is kept."""
PRUNE_INTERVAL = 600.0
"""Seconds between two scans of the whole folder, unless a limit requires one earlier."""
_ID = re.compile(r"[A-Za-z0-9_-]{12}")
_MIME = re.compile(r"[A-Za-z0-9.+_*-]+/[A-Za-z0-9.+_*-]+(;[ A-Za-z0-9.+_=-]+)*")
_UNFINISHED = ".part"
_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class Artifact:
    """A stored output.

    Attributes:
        id: The id, which is valid only for its user: a hash of the content if it was written at
            once, else random.
        size: The size in bytes.
        lines: The number of lines; 0 if it is not text.
        mime: The MIME type.
        dropped: Bytes that exceeded the limit and were not stored.
    """

    id: str
    size: int
    lines: int
    mime: str
    dropped: int = 0


class Artifacts:
    """The artifacts of a server. Only its user can read an artifact.

    They are files of mode 0600, ``<user's hash>/<id>.<quoted MIME type>``, in a folder of mode
    0700. At the limit, the oldest artifact of the user with the most bytes is removed first, so a
    user's many outputs do not displace those of others.

    Args:
        folder: The folder of the files, created at first use.
        max_bytes_total: Maximum bytes of all artifacts.
        max_bytes_each: Maximum bytes of one artifact.
        keep_seconds: Seconds for which an artifact is kept.
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
        # An estimate: other servers may write too. A scan of the folder corrects it.
        self._held = 0
        self._next_prune = 0.0

    async def write(self, user: str, content: str | bytes, *, mime: str = "text/plain") -> Artifact:
        """Store a text or bytes. The same content of one user is stored once.

        Raises:
            LimitReached: It is larger than one artifact may be. Nothing was stored.
            DiskFull: The disk is full. Nothing was stored.
            SaveFailed: It could not be written. Nothing was stored.
        """
        data = _encode(content)
        if len(data) > self._max_each:
            raise LimitReached(
                f"An artifact may have {self._max_each:,} bytes; this one has {len(data):,}.",
                hint="Write the output to a file in your code.",
            )
        # A caller that is cancelled would leave a part of the file.
        return await run_to_completion(self._write(user, data, mime))

    async def _write(self, user: str, data: bytes, mime: str) -> Artifact:
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
        """Return a writer for an output that is still growing; its id is random unless given."""
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
        """Return a page of a text artifact.

        Args:
            user: The user who reads.
            artifact_id: The id.
            offset: The first line, from 0.
            limit: Maximum lines; with ``grep``, maximum matching lines.
            grep: A regular expression that selects lines.
            max_chars: Maximum characters, but at least one line.

        Raises:
            NotFound: The user has no artifact of that id.
            InvalidArguments: A number is out of range, or the pattern is invalid or takes too long.
            NotReadable: The artifact is not text.
        """
        if offset < 0 or limit < 1:
            raise InvalidArguments("`offset` must be at least 0, and `limit` at least 1.")
        pattern = None if grep is None else Pattern(grep)

        def page() -> ArtifactPage:
            path = self._find(user, artifact_id)
            if not _is_text(mime := _mime_of(path)):
                raise NotReadable(f"The artifact is {mime}, not text.", hint="Download it instead.")
            return read_page(path, offset=offset, limit=limit, pattern=pattern, max_chars=max_chars)

        return await self._reading(artifact_id, page)

    async def data(
        self, user: str, artifact_id: str, *, max_bytes: int | None = None
    ) -> tuple[bytes, str]:
        """Return a whole artifact and its MIME type.

        Raises:
            NotFound: The user has no artifact of that id.
            NotReadable: It has more than ``max_bytes``.
        """

        def whole() -> tuple[bytes, str]:
            path = self._find(user, artifact_id)
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                if max_bytes is not None and size > max_bytes:
                    raise NotReadable(
                        f"The artifact has {size:,} bytes; the limit is {max_bytes:,}.",
                        hint="Read text in pages with read_output, or download it over REST: "
                        f"GET /api/tk-ai/artifacts/{artifact_id}.",
                    )
                return file.readall(), _mime_of(path)

        return await self._reading(artifact_id, whole)

    def folder_of(self, user: str) -> Path:
        """Return the folder of a user's artifacts, for code that runs for that user.

        It is created if possible; if not, code that writes there fails.
        """
        folder = self._user_folder(user)
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def _user_folder(self, user: str) -> Path:
        # A hash: a user name may have any characters, and is not disclosed by the folder's name.
        return self._folder / hashlib.blake2b(user.encode(), digest_size=12).hexdigest()

    def _find(self, user: str, artifact_id: str) -> Path:
        if _ID.fullmatch(artifact_id):
            for path in self._user_folder(user).glob(f"{artifact_id}.*"):
                if path.suffix != _UNFINISHED and stat.S_ISREG(path.lstat().st_mode):
                    return path
        raise FileNotFoundError

    def _renew(self, user: str, artifact_id: str) -> bool:
        """Set an artifact's time to now; return whether it exists."""
        try:
            os.utime(self._find(user, artifact_id))
        except FileNotFoundError:
            return False
        return True

    async def _reading(self, artifact_id: str, read: Callable[[], T]) -> T:
        """Run a reader in a thread.

        Raises:
            NotFound: The file does not exist, or was pruned meanwhile.
            NotReadable: The system refuses to read it.
        """
        try:
            return await asyncio.to_thread(read)
        except FileNotFoundError:
            raise NotFound(
                f"No artifact `{artifact_id}`.",
                hint="Artifacts expire. Run the cell again to recreate it.",
            ) from None
        except OSError as error:
            raise NotReadable(
                f"The artifact `{artifact_id}` cannot be read: {error.strerror or error}."
            ) from error

    def _written(self, path: Path, size: int) -> None:
        """Enforce the limits after a file was written. Called in a worker thread."""
        with self._lock:
            self._held += _on_disk(size)
            if self._held > self._max_total or time.monotonic() > self._next_prune:
                self._prune(path)

    def _prune(self, newest: Path) -> None:
        """Remove expired artifacts, then the oldest of the user with the most bytes, to the limit."""
        self._next_prune = time.monotonic() + PRUNE_INTERVAL
        oldest = time.time() - self._keep
        held: defaultdict[Path, list[tuple[float, int, Path]]] = defaultdict(list)
        total = 0
        for path in self._folder.glob("*/*"):
            # Another server may prune it first. Code in kernels may put there what cannot be removed.
            with suppress(OSError):
                status = path.lstat()
                if not stat.S_ISREG(status.st_mode):
                    continue
                if status.st_mtime < oldest:
                    path.unlink()
                    continue
                total += _on_disk(status.st_size)
                if path != newest and not path.name.endswith(_UNFINISHED):
                    held[path.parent].append((status.st_mtime, _on_disk(status.st_size), path))
        for files in held.values():
            files.sort(reverse=True)
        bytes_of = {folder: sum(size for _, size, _ in files) for folder, files in held.items()}
        # Prune to 90 % of the limit, so that not every write scans the folder.
        goal = self._max_total if total <= self._max_total else self._max_total * 9 // 10
        while total > goal and any(held.values()):
            most = max(bytes_of, key=lambda folder: bytes_of[folder])
            _, size, path = held[most].pop()
            with suppress(OSError):
                path.unlink(missing_ok=True)
                total -= size
            bytes_of[most] -= size
        self._held = total


class ArtifactWriter:
    """Writes a growing artifact. Bytes beyond the limit are counted and dropped.

    One task uses it in an ``async with`` block; leaving the block without `close` discards the
    artifact. `append` writes to the system's buffers and does not block for long.
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
            raise InvalidArguments(f"`{mime[:100]}` is not a MIME type.")
        self.id = artifact_id
        self.error: ToolError | None = None
        """Why writing failed; None if it did not."""
        self._folders = folders
        self._mime = mime
        self._max = max_bytes
        self._written = written
        self._path = folders[-1] / f"{self.id}.{quote(mime, safe='')}"
        # Concurrent writers of the same content use separate files; the last rename wins.
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
        """Bytes written so far."""
        return self._size

    def append(self, content: str | bytes) -> None:
        """Append text or bytes."""
        data = _encode(content)
        kept = data[: max(self._max - self._size, 0)] if self.error is None else b""
        if len(kept) < len(data):
            # Cut at a character boundary, and drop everything after it.
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
        """Finish the artifact, so that it can be read.

        Raises:
            DiskFull: The disk is full.
            SaveFailed: The artifact could not be written.
        """
        await asyncio.to_thread(self._finish)
        lines = self._newlines + (self._last != b"\n")
        return Artifact(
            self.id, self._size, lines if self._is_text else 0, self._mime, dropped=self._dropped
        )

    async def discard(self) -> None:
        """Delete the artifact, unless it was closed."""
        if self._file is not None:
            await asyncio.to_thread(self._delete)

    @property
    def _is_text(self) -> bool:
        return _is_text(self._mime)

    def _open(self) -> FileIO:
        for folder in self._folders:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)  # Not on all systems.
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

    def _delete(self) -> None:
        if self._file is not None:
            self._file.close()
            self._unfinished.unlink(missing_ok=True)
            self._file = None


def _encode(content: str | bytes) -> bytes:
    # A lone surrogate cannot be encoded; it becomes `?`.
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
    """Return a file's size in whole blocks, so that many small files reach the limit too."""
    return -(-size // _BLOCK) * _BLOCK


def _save_error(error: OSError) -> ToolError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DiskFull(
            "The disk is full. The artifact was not saved.", hint="Free some disk space."
        )
    return SaveFailed(f"The artifact could not be written: {error.strerror}.")
