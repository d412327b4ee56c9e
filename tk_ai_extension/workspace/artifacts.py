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
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote

from tk_ai_extension.model.background_tasks import run_to_completion
from tk_ai_extension.model.errors import (
    DiskFull,
    InvalidArguments,
    LimitReached,
    NotFound,
    NotReadable,
    SaveFailed,
    ToolError,
)
from tk_ai_extension.notebooks.notebook_files import open_regular
from tk_ai_extension.workspace.timed_patterns import TimedPattern

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
    pattern: TimedPattern | None = None,
    max_chars: int = PAGE,
) -> ArtifactPage:
    """Read a page of a text file (see `Artifacts.read`) without loading the whole file.

    Raises:
        InvalidArguments: The search takes too long.
    """
    data = BufferedReader(open_regular(path))
    with TextIOWrapper(data, encoding="utf-8", errors="replace", newline="\n") as file:
        return _page(file, offset=offset, limit=limit, pattern=pattern, max_chars=max_chars)


def page_of(
    text: str,
    *,
    offset: int,
    limit: int,
    pattern: TimedPattern | None = None,
    max_chars: int = PAGE,
) -> ArtifactPage:
    """Return a page of a text. A pattern is searched in whole lines, even if they are shown as several.

    Raises:
        InvalidArguments: The search takes too long.
    """
    lines = io.StringIO(text, newline=None)
    return _page(lines, offset=offset, limit=limit, pattern=pattern, max_chars=max_chars)


def _page(
    lines: Iterable[str], *, offset: int, limit: int, pattern: TimedPattern | None, max_chars: int
) -> ArtifactPage:
    """Return a page of lines; the whole iterable is read."""
    shown: list[str] = []
    size = matches = total = 0
    next_offset: int | None = None
    for number, (line, is_wanted) in enumerate(_pieces(lines, pattern)):
        total = number + 1
        matches += is_wanted
        if not is_wanted or number < offset or next_offset is not None:
            continue
        text = f"{number}: {line}" if pattern is not None else line
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
        matches=matches if pattern is not None else None,
    )


def _pieces(lines: Iterable[str], pattern: TimedPattern | None) -> Iterator[tuple[str, bool]]:
    """Yield lines without line ends, and whether each matches; a line longer than `LINE` becomes several.

    At least one part of a matching line matches.
    """
    for line in lines:
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
        id: The id, a hash of the content, which is valid only for its user.
        size: The size in bytes.
        lines: The number of lines; 0 if it is not text.
        mime: The MIME type.
    """

    id: str
    size: int
    lines: int
    mime: str


class Artifacts:
    """The artifacts of a server. Only its user can read an artifact.

    They are files of mode 0600, ``<user's hash>/<id>.<quoted MIME type>``, in a folder of mode
    0700. At the limit, the oldest artifacts are removed.

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
            InvalidArguments: The MIME type is invalid.
            LimitReached: It is larger than one artifact may be. Nothing was stored.
            DiskFull: The disk is full. Nothing was stored.
            SaveFailed: It could not be written. Nothing was stored.
        """
        if not _MIME.fullmatch(mime) or len(mime) > 100:
            raise InvalidArguments(f"`{mime[:100]}` is not a MIME type.")
        # A lone surrogate cannot be encoded; it becomes `?`.
        data = content.encode(errors="replace") if isinstance(content, str) else content
        if len(data) > self._max_each:
            raise LimitReached(
                f"An artifact may have {self._max_each:,} bytes; this one has {len(data):,}.",
                hint="Write the output to a file in your code.",
            )
        # Not cancelled with the caller, which would leave a part of the file.
        return await run_to_completion(asyncio.to_thread(self._write, user, data, mime))

    def _write(self, user: str, data: bytes, mime: str) -> Artifact:
        digest = hashlib.blake2b(data, digest_size=9, person=b"tk-ai artifact")
        digest.update(f"\0{mime}".encode())
        lines = data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
        artifact = Artifact(
            urlsafe_b64encode(digest.digest()).decode(),
            len(data),
            lines if _is_text(mime) else 0,
            mime,
        )
        with suppress(FileNotFoundError):
            os.utime(self._find(user, artifact.id))
            return artifact
        path = self._user_folder(user) / f"{artifact.id}.{quote(mime, safe='')}"
        # Concurrent writers of the same content use separate files; the last rename wins.
        unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}{_UNFINISHED}")
        try:
            for folder in (self._folder, path.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(unfinished, "xb", opener=_private) as file:
                file.write(data)
            unfinished.rename(path)
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise _save_error(error) from error
        self._written(path, len(data))
        return artifact

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
        pattern = None if grep is None else TimedPattern(grep)

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

    async def _reading(self, artifact_id: str, read: Callable[[], T]) -> T:
        """Run a reader in a thread.

        Raises:
            NotFound: The file does not exist, or has since been pruned.
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
        """Remove expired artifacts, then the oldest ones, to the limit."""
        self._next_prune = time.monotonic() + PRUNE_INTERVAL
        oldest = time.time() - self._keep
        held: list[tuple[float, int, Path]] = []
        total = 0
        for path in self._folder.glob("*/*"):
            # Another server may prune it first. Code in kernels may add files there that cannot be removed.
            with suppress(OSError):
                status = path.lstat()
                if not stat.S_ISREG(status.st_mode):
                    continue
                if status.st_mtime < oldest:
                    path.unlink()
                    continue
                total += _on_disk(status.st_size)
                if path != newest and not path.name.endswith(_UNFINISHED):
                    held.append((status.st_mtime, _on_disk(status.st_size), path))
        # Prune to 90 % of the limit, so that not every write scans the folder.
        goal = self._max_total if total <= self._max_total else self._max_total * 9 // 10
        for _, size, path in sorted(held):
            if total <= goal:
                break
            with suppress(OSError):
                path.unlink(missing_ok=True)
                total -= size
        self._held = total


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


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
