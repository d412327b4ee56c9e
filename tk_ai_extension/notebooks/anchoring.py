"""Places that were worked out on a snapshot, as places beside cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tk_ai_extension.model.cells import Snapshot, source_hash
from tk_ai_extension.model.operations import Delete, Insert, Move, Operation
from tk_ai_extension.notebooks import cellforms


def anchored(snapshot: Snapshot, operations: Sequence[Operation]) -> list[Operation]:
    """Return operations that put cells below others instead of at indexes of the snapshot.

    Others may insert, move and delete cells between the planning of operations and their commit. An
    index then is another place, or none; below the same cell is the place that was meant. A cell at
    the top stays at index 0. A notebook whose format has no ids knows its cells by their indexes
    alone: its operations stay as they are.

    Args:
        snapshot: The notebook for which the operations were planned.
        operations: In order, each index counted in the result of those before it.
    """
    if not cellforms.has_ids(snapshot.nbformat):
        return list(operations)
    order = [cell.key for cell in snapshot.cells]
    # A cell whose id is not its own is named by its index, too.
    named = {cell.key for cell in snapshot.cells if cell.key == cell.id}
    found: list[Operation] = []
    for operation in operations:
        match operation:
            case Insert(content, index=int(index)):
                key = content.id if content.id and content.id not in order else None
                key = key or _id_of(f"{snapshot.revision} {len(found)} {content.source}", order)
                order.insert(index, key)
                named.add(key)
                content = replace(content, id=key)
                found.append(Insert(content, index=index))
                if index and order[index - 1] in named:
                    found[-1] = Insert(content, after=order[index - 1])
            case Move(cell, to):
                order.remove(cell)
                order.insert(to, cell)
                below = order[to - 1] if to else None
                found.append(Move(cell, to, after=below if below in named else None))
            case Delete(cell):
                order.remove(cell)
                found.append(operation)
            case _:
                found.append(operation)
    return found


def _id_of(seed: str, taken: Sequence[str]) -> str:
    """An id for a new cell that is the same whenever the same is planned: an approval is for it."""
    cell_id = f"c{source_hash(seed)[:7]}"
    return cell_id if cell_id not in taken else _id_of(f"{seed}+", taken)
