"""What a caller has to be told with their next answer."""

from __future__ import annotations

from collections import OrderedDict

from tk_ai_extension.model.callers import Caller

MAX_CALLERS = 1_000
MAX_NOTICES = 20


class Notices:
    """Sentences that wait for a caller's next call; the oldest go at the bounds."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, list[str]] = OrderedDict()
        self._for_anybody: list[str] = []

    def add(self, caller: str | Caller, notice: str) -> None:
        """Leave a sentence for a caller (or the caller with this identity), once."""
        identity = caller if isinstance(caller, str) else caller.identity
        waiting = self._waiting.setdefault(identity, [])
        if notice not in waiting:
            waiting.append(notice)
            del waiting[:-MAX_NOTICES]
        while len(self._waiting) > MAX_CALLERS:
            self._waiting.popitem(last=False)

    def add_for_anybody(self, notice: str) -> None:
        """Add a sentence to the next answer, whoever gets it."""
        self._for_anybody.append(notice)
        del self._for_anybody[:-MAX_NOTICES]

    def forget(self, caller: Caller) -> None:
        """Drop what waits for a caller whose session is over."""
        self._waiting.pop(caller.identity, None)

    def take(self, caller: Caller) -> list[str]:
        """What waits for this caller; it is told once."""
        for_anybody, self._for_anybody = self._for_anybody, []
        return self._waiting.pop(caller.identity, []) + for_anybody
