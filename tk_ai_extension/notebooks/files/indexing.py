"""Builds the index of a notebook file, with the file version that it describes.

The worker process of `files.indexer` runs this module, so it imports little.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import sys
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Literal
from zlib import crc32

from tk_ai_extension.model.cells import Cell
from tk_ai_extension.model.errors import InvalidNotebook
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks.files.opening import open_regular
from tk_ai_extension.notebooks.jsonspans import Span
from tk_ai_extension.notebooks.reading import NotebookIndex, read_notebook

RACY = 25_000_000
"""Nanoseconds within which two writes may result in the same modification time."""

_TRIES = 5
_CHUNK = 1_000
"""Cells in one pickle."""


@dataclass(frozen=True, slots=True)
class FileVersion:
    """Identifies the content of a file without reading it."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileVersion:
        """Return the version in a stat result."""
        return cls(
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )

    def is_same_content(self, other: FileVersion) -> bool:
        """Return whether at most the file's name, mode or owner differ."""
        return replace(self, ctime_ns=other.ctime_ns) == other


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A file's index and the file version that it describes.

    Attributes:
        version: The version.
        index: The index.
        checksum: The content's CRC-32 if the file was just written, so that another write could result
            in the same version; the content is then compared before the index is used. Else None.
    """

    version: FileVersion
    index: NotebookIndex
    checksum: int | None = None


def is_racy(version: FileVersion, now_ns: int) -> bool:
    """Return whether another write at ``now_ns`` could result in the same version."""
    return now_ns - max(version.mtime_ns, version.ctime_ns) < RACY


def read_consistent(path: Path) -> tuple[FileVersion, bytes]:
    """Return a consistent version and content of a file, retrying while it is written.

    Raises:
        OSError.
    """
    for _ in range(_TRIES):
        with open_regular(path) as file:
            version = FileVersion.of(os.fstat(file.fileno()))
            data = file.readall()
            if FileVersion.of(os.fstat(file.fileno())) == version and len(data) == version.size:
                break
    return version, data  # pyrefly: ignore[unbound-name]


def index_file(path: Path, name: str, now_ns: int) -> IndexedFile:
    """Read a notebook file.

    Args:
        path: The file.
        name: The notebook's path, for messages.
        now_ns: The time, in nanoseconds since the epoch.

    Raises:
        InvalidNotebook, OSError.
    """
    version, data = read_consistent(path)
    index = read_notebook(data, name)
    return IndexedFile(version, index, crc32(data) if is_racy(version, now_ns) else None)


Answer = (
    tuple[Literal["ok"], IndexedFile]
    | tuple[Literal["invalid"], str, Json]
    | tuple[Literal["error"], int, str]
)
"""Response of the worker process: an index, or the error that `index_file` raised."""


def _answer(request: dict[str, object]) -> Answer:
    path, name, now_ns = Path(str(request["path"])), str(request["name"]), request["now_ns"]
    assert isinstance(now_ns, int)
    try:
        return "ok", index_file(path, name, now_ns)
    except InvalidNotebook as error:
        return "invalid", error.message, error.details
    except OSError as error:
        return "error", error.errno or 0, error.strerror or str(error)


def encode(answer: Answer) -> bytes:
    """Encode a response as a pickle without the cells, followed by pickles of `_CHUNK` cells each.

    Loading one pickle of 200,000 cells would block all threads for more than a second.
    """
    if answer[0] != "ok":
        return pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL)
    indexed = answer[1]
    index = indexed.index
    without = replace(index, cells=(), spans=None if index.spans is None else ())
    parts: list[object] = [("ok", replace(indexed, index=without))]
    for start in range(0, len(index.cells), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        parts.append((index.cells[chunk], index.spans and index.spans[chunk]))
    return b"".join(pickle.dumps(part, protocol=pickle.HIGHEST_PROTOCOL) for part in parts)


def decode(data: bytes) -> Answer:
    """Decode a response of `encode` from this package's own worker process."""
    stream = BytesIO(data)
    answer: Answer = pickle.load(stream)  # noqa: S301
    if answer[0] != "ok":
        return answer
    cells: list[Cell] = []
    spans: list[Span] = []
    while stream.tell() < len(data):
        some_cells, some_spans = pickle.load(stream)  # noqa: S301
        cells += some_cells
        spans += some_spans or ()
    index = answer[1].index
    whole = None if index.spans is None else tuple(spans)
    return "ok", replace(answer[1], index=replace(index, cells=tuple(cells), spans=whole))


def main() -> None:
    """Serve requests until the input ends."""
    gc.disable()  # Reading creates no cycles, and searching for them takes a third of the time.
    for line in sys.stdin.buffer:
        answer = encode(_answer(json.loads(line)))
        sys.stdout.buffer.write(len(answer).to_bytes(8, "big"))
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
