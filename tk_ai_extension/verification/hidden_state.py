"""Find what a notebook as stored owes to a kernel that is gone: the order of runs, and missing names."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.names import Names, names_of

FindingKind = Literal["order", "gap", "undefined", "later"]

MAX_FINDINGS = 50
"""Maximum findings of one notebook."""

_ALWAYS: Final = frozenset(dir(builtins)) | {
    *("In", "Out", "get_ipython", "display", "exit", "quit", "__name__", "__doc__", "__builtin__"),
    *("__builtins__", "__loader__", "__package__", "__spec__", "__class__", "__module__"),
    *("__qualname__", "__annotations__"),
}
_HISTORY = re.compile(r"_+\Z|_\d+\Z|_i+\Z|_i\d+\Z|_[dio]h\Z")
_CODE_MAGIC = re.compile(r"^([ \t]*)%(?:time|prun|memit|mprun)[ \t]+(?!-)", re.MULTILINE)
_CELL_MAGIC = re.compile(r"\s*%%(\w+)[ \t]*(.*)")
_PYTHON_MAGICS = frozenset(("time", "capture", "prun", "memit", "mprun", "snakeviz"))
_SILENT_MAGICS = frozenset(
    {
        *("bash", "sh", "script", "system", "cmd", "perl", "ruby", "html", "HTML", "svg", "SVG"),
        *("javascript", "js", "latex", "markdown", "writefile", "file", "timeit", "debug"),
    }
)
"""Cell magics that define no names, unless ``--out``, ``--err`` or ``<<`` names some."""
_MAGIC_LINE = re.compile(
    r"^(?:(?:ls|ll|pwd|who(?:s)?|lsmagic|quickref|magic|hist|history)[ \t]*"
    r"|(?:pip|conda|mamba|micromamba|uv)[ \t]+(?:pip[ \t]+)?(?:install|uninstall|add|list|show)\b.*)$",
    re.MULTILINE,
)
"""Lines that are magics without their ``%``."""
_ANY_NAMES = re.compile(
    r"\bimport[ \t]+\*|^[ \t]*%(?:pylab|run|store|load|loadpy|px|sql|R|Rpull|Rget|reload_kedro|cd\b.*;)\b"
    r"|\bexec\s*\(|\bglobals\s*\(\s*\)|\blocals\s*\(\s*\)|\brun_(?:cell|line|cell_magic|line_magic)\s*\("
    r"|\buser_ns\b|\bpush\s*\(",
    re.MULTILINE,
)
"""Code that may define any name."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a run from the top does not have, or has in another order.

    Attributes:
        kind: ``order``: ran before the cell above it; ``gap``: runs between the two are not in the
            notebook; ``undefined``: it uses a name that no cell defines; ``later``: it uses a name that
            only a cell below defines.
        cell: The cell's key.
        index: Its index.
        message: The finding; positions count from 1.
    """

    kind: FindingKind
    cell: str
    index: int
    message: str


def hidden_state(snapshot: Snapshot) -> tuple[Finding, ...]:
    """Return the findings of a notebook, without running it."""
    cells = [cell for cell in snapshot.cells if cell.type == "code" and cell.source.strip()]
    found = [*_order(cells)]
    if snapshot.language in ("", "python"):
        found += _names(cells)
    return tuple(sorted(found, key=lambda each: each.index)[:MAX_FINDINGS])


def _order(cells: Sequence[Cell]) -> Iterator[Finding]:
    """Yield where the stored execution counts do not increase one by one."""
    before, last = "", 0
    for cell in cells:
        count = cell.execution_count
        if count is None:
            continue
        name, missing = f"cell {cell.index + 1} [{count}]", count - last - 1
        if before and count <= last:
            message = f"{name.capitalize()} ran before {before}."
            yield Finding("order", cell.key, cell.index, message)
        elif missing > 0:
            runs = "1 run is" if missing == 1 else f"{missing} runs are"
            place = f"after {before}" if before else "before it"
            message = f"{name.capitalize()}: {runs} not in the notebook, {place}."
            yield Finding("gap", cell.key, cell.index, message)
        before, last = name, count


def _names(cells: Sequence[Cell]) -> Iterator[Finding]:
    """Yield the names that cells use and that no cell above defines."""
    analysed = [(cell, _analysed(cell.source)) for cell in cells]
    definers: dict[str, list[Cell]] = {}
    for cell, names in analysed:
        for name in names.defines if names else ():
            definers.setdefault(name, []).append(cell)
    known: set[str] = set()
    for cell, names in analysed:
        if names is None or _ANY_NAMES.search(cell.source):
            # Where a cell may define any name, nothing is certain below.
            if not _defines_nothing(cell.source):
                return
            continue
        missing = sorted(
            name
            for name in names.uses - known - _ALWAYS
            if not _HISTORY.match(name) and name not in names.deferred & names.defines
        )
        others = {
            name: [each for each in definers.get(name, ()) if each is not cell] for name in missing
        }
        nowhere = [name for name in missing if not others[name]]
        later = [name for name in missing if others[name] and name not in names.deferred]
        uses = f"Cell {cell.index + 1} uses"
        if nowhere:
            message = f"{uses} {_listed(nowhere)}, which no cell defines."
            yield Finding("undefined", cell.key, cell.index, message)
        if later:
            places = sorted({others[name][0].index + 1 for name in later})
            where = ", ".join(map(str, places))
            message = f"{uses} {_listed(later)}, which only cell {where} below defines."
            yield Finding("later", cell.key, cell.index, message)
        known |= names.defines | set(missing)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:5])
    more = len(names) - 5
    return f"{shown} and {more} more" if more > 0 else shown


def _defines_nothing(source: str) -> bool:
    """Whether a cell that is not analysed is known to define no name."""
    magic = _CELL_MAGIC.match(source)
    if magic is None or magic[1] not in _SILENT_MAGICS:
        return False
    return not re.search(r"--out|--err|<<", magic[2])


def _analysed(source: str) -> Names | None:
    """Return the names of a cell; None for a cell in another language or with invalid code."""
    magic = _CELL_MAGIC.match(source)
    captured: list[str] = []
    if magic is not None:
        if magic[1] not in _PYTHON_MAGICS:
            return None
        if magic[1] == "capture":
            captured = re.findall(r"(?<!-)\b[A-Za-z_]\w*", magic[2])[:1]
        source = source[magic.end() :]
    names = names_of(_MAGIC_LINE.sub("pass", _CODE_MAGIC.sub(r"\1", source)))
    return names and Names(names.defines | {*captured}, names.uses, names.deferred)
