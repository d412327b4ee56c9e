"""Immutable values of cells and notebooks, with addresses and hashes."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, cast

from tk_ai_extension.model.errors import CellNotFound, Conflict, InvalidArguments
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.python_names import PythonNames, names_of

CellType = Literal["code", "markdown", "raw"]
CELL_TYPES: tuple[CellType, ...] = ("code", "markdown", "raw")


_NUMBERED = re.compile(r"cell-(\d{1,9})\Z")
_COUNTED = re.compile(r"\[(\d{1,9})\]\Z")
"""An execution count as people see it next to a cell."""
_NUMBERED_ID = re.compile(r"^(cell-|)\d{1,5}$", re.MULTILINE)
_key = attrgetter("key")
VERSION = "[0-9a-f]{4,64}"
"""The pattern of a version: the beginning of a source's hash, long enough to tell sources apart."""
_VERSIONED = re.compile(rf"(?P<cell>.+)\.(?P<version>{VERSION})\Z")
MIN_PREFIX = 4
"""Minimum characters of an id's prefix."""
VERSION_LENGTH = 8
"""Characters of the source's hash in a printed versioned address."""


def source_hash(source: str) -> str:
    """Return the hash of a source: 32 hexadecimal characters."""
    return hashlib.blake2b(source.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class OutputsSummary:
    """Summary of a cell's outputs without their content.

    Attributes:
        count: The number of outputs.
        size: Their approximate size in characters of JSON.
        mimes: The distinct MIME types, ``stdout``, ``stderr`` and ``error``, in order.
    """

    count: int = 0
    size: int = 0
    mimes: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether an error is among the outputs."""
        return "error" in self.mimes


@dataclass(frozen=True)
class Cell:
    """One cell of a snapshot. Outputs are read separately (`NotebookDocument.outputs`).

    Attributes:
        key: The name by which operations address the cell: its id if that is unique, else
            ``cell-N`` with its index, which is its position in the notebook, from 0.
        id: The stored id, or None.
        type: code, markdown or raw.
        source: The source as one string.
        metadata: The stored metadata; never modified in place.
        execution_count: The count of a code cell, or None.
        outputs: A summary of the outputs of a code cell.
    """

    key: str
    type: CellType
    source: str
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    execution_count: int | None = None
    outputs: OutputsSummary = OutputsSummary()

    @cached_property
    def hash(self) -> str:
        """The hash of the source."""
        return source_hash(self.source)

    @cached_property
    def stamp(self) -> bytes:
        """The cell's part of a notebook's revision: a hash of its key, type and source."""
        text = f"{self.key}\0{self.type}\0{self.hash}"
        return hashlib.blake2b(text.encode(), digest_size=8).digest()

    @property
    def version(self) -> str:
        """The version of the source in an address."""
        return self.hash[:VERSION_LENGTH]

    def has_version(self, version: str) -> bool:
        """Return whether the source's hash begins with a version, which has at least four digits."""
        return re.fullmatch(VERSION, version) is not None and self.hash.startswith(version)

    @cached_property
    def names(self) -> PythonNames | None:
        """The names that the source defines and uses; None if it is not valid Python."""
        return names_of(self.source)

    @property
    def is_numbered(self) -> bool:
        """Whether the key is the cell's position, because the cell has no unique id."""
        return self.key != self.id

    @property
    def prompt(self) -> str:
        """The execution count as people see it, after a blank; empty without one."""
        return "" if self.execution_count is None else f" [{self.execution_count}]"

    @cached_property
    def first_line(self) -> str:
        """The first line that is not blank, or an empty string."""
        return next((line for line in self.source.splitlines() if line.strip()), "")


@dataclass(frozen=True)
class CellData:
    """A whole cell with its outputs, as the journal stores and undo restores it."""

    type: CellType
    source: str
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    execution_count: int | None = None
    outputs: tuple[Json, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Other fields of the stored cell (attachments, unknown fields)."""


@dataclass(frozen=True)
class Snapshot:
    """Snapshot of a notebook at one revision, without outputs.

    Attributes:
        path: The path relative to the root, with forward slashes.
        cells: The cells, in order.
        metadata: The notebook's metadata.
        nbformat: The major and minor version of the format.
        warnings: Problems of the notebook that do not prevent editing.
        live: Whether it comes from a tab instead of the file.
        is_named: Whether each cell is known to have a unique id, which an edit keeps.
    """

    path: str
    cells: tuple[Cell, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    nbformat: tuple[int, int] = (4, 5)
    warnings: tuple[str, ...] = ()
    live: bool = False
    is_named: bool = False

    @cached_property
    def revision(self) -> str:
        """A hash over the cells' keys, types and sources, independent of outputs."""
        stamps = b"".join(map(attrgetter("stamp"), self.cells))
        return hashlib.blake2b(stamps, digest_size=6).hexdigest()

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The cells' keys, in order."""
        return tuple(map(_key, self.cells))

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The cells' indexes by their keys."""
        return dict(zip(self.keys, range(len(self.keys)), strict=True))

    def index(self, cell: Cell) -> int:
        """Return the position of a cell of the notebook, from 0."""
        return self.places[cell.key]

    def get(self, key: str) -> Cell | None:
        """Return the cell with a key, or None."""
        place = self.places.get(key)
        return None if place is None else self.cells[place]

    def with_cells(self, cells: Iterable[Cell]) -> Snapshot:
        """Return the notebook with other content in the same cells: cached values about their keys stay."""
        made = replace(self, cells=tuple(cells))
        vars(made).update((name, vars(self)[name]) for name in _OF_KEYS if name in vars(self))
        return made

    @cached_property
    def code_hashes(self) -> Mapping[str, Cell]:
        """The code cells that are not blank, each by a hash of the code from the first one to it.

        Another revision has such a hash if and only if all of these cells are the same in it, in order.
        """
        digest = hashlib.blake2b(digest_size=16)
        found: dict[str, Cell] = {}
        for cell in self.cells:
            if cell.type == "code" and cell.source.strip():
                digest.update(f"{len(cell.id or '')} {cell.id} {cell.hash}\0".encode())
                found[digest.hexdigest()] = cell
        return found

    @cached_property
    def short_keys(self) -> Mapping[str, str]:
        """The shortest unique prefix of each key (at least four characters); ``cell-N`` in full."""
        return shortest_prefixes(self.keys)

    @cached_property
    def _sorted_keys(self) -> list[str]:
        return sorted(self.keys)

    def short_key(self, cell: Cell) -> str:
        """Return one of `short_keys`, without computing the others."""
        keys = self._sorted_keys
        return _shortest_prefix(keys, bisect_left(keys, cell.key))

    @cached_property
    def _numbered_ids(self) -> frozenset[str]:
        """The prefixes of ids before a number: ``cell-``, or nothing. Such an address is not a position here.

        It may be the id of a deleted cell, and the position another cell's. Numbers of more than five
        digits are parts of random ids.
        """
        ids = "\n".join(cell.id for cell in self.cells if cell.id)
        return frozenset(match[1] for match in _NUMBERED_ID.finditer(ids))

    def address(self, cell: Cell) -> str:
        """Return the versioned address of a cell, for example ``318a.9f2c41d0``."""
        return f"{self.short_key(cell)}.{cell.version}"

    @property
    def language(self) -> str:
        """The language of the code cells in lower case; empty if the metadata has none."""
        info: Any = self.metadata.get("language_info") or {}
        spec: Any = self.metadata.get("kernelspec") or {}
        name: Any = None
        if isinstance(info, Mapping):
            name = info.get("name")
        if not name and isinstance(spec, Mapping):
            name = spec.get("language")
        return name.lower() if isinstance(name, str) else ""

    @property
    def kernel_name(self) -> str | None:
        """The kernelspec of the notebook's metadata, or None."""
        spec: Any = self.metadata.get("kernelspec")
        name: Any = spec.get("name") if isinstance(spec, Mapping) else None
        return name if isinstance(name, str) and name else None

    def find(self, address: str | int) -> tuple[Cell, str | None]:
        """Return the cell at an address, and the hash prefix of a versioned address or None.

        The address is tried in this order: an exact id, ``[N]`` for an execution count, ``cell-N``, an
        integer index (a negative one counts from the end), a unique prefix of an id, with or without
        ``@``; then the same with a version. ``cell-N`` and ``"N"`` are not positions in a notebook
        with ids of that form.

        >>> snapshot = Snapshot("a.ipynb", (Cell("318a02", "code", "x = 1", id="318a02"),))
        >>> snapshot.find("318a")[0].source, snapshot.find(-1)[0].key
        ('x = 1', '318a02')

        Raises:
            CellNotFound: No cell matches; the message lists up to ten cells.
            InvalidArguments: A prefix or an execution count matches several cells.
        """
        cell = self._find_plain(address)
        if cell is not None:
            return cell, None
        if isinstance(address, str) and (match := _VERSIONED.match(address.strip())):
            cell = self._find_plain(match["cell"])
            if cell is not None:
                return cell, match["version"]
        raise self._missing(address)

    def cell(self, address: str | int) -> Cell:
        """Return the cell at an address; see `find`. A version must be that of the cell.

        Callers that compare the version themselves use `find`.

        Raises:
            CellNotFound, InvalidArguments: See `find`.
            Conflict: The cell's source does not have the version in the address, or its number is now
                another cell's.
        """
        found, version = self.find(address)
        if version is None or found.has_version(version):
            return found
        short = self.short_key(found)
        moved = f", or {short} is another cell now" if found.is_numbered else ""
        raise Conflict(
            f"`{address}`: the cell @{short} of {self.path} changed since that version{moved}.",
            hint="Nothing was done. Its current source is below. Use its current address.",
            cells=[{"cell": found.key, "address": self.address(found), "source": found.source}],
        )

    def _find_plain(self, address: str | int) -> Cell | None:
        if isinstance(address, int):
            return self._at(address)
        text = address.strip()
        if text in self.places:
            return self.get(text)
        if match := _COUNTED.match(text):
            return self._counted(text, int(match[1]))
        if match := _NUMBERED.match(text):
            return None if "cell-" in self._numbered_ids else self._at(int(match[1]))
        if re.fullmatch(r"-?\d{1,9}", text) and "" not in self._numbered_ids:
            cell = self._at(int(text))
            if cell is not None:
                return cell
        prefix = text.removeprefix("@")
        if prefix in self.places:
            return self.get(prefix)
        if len(prefix) < MIN_PREFIX:
            return None
        found = [
            cell
            for cell in self.cells
            if cell.id and cell.key == cell.id and cell.id.startswith(prefix)
        ]
        if len(found) > 1:
            names = ", ".join(self.short_keys[cell.key] for cell in found[:10])
            raise InvalidArguments(
                f"`{text}` matches {len(found)} cell ids: {names}.",
                hint="Use more characters of the id, or the index.",
            )
        return found[0] if found else None

    def _counted(self, text: str, count: int) -> Cell | None:
        """Return the code cell with an execution count; see `find`."""
        found = [cell for cell in self.cells if cell.execution_count == count]
        if len(found) > 1:
            names = ", ".join(f"@{self.short_keys[cell.key]}" for cell in found[:10])
            raise InvalidArguments(
                f"`{text}` is the execution count of {len(found)} cells: {names}.",
                hint="Use the id of the one that you mean.",
            )
        return found[0] if found else None

    def _at(self, index: int) -> Cell | None:
        count = len(self.cells)
        return self.cells[index] if -count <= index < count else None

    def _missing(self, address: str | int) -> CellNotFound:
        cells: Sequence[Cell] = self.cells
        what = f"It has {counted(len(cells))}"
        if isinstance(address, str) and (match := _COUNTED.match(address.strip())):
            wanted = int(match[1])
            ran = [cell for cell in cells if cell.execution_count is not None]
            cells = sorted(ran, key=lambda cell: abs((cell.execution_count or 0) - wanted))
            what = f"The nearest execution counts of {counted(len(self.cells))}"
        known = [
            {
                "cell": self.short_keys[cell.key],
                "index": self.index(cell),
                "execution_count": cell.execution_count,
                "first_line": cell.first_line[:60],
            }
            for cell in cells[:10]
        ]
        lines = "; ".join(
            f"{self.index(cell)}: @{self.short_keys[cell.key]}{cell.prompt} {cell.first_line[:60]}"
            for cell in cells[:10]
        )
        more = f" (and {len(cells) - 10} more)" if len(cells) > 10 else ""
        return CellNotFound(
            f"No cell `{address}` in {self.path}. {what}: {lines or 'none'}{more}.", cells=known
        )


_OF_KEYS = ("keys", "places", "short_keys", "_sorted_keys", "_numbered_ids")
"""The cached properties of a snapshot that depend on the keys and ids of its cells alone."""


def counted(cells: int) -> str:
    """Return a number of cells in words.

    >>> counted(1), counted(2)
    ('1 cell', '2 cells')
    """
    return f"{cells} cell{'' if cells == 1 else 's'}"


def shortest_prefixes(keys: Sequence[str]) -> dict[str, str]:
    """Return the shortest unique prefix of each key, with at least four characters."""
    ordered = sorted(set(keys))
    return {key: _shortest_prefix(ordered, at) for at, key in enumerate(ordered)}


def _shortest_prefix(ordered: Sequence[str], at: int) -> str:
    """Return the shortest unique prefix of one of several keys in their order."""
    key, needed = ordered[at], MIN_PREFIX
    if _NUMBERED.match(key):
        return key
    for neighbour in (*ordered[max(at - 1, 0) : at], *ordered[at + 1 : at + 2]):
        needed = max(needed, _common_prefix(key, neighbour) + 1)
    short = key[:needed]
    # A prefix of digits would be read as an index: extend it until it contains a letter.
    while short != key and short.isdecimal():
        short = key[: len(short) + 1]
    return short


def _common_prefix(a: str, b: str) -> int:
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return length


def cell_keys(ids: Sequence[str | None]) -> list[str]:
    """Return the keys of cells with these stored ids: the id if it is unique, else ``cell-N``.

    An id of the form ``cell-N`` is used as a key only if every cell has a unique id.
    """
    if all(ids) and len(set(ids)) == len(ids):
        return cast("list[str]", [*ids])
    counts = Counter(ids)
    every = all(cell_id and counts[cell_id] == 1 for cell_id in ids)
    return [
        cell_id
        if cell_id and counts[cell_id] == 1 and (every or not _NUMBERED.match(cell_id))
        else f"cell-{index}"
        for index, cell_id in enumerate(ids)
    ]
