"""What ran where: facts from which the state of a cell follows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from tk_ai_extension.model.cells import Snapshot
from tk_ai_extension.model.paths import moved


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The last run of a cell in the kernel that its notebook has now.

    Attributes:
        source_hash: The source that ran.
        sequence: Its place in the order of all runs of this server.
        kernel_id: Where it ran.
        ok: Whether it ended ok.
    """

    source_hash: str
    sequence: int
    kernel_id: str
    ok: bool


class RunRecords:
    """The last run of each cell; forgotten with the kernel, since its variables are gone then."""

    def __init__(self) -> None:
        self._records: dict[str, dict[str, RunRecord]] = {}
        self._sequence = count(1)

    def of(self, path: str) -> dict[str, RunRecord]:
        """The records of a notebook by cell key."""
        return self._records.get(path, {})

    def ran(self, path: str, cell: str, source_hash: str, kernel_id: str, *, ok: bool) -> None:
        """A cell ran here."""
        self._records.setdefault(path, {})[cell] = RunRecord(
            source_hash, next(self._sequence), kernel_id, ok
        )

    def ran_elsewhere(self, kernel_id: str, snapshot: Snapshot, code: str) -> None:
        """Somebody else ran this code: if it is the source of just one cell, that cell ran."""
        matching = [cell for cell in snapshot.cells if cell.type == "code" and cell.source == code]
        if len(matching) == 1:
            self.ran(snapshot.path, matching[0].key, matching[0].hash, kernel_id, ok=True)

    def forget_kernel(self, kernel_id: str) -> None:
        """The kernel's variables are gone, and with them what its runs meant."""
        for path, records in list(self._records.items()):
            kept = {
                cell: record for cell, record in records.items() if record.kernel_id != kernel_id
            }
            if kept:
                self._records[path] = kept
            else:
                del self._records[path]

    def renamed(self, old: str, new: str) -> None:
        """A notebook, or a folder above some, has another path now."""
        for path in list(self._records):
            if (now := moved(path, old, new)) is not None:
                self._records[now] = self._records.pop(path)
