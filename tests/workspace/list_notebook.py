"""A notebook as a plain list of cells: what operations do to it, with nothing around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tk_ai_extension.model.cells import Cell, CellContent, Snapshot, cell_keys, source_hash
from tk_ai_extension.model.errors import CellNotFound, Conflict, InvalidArguments
from tk_ai_extension.model.operations import (
    Action,
    Change,
    Delete,
    Insert,
    Move,
    Operation,
    Replace,
    SetOutputs,
)
from tk_ai_extension.model.outputs import summarise


@dataclass(eq=False)
class Row:
    """A cell that can be followed while others come, go and move."""

    content: CellContent


@dataclass
class _Done:
    """A change before the keys that its cell has in the end are known."""

    action: Action
    row: Row
    key: str
    index: int
    before: CellContent | None
    after: CellContent | None
    index_before: int | None = None
    previous: str | None = None


class ListNotebook:
    """Applies operations one by one, and says what each did as a document does.

    Args:
        cells: What it starts with.
        ids: Whether its format has cell ids.
        neighbours: Whether changes name the cell before (`Change.previous`).
    """

    def __init__(
        self, cells: Sequence[CellContent], *, ids: bool = True, neighbours: bool = True
    ) -> None:
        self.rows = [Row(cell) for cell in cells]
        self.ids = ids
        self.neighbours = neighbours
        self._fresh = 0
        self._names: dict[str, Row] = {}

    def copy(self) -> ListNotebook:
        """Another one in the same state."""
        other = ListNotebook(self.cells, ids=self.ids, neighbours=self.neighbours)
        other._fresh = self._fresh
        return other

    @property
    def cells(self) -> list[CellContent]:
        return [row.content for row in self.rows]

    @property
    def keys(self) -> list[str]:
        return cell_keys([cell.id for cell in self.cells])

    def snapshot(self) -> Snapshot:
        return Snapshot(
            "n.ipynb",
            tuple(
                Cell(
                    index=index,
                    key=key,
                    type=cell.type,
                    source=cell.source,
                    id=cell.id,
                    metadata=cell.metadata,
                    execution_count=cell.execution_count,
                    outputs=summarise(cell.outputs),
                )
                for index, (key, cell) in enumerate(zip(self.keys, self.cells, strict=True))
            ),
            nbformat=(4, 5) if self.ids else (4, 4),
        )

    def apply(self, operations: Sequence[Operation]) -> list[Change]:
        """All of them; what they did, with the keys that the cells have in the end."""
        self.begin()
        done = [self.step(operation) for operation in operations]
        keys = {id(row): key for row, key in zip(self.rows, self.keys, strict=True)}
        return [
            Change(
                action=change.action,
                cell=keys.get(id(change.row), change.key),
                index=change.index,
                before=change.before,
                after=change.after,
                index_before=change.index_before,
                previous=change.previous if self.neighbours else None,
            )
            for change in done
        ]

    def begin(self) -> None:
        """A list of operations begins: they name cells by the keys that these have now."""
        self._names = dict(zip(self.keys, self.rows, strict=True))

    def names(self) -> list[str | None]:
        """What the list of operations calls the cells, in order; None for what has no name yet."""
        named = {id(row): name for name, row in self._names.items()}
        return [named.get(id(row)) for row in self.rows]

    def step(self, operation: Operation) -> _Done:
        """The next operation of a list."""
        if isinstance(operation, Insert):
            return self._insert(operation)
        key = operation.cell
        row = self._names.get(key)
        if row is None or row not in self.rows:
            raise CellNotFound(key)
        index = self.rows.index(row)
        before = row.content
        previous = self.keys[index - 1] if index else None
        match operation:
            case Replace() | Delete() if operation.expect not in (None, source_hash(before.source)):
                raise Conflict(key)
            case Replace(source=source, type=kind):
                row.content = self._replaced(before, source, kind or before.type, operation)
                return _Done("replace", row, key, index, before, row.content, index)
            case Delete():
                del self.rows[index]
                return _Done("delete", row, key, index, before, None, index, previous)
            case Move(to=to):
                if not 0 <= to < len(self.rows):
                    raise InvalidArguments(str(to))
                self.rows.insert(to, self.rows.pop(index))
                return _Done("move", row, key, to, before, before, index, previous)
            case SetOutputs(outputs=outputs, execution_count=number):
                row.content = replace(before, outputs=outputs, execution_count=number)
                return _Done("outputs", row, key, index, before, row.content, index)

    def _insert(self, operation: Insert) -> _Done:
        content = operation.content
        used = {cell.id for cell in self.cells}
        if not self.ids:
            content = replace(content, id=None)
        elif content.id is None or content.id in used:
            self._fresh += 1
            content = replace(content, id=f"fresh-{self._fresh}")
        index = len(self.rows) if operation.index is None else operation.index
        if not 0 <= index <= len(self.rows):
            raise InvalidArguments(str(index))
        row = Row(content)
        self.rows.insert(index, row)
        if content.id is not None:
            self._names[content.id] = row
        return _Done("insert", row, self.keys[index], index, None, content)

    @staticmethod
    def _replaced(before: CellContent, source: str, kind: str, operation: Replace) -> CellContent:
        kept = operation.keep_outputs and kind == before.type == "code"
        return replace(
            before,
            source=source,
            type=kind,
            outputs=before.outputs if kept else (),
            execution_count=before.execution_count if kept else None,
            # Attachments belong to text; a cell turned into code loses them.
            extra={} if kind == "code" else before.extra,
        )
